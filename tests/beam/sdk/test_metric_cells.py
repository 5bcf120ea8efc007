"""Cells of metrics, and the data that they hold."""

from __future__ import annotations

import pickle
import random
from threading import Thread

import pytest

from penstock.beam.sdk.metric_cells import (
    BoundedTrieCell,
    CounterCell,
    DistributionCell,
    GaugeCell,
    HistogramCell,
    HistogramCellFactory,
    StringSetCell,
)
from penstock.sdk.metrics import DistributionData, GaugeData
from penstock.sdk.metrics import string_set as string_sets
from penstock.sdk.metrics.bounded_trie import BoundedTrieData, BoundedTrieNode
from penstock.sdk.metrics.histogram import Histogram, LinearBucket
from penstock.sdk.metrics.string_set import StringSetData


def test_threads_count_in_one_cell() -> None:
    cell = CounterCell()
    threads = [Thread(target=lambda: [cell.inc(2) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cell.dec()
    assert 7999 == cell.get_cumulative()
    assert 15998 == cell.combine(cell).get_cumulative()


def test_cells_of_numbers_cut_fractions() -> None:
    distribution, gauge = DistributionCell(), GaugeCell()
    for value in (3.9, 1.2):
        distribution.update(value)
        gauge.set(value)
    assert DistributionData(4, 2, 1, 3) == distribution.get_cumulative()
    assert 1 == gauge.get_cumulative().value
    distribution.reset()
    assert DistributionData.identity_element() == distribution.get_cumulative()


def test_the_later_gauge_is_kept() -> None:
    earlier, later = GaugeData(1, 10.0), GaugeData(2, 20.0)
    assert later == earlier.combine(later) == later.combine(earlier)


def test_a_copy_of_a_set_does_not_change_the_cell() -> None:
    cell = StringSetCell()
    cell.add("a")
    cell.get_cumulative().add("b")
    assert {"a"} == cell.get_cumulative().get_result()


def test_a_full_set_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_sets, "MAX_CHARACTERS", 3)
    assert {"aa", "bb"} == StringSetData().add("aa", "bb", "cc").get_result()


def test_a_histogram_cell_counts_by_bucket() -> None:
    buckets = LinearBucket(0, 1, 10)
    cell = HistogramCellFactory(buckets)()
    for value in (0, 5, 10):
        cell.update(value)
    assert isinstance(cell, HistogramCell)
    assert "HistogramData(Total count: 3, P99: >=10, P90: >=10, P50: 6)" == str(cell.get_cumulative())
    assert HistogramCellFactory(LinearBucket(0, 1, 10)) == HistogramCellFactory(buckets)


def test_a_histogram_survives_pickling_and_refuses_other_buckets() -> None:
    histogram = Histogram(LinearBucket(-10, 0.5, 40))
    histogram.record(-10, 0, 9.9)
    assert histogram == pickle.loads(pickle.dumps(histogram))
    with pytest.raises(RuntimeError, match="failed to combine histogram"):
        histogram.combine(Histogram(LinearBucket(0, 1, 2)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        histogram.get_linear_interpolation(2)


def test_cells_are_not_pickled() -> None:
    with pytest.raises(NotImplementedError):
        pickle.dumps(BoundedTrieCell())


@pytest.mark.parametrize("seed", range(20))
def test_a_trie_covers_its_paths_in_its_bound(seed: int) -> None:
    """Each path is in the result, or exactly one truncated prefix of it; all sizes are right."""
    choose = random.Random(seed)
    paths = [tuple(choose.choice("abc") for _ in range(choose.randint(1, 5))) for _ in range(40)]
    bound = choose.choice([1, 5, 30])
    parts = [BoundedTrieData(bound=bound), BoundedTrieData(bound=bound)]
    for i, path in enumerate(paths):
        parts[i % 2].add(path)
    merged = parts[0].combine(parts[1])
    leaves = merged.get_result()
    assert len(leaves) <= bound
    assert merged.size() == len(leaves)
    for path in paths:
        assert merged.contains(path)
        # A path that ends within another one has no leaf of its own.
        covering = [leaf for leaf in leaves if leaf[-1] and leaf[:-1] == path[: len(leaf) - 1]]
        longer = [leaf for leaf in leaves if leaf[: len(path)] == path]
        assert 1 == len(covering) or longer


def test_merging_changes_only_one_trie() -> None:
    left, right = BoundedTrieNode(), BoundedTrieNode()
    left.add(("a", "x"))
    right.add_all([("b", "y"), ("b", "z")])
    assert 2 == left.merge(right)
    left.add(("b", "w"))
    assert [("b", "y", False), ("b", "z", False)] == list(right.flattened())
