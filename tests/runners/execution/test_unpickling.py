"""State whose class is gone, or isn't as it was: what the error says, and how to go on without it."""

from __future__ import annotations

import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.task_snapshot import (
    KEPT,
    POSITIONS,
    STATE,
    TIMERS,
    WINDOWS,
    Chunk,
    Origin,
    chunks_of,
    records_of,
)
from penstock.runners.execution.unpickling import UnreadableChunk
from penstock.sdk.errors import CheckpointMismatchError
from penstock.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec


class Before:
    def __init__(self, n: int) -> None:
        self.n = n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


class Strict:
    def __init__(self, n: int) -> None:
        self.n = n

    def __setstate__(self, state: Any) -> None:
        raise ValueError("of another version")


@pytest.fixture
def module() -> Iterator[Any]:
    """A module of the user's with a class `Acc`, as it was when the checkpoint was taken."""
    made: Any = types.ModuleType("accs")
    made.Acc = type("Acc", (Before,), {"__module__": "accs"})
    sys.modules["accs"] = made
    yield made
    del sys.modules["accs"]


def change(module: Any, how: Any) -> None:
    """The class as it is on the next start."""
    if how is None:
        del module.Acc
    else:
        module.Acc = type("Acc", (how,), {"__module__": "accs", **({"__slots__": ()} if how is Slotted else {})})


CHANGES = [None, Slotted, Strict]
IDS = ["gone", "slots", "strict"]


@pytest.mark.parametrize("how", CHANGES, ids=IDS)
@pytest.mark.parametrize(
    ("kind", "record", "what"),
    [
        (STATE, lambda value: ("window", "key", "acc", 0, [value]), "state 'acc'"),
        (TIMERS, lambda value: ("window", value, "due", 5), "timer 'due'"),
        (WINDOWS, lambda value: ("key", None, ((value,),)), "windows"),
        (KEPT, lambda value: (value, 0), "kept"),
        (POSITIONS, lambda value: [{"partition": value}], "positions"),
    ],
)
def test_the_error_names_step_state_class_and_checkpoint(
    module: Any, how: Any, kind: str, record: Any, what: str
) -> None:
    """Python's own names the class at best."""
    rows = [record(1), record(module.Acc(2)), record(3)]
    records = list(records_of([Chunk("Sum", kind, 7, rows), Chunk("Last", STATE, 7, [])]))
    change(module, how)
    with pytest.raises(CheckpointMismatchError) as error:
        list(chunks_of(records, Origin("checkpoint 8 in kept")))
    assert str(error.value).startswith(
        f"Sum: its {what}, as checkpoint 8 in kept has it, can't be read (of accs.Acc): "
    )
    assert "start with --allow_dropped_state" in str(error.value)


@pytest.mark.parametrize("how", CHANGES, ids=IDS)
def test_what_is_dropped_needs_no_class(module: Any, how: Any) -> None:
    """All of a step that is no more; of one that keeps other state the rest is had, and so are all other chunks."""
    rows = [("w", "k", "acc", 0, module.Acc(1)), ("w", "k", "fine", 0, [1])]
    chunks = [Chunk("Gone", STATE, 7, rows), Chunk("Keep", STATE, 7, rows), Chunk("Keep", KEPT, 7, [(5,)])]
    records = list(records_of(chunks))
    change(module, how)
    origin = Origin("checkpoint 8 in kept", frozenset({"Keep"}), frozenset({("Keep", "state acc")}))
    expected = [Chunk("Gone", STATE, 7, []), Chunk("Keep", STATE, 7, rows[1:]), Chunk("Keep", KEPT, 7, [(5,)])]
    assert expected == list(chunks_of(records, origin))


def test_what_is_no_chunk_at_all_has_no_label() -> None:
    """Nothing of it can be had."""
    assert UnreadableChunk(b"no pickle").label is None


class Keep(beam.DoFn):
    ACC = ReadModifyWriteStateSpec("acc", beam.coders.PickleCoder())
    FINE = BagStateSpec("fine", beam.coders.PickleCoder())

    def process(
        self, element: Any, acc: Any = beam.DoFn.StateParam(ACC), fine: Any = beam.DoFn.StateParam(FINE)
    ) -> None:
        made = getattr(sys.modules["accs"], "Acc", None)
        if made is not None:
            acc.write(made(element[1]))
        fine.add(element[1])


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_restart_with_a_class_that_is_gone_says_where_it_was(
    module: Any, tmp_path: pathlib.Path, parallelism: int
) -> None:
    """Of a stream, in this process and in others."""

    def started() -> Any:
        flags = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 0.1, "max_restarts": 0}
        p = beam.Pipeline(options=PipelineOptions([], parallelism=parallelism, **flags))
        numbers = p | beam.io.GenerateSequence(0, None, 500, 1) | beam.WithKeys(lambda n: n % 5)
        _ = numbers | "Keep" >> beam.ParDo(Keep())
        return p.run()

    result = started()
    wait_until(lambda: len(list(tmp_path.rglob("manifest-*"))) > 2, "there are checkpoints")
    result.cancel()
    change(module, None)
    with pytest.raises(CheckpointMismatchError) as error:
        started().wait_until_finish()
    assert str(error.value).startswith("Keep: its state 'acc', as checkpoint ")
    assert f" in {tmp_path} has it, can't be read (of accs.Acc): AttributeError: " in str(error.value)
