"""Batches of windowed values."""

from __future__ import annotations

import pickle

from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.elements.windowed_batch import HomogeneousWindowedBatch, WindowedBatch
from penstock.triggers.pane import ONLY_PANE
from penstock.windowing import GlobalWindow

WINDOWS = (GlobalWindow(),)


def test_values_are_batched_by_their_timestamps() -> None:
    values = [WindowedValue(text, time, WINDOWS) for text, time in [("a", 1), ("b", 2), ("c", 1)]]
    batches = list(WindowedBatch.from_windowed_values(values, produce_fn=tuple))
    expected = [HomogeneousWindowedBatch.of(("a", "c"), 1, WINDOWS), HomogeneousWindowedBatch.of(("b",), 2, WINDOWS)]
    assert expected == batches
    assert [values[0], values[2], values[1]] == [value for batch in batches for value in batch.as_windowed_values(iter)]


def test_other_values_keep_the_pane() -> None:
    batch = HomogeneousWindowedBatch.of([1], 3, WINDOWS, ONLY_PANE)
    assert HomogeneousWindowedBatch.of([2], 3, WINDOWS, ONLY_PANE) == batch.with_values([2])
    assert batch == pickle.loads(pickle.dumps(batch))
