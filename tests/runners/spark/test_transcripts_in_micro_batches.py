"""Every transcript, played to micro-batches: the same panes, in the same steps, as the operator gives them."""

from __future__ import annotations

from typing import Any

import pytest
from transcripts.runner import load, run
from transcripts.side_by_side_player import alike, played

from penstock.runners.spark import SparkMicroBatchRunner

GROUPS = sorted(alike(load()), key=len, reverse=True)

# Of those with clocks of their own one run is as good as another, and each takes as long as the largest.
TRIED = [group for group in GROUPS if len(group) > 3] + [group for group in GROUPS if len(group) == 1][:2]


@pytest.mark.parametrize("group", TRIED, ids=lambda group: f"{len(group)} like {group[0]}")
def test_streams_play(group: Any, spark: Any) -> None:
    """Every pane, with its timestamp, window, info and sign, in the step that it belongs to."""
    found = {}
    for transcript, player in zip(group, played(group, SparkMicroBatchRunner(spark)), strict=True):
        found[str(transcript)] = run(transcript, player)

    assert {} == {name: texts for name, texts in found.items() if texts}


def test_nearly_all_of_them_are_tried() -> None:
    """Lest they be left out without anybody's noticing."""
    assert 270 <= sum(map(len, TRIED))
