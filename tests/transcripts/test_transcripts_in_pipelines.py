"""Every transcript, played to a pipeline: as a TestStream, and where no clock moves as a batch."""

from __future__ import annotations

from typing import Any

import pytest
from transcripts.pipeline_player import StreamPlayer, in_batches
from transcripts.runner import differences, load, run

TRANSCRIPTS = load()
BATCHES = [transcript for transcript in TRANSCRIPTS if transcript.is_batch]

# Those that take a TestStream.  Batches are run on every runner of the `runner` fixture.
STREAMING_RUNNERS = ["local"]


@pytest.mark.parametrize("streaming_runner", STREAMING_RUNNERS)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=str)
def test_a_stream_plays(transcript, streaming_runner):
    """Every pane, with its timestamp, window, info and sign, in the step that it belongs to."""
    assert [] == run(transcript, StreamPlayer(transcript, streaming_runner))


def test_batches_play(runner: Any):
    """Every pane; elements in their order, all panes when the input is over, windows in any order."""
    played = in_batches(BATCHES, runner)
    expected = {str(t): [pane for step in t.steps for pane in step.panes] for t in BATCHES}
    found = {name: differences(panes, played[name]) for name, panes in expected.items()}
    assert {} == {name: texts for name, texts in found.items() if texts}


def test_there_are_batches_of_every_kind():
    """Lest they be left out without anybody's noticing."""
    assert {"fixed", "sliding", "sessions", "global"} == {t.window.split()[0] for t in BATCHES}
    assert {"DISCARDING", "ACCUMULATING", "RETRACTING"} == {t.mode.name for t in BATCHES}
    assert 25 <= len(BATCHES)
