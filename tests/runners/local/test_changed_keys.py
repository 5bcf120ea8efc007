"""A pipeline whose keys are of another type than they were: the next start with its checkpoints."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from support.pipelines.coded_keys import Name, NameCoder
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.coders import registry
from penstock.sdk.errors import CheckpointMismatchError
from penstock.sdk.userstate import CombiningValueStateSpec
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows

KeyOf = Callable[[int], Any]


@attrs.frozen
class Place:
    """A key with fields."""

    x: int
    y: Any


class Counts(beam.DoFn):
    """How many numbers of a key there were."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(1)
        yield pair[0], count.read()


def with_state(pairs: Any) -> Any:
    return pairs | "Step" >> beam.ParDo(Counts())


def summed(pairs: Any) -> Any:
    each = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    return pairs | each | "Step" >> beam.CombinePerKey(sum)


class Drops(beam.DoFn):
    """Nothing comes out, so that nothing has to be written."""

    def process(self, element: Any) -> None:
        pass


def started(directory: pathlib.Path, build: Any, key_of: KeyOf, **flags: Any) -> Any:
    """A stream of numbers under keys, without an end."""
    options = PipelineOptions(parallelism=2, workers=1, checkpoint_interval=0.1, checkpoint_dir=str(directory), **flags)
    p = beam.Pipeline(options=options)
    pairs = p | beam.io.GenerateSequence(0, None, 200, 1) | "By" >> beam.Map(lambda n: (key_of(n), n))
    _ = build(pairs) | "End" >> beam.ParDo(Drops())
    return p.run()


def stop_with_state(directory: pathlib.Path, build: Any, key_of: KeyOf, **flags: Any) -> None:
    result = started(directory, build, key_of, **flags)
    wait_until(lambda: any(n.written > 50 for n in result._job.status.attempted.counts.steps.values()), "elements")
    assert "CANCELLED" == result.stop_with_savepoint()


CHANGES = {
    "int to str": (lambda n: n % 5, lambda n: str(n % 5), "type str, and those in the checkpoint of type number"),
    "a part of a tuple": (
        lambda n: ("k", n % 5),
        lambda n: ("k", str(n % 5)),
        r"type \(str, str\), and those in the checkpoint of type \(str, number\)",
    ),
    "members of a frozenset": (
        lambda n: frozenset({n % 5, -1}),
        lambda n: frozenset({str(n % 5), "-1"}),
        "type frozenset of str, and those in the checkpoint of type frozenset of number",
    ),
    "a field, which may be None": (
        lambda n: Place(n % 5, None if n % 2 else n % 3),
        lambda n: Place(n % 5, str(n % 3)),
        r"type Place\(number, str\), and those in the checkpoint of type Place\(number, None\) or Place\(number, num",
    ),
    "another length": (lambda n: ("k", n % 5), lambda n: ("k", n % 5, 0), r"type \(str, number, number\)"),
}


@pytest.mark.parametrize("build", [with_state, summed])
@pytest.mark.parametrize("change", CHANGES)
def test_keys_of_another_type_are_refused_by_name(tmp_path: pathlib.Path, build: Any, change: str) -> None:
    """Their state would begin anew; the job doesn't try again, and nothing is committed."""
    before, after, expected = CHANGES[change]
    stop_with_state(tmp_path, build, before)
    with pytest.raises(CheckpointMismatchError, match=rf"Step: its keys are of {expected}.*--allow_new_key_types"):
        started(tmp_path, build, after).wait_until_finish()
    result = started(tmp_path, build, after, allow_new_key_types=True)
    wait_until(lambda: result._job.checkpoints_completed >= 2 or "RUNNING" != result.state, "checkpoints")
    assert "DRAINED" == result.drain()


def test_strong_delivery_refuses_them_too(tmp_path: pathlib.Path) -> None:
    stop_with_state(tmp_path, with_state, lambda n: n % 5, delivery="strong")
    with pytest.raises(CheckpointMismatchError, match="Step: its keys are of type str"):
        started(tmp_path, with_state, lambda n: str(n % 5), delivery="strong").wait_until_finish()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda n: n % 5, lambda n: float(n % 5)),
        (lambda n: n % 5 if n % 2 else None, lambda n: None),
        (lambda n: n % 5 if n % 2 else str(n % 5), lambda n: str(n % 5)),
        (lambda n: ("k", n % 5), lambda n: ("k", None)),
        (lambda n: Place(n % 5, None), lambda n: Place(n % 5, str(n % 3))),
    ],
    ids=["equal numbers", "no key", "one of two types", "no part", "no field before"],
)
def test_keys_that_may_belong_to_those_before_are_gone_on_with(
    tmp_path: pathlib.Path, before: KeyOf, after: KeyOf
) -> None:
    stop_with_state(tmp_path, with_state, before)
    result = started(tmp_path, with_state, after)
    wait_until(lambda: result._job.checkpoints_completed >= 2 or "RUNNING" != result.state, "checkpoints")
    assert "DRAINED" == result.drain()


class OtherCoder(NameCoder):
    def encode(self, value: Any) -> bytes:
        return b"other " + super().encode(value)


def test_keys_with_another_coder_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    """Their bytes are others; with the same coder their state goes on."""
    before = registry.registered()
    try:
        registry.register_coder(Name, NameCoder)
        stop_with_state(tmp_path, with_state, lambda n: Name(str(n % 5)))
        stop_with_state(tmp_path, with_state, lambda n: Name(str(n % 5)))
        registry.register_coder(Name, OtherCoder)
        match = r"type Name \(by OtherCoder\), and those in the checkpoint of type Name \(by NameCoder\)"
        with pytest.raises(CheckpointMismatchError, match=match):
            started(tmp_path, with_state, lambda n: Name(str(n % 5))).wait_until_finish()
    finally:
        registry.register_all(before)
