"""Workers of a bounded run that are killed in each kind of task: same output, or an error, and no file is left."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pytest

import penstock as beam
from penstock.coders import Coder, VarIntCoder
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.batch import groupings
from penstock.sdk.errors import PenstockError
from penstock.sdk.sources.bounded import BoundedSource
from penstock.transforms.userstate import CombiningValueStateSpec

N = 300


@attrs.frozen
class Kill:
    """Kills the worker that calls it: once, if `marker` is a path that doesn't exist yet, or each time.

    In a worker each task sends several blocks of each key, so that accumulators are merged.
    """

    marker: pathlib.Path
    always: bool
    parent: int = attrs.field(factory=os.getpid)

    def __call__(self, element: Any = None) -> Any:
        if os.getpid() != self.parent:
            with contextlib.suppress(FileExistsError):
                self.marker.touch(exist_ok=self.always)
                os.kill(os.getpid(), signal.SIGKILL)
        return element

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.marker, self.always, self.parent)


def _arrived(marker: pathlib.Path, always: bool, parent: int) -> Kill:
    if os.getpid() != parent:
        groupings.TABLE_BYTES = 1
    return Kill(marker, always, parent)


class Numbers(BoundedSource[int]):
    def __init__(self, kill: Kill) -> None:
        self.kill = kill

    def split(self, desired_splits: int) -> list[Any]:
        return [range(i, N, desired_splits) for i in range(desired_splits)]

    def read(self, split: Any) -> Iterator[int]:
        yield from split
        self.kill()


class Sum(beam.CombineFn):
    """Sums; kills where it is told to."""

    def __init__(self, **kills: Kill) -> None:
        self.kills = kills

    def _kill(self, where: str) -> None:
        if where in self.kills:
            self.kills[where]()

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def compact(self, accumulator: int) -> int:
        self._kill("compact")
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self._kill("merge")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self._kill("extract")
        return accumulator


class Totals(beam.DoFn):
    """Running sums, of which the largest is the sum."""

    TOTAL = CombiningValueStateSpec("total", VarIntCoder(), sum)

    def __init__(self, kill: Kill) -> None:
        self.kill = kill

    def process(self, element: Any, total: Any = beam.DoFn.StateParam(TOTAL)) -> Iterator[Any]:
        key, value = element
        total.add(value)
        self.kill()
        yield key, total.read()


class Killing(Coder):
    """Encodes lines, and kills."""

    def __init__(self, kill: Kill) -> None:
        self.kill = kill

    def encode(self, value: str) -> bytes:
        self.kill()
        return value.encode()

    def is_deterministic(self) -> bool:
        return True


def numbers(p: beam.Pipeline) -> Any:
    return p | beam.Create(range(N))


def pairs(p: beam.Pipeline) -> Any:
    return numbers(p) | "pair" >> beam.Map(lambda n: (n % 7, n))


def read(p: beam.Pipeline, kill: Kill) -> Any:
    numbers = p | beam.io.Read(Numbers(kill))
    return numbers | beam.Map(lambda n: (n % 7, n)) | beam.CombinePerKey(sum)


def first_stage(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.Map(kill) | beam.CombinePerKey(sum)


def fold(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.CombinePerKey(Sum(compact=kill))


def merge(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.CombinePerKey(Sum(merge=kill))


def extract(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.CombinePerKey(Sum(extract=kill))


def sessions(p: beam.Pipeline, kill: Kill) -> Any:
    stamped = pairs(p) | beam.WithTimestamps(lambda pair: pair[1]) | beam.WindowInto(beam.window.Sessions(1000))
    totals = stamped | beam.CombinePerKey(Sum(merge=kill))
    return totals | "at the end" >> beam.WindowInto(beam.window.GlobalWindows())


def group(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.GroupByKey() | beam.MapTuple(lambda key, values: kill((key, sum(values))))


def co_group(p: beam.Pipeline, kill: Kill) -> Any:
    odd = p | "more" >> beam.Create(range(1, N, 2)) | "odd" >> beam.Map(lambda n: (n % 7, n))
    both = {"even": pairs(p) | beam.Filter(lambda pair: pair[1] % 2 == 0), "odd": odd}
    joined = both | beam.CoGroupByKey()
    return joined | beam.MapTuple(lambda key, found: kill((key, sum(found["even"]) + sum(found["odd"]))))


def stateful(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.ParDo(Totals(kill)) | beam.CombinePerKey(max)


def side_input(p: beam.Pipeline, kill: Kill) -> Any:
    factors = p | "factors" >> beam.Create([1]) | "killed" >> beam.Map(kill)
    scaled = pairs(p) | beam.Map(lambda pair, factors: (pair[0], pair[1] * factors[0]), beam.pvalue.AsList(factors))
    return scaled | beam.CombinePerKey(sum)


def with_side_input(p: beam.Pipeline, kill: Kill) -> Any:
    factor = beam.pvalue.AsSingleton(p | "factor" >> beam.Create([1]))
    scaled = pairs(p) | beam.Map(lambda pair, factor: kill((pair[0], pair[1] * factor)), factor)
    return scaled | beam.CombinePerKey(sum)


def tagged(p: beam.Pipeline, kill: Kill) -> Any:
    def split(pair: Any) -> Any:
        yield kill(pair) if pair[1] % 2 else beam.pvalue.TaggedOutput("even", pair)

    odd, even = pairs(p) | beam.FlatMap(split).with_outputs("even", main="odd")
    return (odd, even) | beam.Flatten() | beam.CombinePerKey(sum)


def triggered(p: beam.Pipeline, kill: Kill) -> Any:
    once = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(10)),
        accumulation_mode=beam.trigger.AccumulationMode.DISCARDING,
    )
    panes = pairs(p) | once | "panes" >> beam.CombinePerKey(Sum(extract=kill))
    at_the_end = beam.WindowInto(beam.window.GlobalWindows(), trigger=beam.trigger.DefaultTrigger())
    return panes | "at the end" >> at_the_end | beam.CombinePerKey(sum)


def sink(p: beam.Pipeline, kill: Kill) -> Any:
    return pairs(p) | beam.CombinePerKey(sum)


KINDS: list[Callable[[beam.Pipeline, Kill], Any]] = [
    read,
    first_stage,
    fold,
    merge,
    extract,
    sessions,
    group,
    co_group,
    stateful,
    side_input,
    with_side_input,
    tagged,
    triggered,
    sink,
]


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("build", KINDS, ids=lambda build: build.__name__)
def test_a_worker_that_is_killed_in_a_task_leaves_no_trace(
    build: Callable[[beam.Pipeline, Kill], Any], always: bool, tmp_path: pathlib.Path, temporary: pathlib.Path
) -> None:
    """The task is retried, with the same output; after the last retry the error names the step, and nothing is left."""
    kill = Kill(tmp_path / "killed", always)
    p = beam.Pipeline(options=PipelineOptions([], parallelism=2, max_restarts=1))
    totals = build(p, kill) | "format" >> beam.MapTuple(lambda key, total: f"{key} {total}")
    coder = {"coder": Killing(kill)} if build is sink else {}
    output = tmp_path / "output"
    output.mkdir()
    totals | beam.io.WriteToText(output / "out", **coder)
    if always:
        with pytest.raises(PenstockError, match=r"by SIGKILL .*dmesg\); it was running .*--max_restarts=1 retries"):
            p.run()
        assert [] == list(output.iterdir())
    else:
        p.run()
        lines = sorted(line for path in output.glob("out*") for line in path.read_text().splitlines())
        assert [f"{key} {sum(range(key, N, 7))}" for key in range(7)] == lines
        assert all(path.name.startswith("out") for path in output.iterdir())
    assert kill.marker.exists()
    assert [] == list(temporary.iterdir())
