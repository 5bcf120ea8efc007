"""State whose class is gone, or isn't as it was: what the error says, and how to go on without it."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.source_identities import PartitionPosition
from penstock.runners.execution.state import schema as state_shapes
from penstock.runners.execution.state.keyed_state import ChangeKind
from penstock.runners.execution.streaming.snapshot_chunks import (
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
from penstock.runners.execution.windows.snapshots import WINDOWS_AT, WindowColumns, WindowRecord
from penstock.sdk.errors import CheckpointMismatchError, CorruptSnapshotError, UnknownFormatError
from penstock.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec
from penstock.windowing import GlobalWindow, IntervalWindow


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
        (STATE, lambda value: ("window", "key", "acc", ChangeKind.PUT, [value]), "state 'acc'"),
        (TIMERS, lambda value: ("window", value, "due", 5), "timer 'due'"),
        (WINDOWS, lambda value: WindowRecord("key", None, ((value,),)), "windows"),
        (KEPT, lambda value: (value, 0), "kept"),
        (POSITIONS, lambda value: PartitionPosition({"partition": value}, 0, 0, False), "positions"),
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
    rows = [("w", "k", "acc", ChangeKind.PUT, module.Acc(1)), ("w", "k", "fine", ChangeKind.PUT, [1])]
    chunks = [Chunk("Gone", STATE, 7, rows), Chunk("Keep", STATE, 7, rows), Chunk("Keep", KEPT, 7, [(5,)])]
    records = list(records_of(chunks))
    change(module, how)
    origin = Origin("checkpoint 8 in kept", frozenset({"Keep"}), frozenset({("Keep", "state acc")}))
    expected = [Chunk("Gone", STATE, 7, []), Chunk("Keep", STATE, 7, rows[1:]), Chunk("Keep", KEPT, 7, [(5,)])]
    assert expected == list(chunks_of(records, origin))


def test_windows_that_are_dropped_need_no_class(module: Any) -> None:
    """In columns, as those that don't merge are kept: the others of the grouping are had."""
    row = [None] * 19
    row[WINDOWS_AT] = (GlobalWindow(),)
    columns = WindowColumns.of(["gone", "kept"], zip((*row[:7], module.Acc(1), *row[8:]), (*row[:7], 5, *row[8:])))
    records = list(records_of([Chunk("Sum", WINDOWS, 7, columns)]))
    change(module, None)
    origin = Origin("checkpoint 8 in kept", frozenset({"Sum"}), frozenset({("Sum", state_shapes.WINDOWS)}))
    (chunk,) = chunks_of(records, origin)
    assert ["kept"] == [record.key for record in chunk.data]


def test_what_is_no_chunk_at_all_is_a_corrupt_file() -> None:
    """Its checksum holds, so another program wrote it like that."""
    with pytest.raises(CorruptSnapshotError, match=r"kept/files/a\.full: found b'no chunk' \.\.\., expected a chunk"):
        list(chunks_of([b"no chunk"], Origin("checkpoint 8").of_file("kept/files/a.full")))


def test_a_chunk_of_another_version_is_refused_by_name() -> None:
    """With the file, what was found there, and what is known."""
    header = msgspec.msgpack.encode(("clocks", 2, "clocks", "Sum", None))
    record = struct.pack(">I", len(header)) + header + struct.pack(">Q", 0)
    with pytest.raises(UnknownFormatError) as error:
        list(chunks_of([record], Origin("checkpoint 8").of_file("kept/files/a.full")))
    assert str(error.value).startswith(
        "kept/files/a.full: found the chunk 'clocks', version 2; expected version 1 of it. Another version of penstock"
    )


def test_a_stored_type_of_another_version_is_refused_by_name() -> None:
    """It is a value that a user, or a step, has put there."""
    data = pickle.dumps(IntervalWindow(0, 1)).replace(b"interval-window/1", b"interval-window/7")
    header = msgspec.msgpack.encode(("kept", 1, "kept", "Sum", None))
    record = struct.pack(">I", len(header)) + header + struct.pack(">Q", len(data)) + data
    with pytest.raises(UnknownFormatError) as error:
        list(chunks_of([record], Origin("checkpoint 8").of_file("kept/files/a.full")))
    assert str(error.value).startswith(
        "kept/files/a.full: found the stored type 'interval-window', version 7; expected version 1 of it. Another"
    )


class Keep(beam.DoFn):
    ACC = ReadModifyWriteStateSpec("acc", beam.coders.PickleCoder())
    FINE = BagStateSpec("fine", beam.coders.PickleCoder())

    def process(
        self, element: Any, acc: Any = beam.DoFn.StateParam(ACC), fine: Any = beam.DoFn.StateParam(FINE)
    ) -> None:
        if made := getattr(importlib.import_module("accs"), "Acc", None):
            acc.write(made(element[1]))
        fine.add(element[1])


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_restart_with_a_class_that_is_gone_says_where_it_was(
    tmp_path: pathlib.Path, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream, in this process and in others, which import the module themselves."""
    kept, source = tmp_path / "kept", tmp_path / "modules" / "accs.py"
    source.parent.mkdir()
    source.write_text("class Acc:\n    def __init__(self, n):\n        self.n = n\n")
    monkeypatch.syspath_prepend(source.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def started() -> Any:
        flags = {"checkpoint_dir": str(kept), "checkpoint_interval": 0.1, "max_restarts": 0}
        p = beam.Pipeline(options=PipelineOptions([], parallelism=parallelism, **flags))
        numbers = p | beam.io.GenerateSequence(0, None, 500, 1) | beam.WithKeys(lambda n: n % 5)
        _ = numbers | "Keep" >> beam.ParDo(Keep())
        return p.run()

    result = started()
    wait_until(lambda: len(list(kept.rglob("manifest-*"))) > 2, "there are checkpoints")
    result.cancel()
    source.write_text("")
    sys.modules.pop("accs", None)
    with pytest.raises(CheckpointMismatchError) as error:
        started().wait_until_finish()
    assert str(error.value).startswith("Keep: its state 'acc', as checkpoint ")
    assert f" in {kept} has it, can't be read (of accs.Acc): AttributeError: " in str(error.value)
    sys.modules.pop("accs", None)
