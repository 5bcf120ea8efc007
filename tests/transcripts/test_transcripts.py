"""Every transcript, played to the window operator alone and to the naive model."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from transcripts.naive_model import NaiveModel
from transcripts.operator_player import OperatorPlayer
from transcripts.runner import Pane, differences, load, parsed, run, shown

TRANSCRIPTS = load()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=str)
def test_the_window_operator_plays(transcript):
    assert [] == run(transcript, OperatorPlayer(transcript))


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=str)
def test_the_naive_model_plays(transcript):
    assert [] == run(transcript, NaiveModel(transcript))


def test_names_are_unique():
    assert [] == [name for name, count in Counter(map(str, TRANSCRIPTS)).items() if count > 1]


def test_every_pane_is_read_as_it_is_written():
    for transcript in TRANSCRIPTS:
        for step in transcript.steps:
            assert list(step.panes) == [parsed(shown(pane)) for pane in step.panes]


def test_signs_add_up_to_one_standing_pane_a_window():
    """Of a retracting transcript each retraction takes back what stands, and no window ends with two values."""
    for transcript in TRANSCRIPTS:
        standing: Counter[Pane] = Counter()
        for step in transcript.steps:
            for pane in step.panes:
                standing[attrs.evolve(pane, value=repr(pane.value), sign=1)] += pane.sign
                assert all(count in (0, 1) for count in standing.values()), str(transcript)
        if transcript.mode.name == "RETRACTING":
            windows = Counter((pane.key, pane.window) for pane, count in standing.items() if count)
            assert all(count == 1 for count in windows.values()), str(transcript)


THREE, FOUR = parsed("+3 [0, 60) EARLY 0/-1 first"), parsed("+4 [0, 60) EARLY 1/-1")
OTHER = parsed("+3 [60, 120) EARLY 0/-1 first")


def test_a_pane_too_many_or_too_few_is_a_difference():
    assert ["expected +4 [0, 60) EARLY 1/-1"] == differences([THREE, FOUR], [THREE])
    assert ["unexpected +4 [0, 60) EARLY 1/-1"] == differences([THREE], [THREE, FOUR])


def test_the_order_within_a_window_matters():
    assert 1 == len(differences([THREE, FOUR], [FOUR, THREE]))
    assert [] == differences([THREE, OTHER], [OTHER, THREE])
    assert 1 == len(differences([THREE, OTHER], [OTHER, THREE], in_order=True))


def test_a_merged_window_comes_after_the_retraction_of_its_parts():
    retraction, joined = parsed("-3 [0, 60) EARLY 0/-1 first"), parsed("+7 [0, 90) EARLY 1/-1")
    assert [] == differences([retraction, joined], [retraction, joined])
    assert 1 == len(differences([retraction, joined], [joined, retraction]))
