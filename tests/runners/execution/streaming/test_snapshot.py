"""Snapshots: the restored state is the one that was written, at any parallelism."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.stages.side_inputs import ViewChangeKind
from penstock.runners.execution.streaming.snapshot import Restored
from penstock.runners.execution.streaming.snapshot_chunks import (
    IN_FLIGHT_BROADCAST,
    KEPT,
    MEMORY,
    STATE,
    TIMERS,
    VIEW,
    WINDOWS,
    Chunk,
    chunks_of,
    records_of,
)
from penstock.runners.execution.windows.snapshots import WindowRecord
from penstock.runners.local.channels.messages import Barrier
from penstock.sdk.coders.key_encoding import KEY_GROUPS
from penstock.sdk.errors import SerializationError
from penstock.sdk.userstate import BagStateSpec, TimerSpec, on_timer
from penstock.windowing import IntervalWindow


def test_chunks_are_records_and_chunks_again() -> None:
    """Large ones too, which are several records."""
    chunks = [Chunk("Sum", WINDOWS, group, [WindowRecord("k", None, (("x" * 300_000,),))]) for group in range(9)]
    records = list(records_of(chunks))
    assert len(records) > 1
    assert chunks == list(chunks_of(records))
    assert [] == list(chunks_of(records_of([])))


def test_what_can_not_be_pickled_is_told_with_its_step() -> None:
    """Before anything is written."""
    with pytest.raises(SerializationError) as raised:
        list(records_of([Chunk("Sum", WINDOWS, 0, [WindowRecord("k", None, ((i for i in range(3)),))])]))
    assert "Sum" in str(raised.value)


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [WINDOWS, STATE, TIMERS, KEPT])
def test_what_is_kept_by_key_is_one_subtasks(before: int, after: int, kind: str) -> None:
    """Of every key group everything, and nothing twice."""
    found: Counter[int] = Counter()
    for index in range(after):
        restored = Restored(index, after, compares_keys=False)
        for own in range(before):
            chunks = [Chunk("Step", kind, group, [group]) for group in range(KEY_GROUPS) if group % before == own]
            restored.add([chunks], own, before)
        chained = restored.chained("Step", kind)
        found.update([*chained, *(group for groups in restored.newest("Step", kind) for group in groups)])
    assert Counter(range(KEY_GROUPS)) == found


@pytest.mark.parametrize("kind", [WINDOWS, STATE, TIMERS, VIEW])
def test_of_a_chain_what_may_be_large_is_all_of_it_and_the_rest_the_newest(kind: str) -> None:
    """A whole snapshot, and then what has changed."""
    restored = Restored(0, 1)
    whole = [Chunk("Step", kind, 1, ["old"]), Chunk("Step", KEPT, 1, ["old"])]
    changes = [Chunk("Step", kind, 1, ["new"]), Chunk("Step", KEPT, 1, ["new"])]
    restored.add([whole, changes], 0, 1)
    assert (["old", "new"], [["new"]]) == (restored.chained("Step", kind), restored.newest("Step", KEPT))


def test_what_waits_without_a_key_goes_on_once_and_what_may_be_retracted_is_known_to_all() -> None:
    """Where there are more subtasks than before."""
    kept: list[Any] = []
    memories: list[Any] = []
    for index in range(3):
        restored = Restored(index, 3)
        for own in range(2):
            restored.add([[Chunk("Step", KEPT, None, own), Chunk("Step", MEMORY, None, [(own, "outputs")])]], own, 2)
        kept.append(restored.newest("Step", KEPT))
        memories.append([outputs for part in restored.memories("Step") for outputs in part])
    assert [[0, 1], [], []] == kept
    assert [[(0, "outputs"), (1, "outputs")]] * 3 == memories


def test_of_a_side_input_the_view_with_most_windows_is_restored() -> None:
    """A subtask that was behind may have elements for windows that another one has freed."""
    restored = Restored(0, 1)
    for own, freed in enumerate([70, 50, 60]):
        changes = [(IntervalWindow(0, 1), ViewChangeKind.ALL, [own], 0), (None, ViewChangeKind.FREED, [freed], 0)]
        in_flight = Chunk("Side", IN_FLIGHT_BROADCAST, None, [own])
        restored.add([[Chunk("Side", VIEW, None, changes), in_flight]], own, 3)
    assert [1] == restored.chained("Side", VIEW)[0][2]
    assert [[1]] == restored.newest("Side", IN_FLIGHT_BROADCAST)


class Remember(beam.DoFn):
    """Puts out at the end what has come of a key."""

    SEEN = BagStateSpec("seen")
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN), end: Any = beam.DoFn.TimerParam(END)
    ) -> None:
        seen.add(element[1])
        end.set(10**9)

    @on_timer(END)
    def at_the_end(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        yield key, sorted(seen.read())


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_state_and_timers_come_back_in_other_subtasks(before: int, after: int) -> None:
    """Taken in the middle, or when all had been read."""

    def build(p: Any) -> None:
        pairs = p | beam.Create([(key, n) for n in range(4) for key in "abcdefgh"])
        pairs | beam.ParDo(Remember()) | beam.io.Write(Recording())

    found = ByHand(graph_of(build, before))
    for _ in range(3):
        for subtask in found.subtasks.values():
            subtask.step()
    found.inject(Barrier(1, epoch=1))
    found.run()
    again = ByHand(graph_of(build, after), found.snapshots())
    again.run()
    again.inject(Barrier(2, epoch=2))
    again.run()
    assert [(key, [0, 1, 2, 3]) for key in "abcdefgh"] == sorted(again.written() + found.written())
