"""Every transcript, played to a pipeline: as a TestStream, and where no clock moves as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from support.runners.local_variants import IN_PROCESSES, IN_SIMULATION, IN_THIS_PROCESS, VARIANTS, runner_of
from transcripts.pipeline_player import StreamPlayer, in_batches
from transcripts.runner import Transcript, differences, load, run

from penstock.runners.execution.shuffle import pre_aggregation

TRANSCRIPTS = load()
BATCHES = [transcript for transcript in TRANSCRIPTS if not transcript.has_clocks]

# Forking takes longer than a transcript does; and so does a simulation, which takes checkpoints all the time.
# Subtasks keep no order between the keys of one and those of another.
UNORDERED = [attrs.evolve(transcript, in_order=False) for transcript in TRANSCRIPTS]
SOME = UNORDERED[::18]
MORE = UNORDERED[1::8]

# Those that take a TestStream.  Batches are run on every runner of the `runner` fixture.  A script is a job in any
# case: `local-4` differs from `local` in its shuffles and its checkpoints, and the others have a part of that.
STREAMS = [
    *((transcript, "local") for transcript in TRANSCRIPTS),
    *((transcript, "local-4") for transcript in UNORDERED[::2]),
    *((transcript, name) for name in IN_THIS_PROCESS if name != "local-4" for transcript in SOME),
]


@pytest.mark.parametrize(("transcript", "streaming_runner"), STREAMS, ids=str)
def test_a_stream_plays(transcript, streaming_runner):
    """Every pane, with its timestamp, window, info and sign, in the step that it belongs to."""
    assert [] == run(transcript, StreamPlayer(transcript, runner_of(streaming_runner)))


@pytest.mark.parametrize(
    ("transcript", "streaming_runner"), [*((t, "local") for t in TRANSCRIPTS), *((t, "local-4") for t in MORE)], ids=str
)
def test_a_stream_of_columns_plays(transcript, streaming_runner, monkeypatch):
    """Also where columns are folded before a shuffle, even if only one element comes."""
    monkeypatch.setattr(pre_aggregation, "SMALLEST", 1)
    monkeypatch.setattr(pre_aggregation, "_WORTH", 1e9)
    assert [] == run(transcript, StreamPlayer(transcript, runner_of(streaming_runner), as_columns=True))


@pytest.mark.parametrize("streaming_runner", IN_PROCESSES)
@pytest.mark.parametrize("transcript", SOME, ids=str)
def test_a_stream_plays_in_processes(transcript, streaming_runner):
    """As far as that may be different: each kind of window, of trigger and of clock travels."""
    assert [] == run(transcript, StreamPlayer(transcript, runner_of(streaming_runner)))


@pytest.mark.parametrize("streaming_runner", IN_SIMULATION)
@pytest.mark.parametrize("transcript", MORE, ids=str)
def test_a_stream_plays_in_simulation(transcript, streaming_runner):
    """In any order of subtasks, with checkpoints in between and with duplicated commands and reports."""
    assert [] == run(transcript, StreamPlayer(transcript, runner_of(streaming_runner)))


def wrong_in_batches(transcripts: Sequence[Transcript], runner: Any, as_columns: bool = False) -> dict[str, list[str]]:
    played = in_batches(transcripts, runner, as_columns)
    found = {str(t): differences(t.batch_panes, played[str(t)]) for t in transcripts}
    return {name: texts for name, texts in found.items() if texts}


def test_batches_play(runner: Any):
    """Every pane; elements in their order, all panes when the input is over, windows in any order."""
    assert {} == wrong_in_batches(BATCHES, runner)


def test_batches_of_columns_play(runner: Any):
    assert {} == wrong_in_batches(BATCHES, runner, as_columns=True)


@pytest.mark.parametrize("variant", [*VARIANTS, *IN_SIMULATION])
def test_batches_play_side_by_side(variant):
    """The same, but where a stream, which these are in truth, is asked for panes as its bundles come."""
    assert {} == wrong_in_batches([t for t in BATCHES if t.batch is None], runner_of(variant))


def test_there_are_batches_of_every_kind():
    """Guards against transcripts that are silently left out."""
    assert {"fixed", "sliding", "sessions", "global"} == {t.window.split()[0] for t in BATCHES}
    assert {"DISCARDING", "ACCUMULATING", "RETRACTING"} == {t.mode.name for t in BATCHES}
    assert 27 <= len(BATCHES)
