"""How far the approximate combiners are from the truth, and that they are exact where they say so."""

from __future__ import annotations

import math
import pickle
import random
import sys
from typing import Any

import pytest

from penstock.sdk.coders import StrUtf8Coder
from penstock.sdk.errors import MissingExtraError, PenstockError
from penstock.transforms.combiners import apache_datasketches
from penstock.transforms.combiners.quantile_sketches import KllSketch
from penstock.transforms.stats import (
    ApproximateQuantilesCombineFn,
    ApproximateUnique,
    ApproximateUniqueCombineFn,
)


def combined_in_shards(fn: Any, elements: list[Any], shards: int) -> Any:
    """The output of several accumulators that travelled."""
    parts = [fn.add_inputs(fn.create_accumulator(), elements[i::shards]) for i in range(shards)]
    return fn.extract_output(fn.merge_accumulators(pickle.loads(pickle.dumps(part)) for part in parts))


# --- Quantiles


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (range(101), [0, 25, 50, 75, 100]),
        ([389], [389, 389, 389, 389, 389]),
        ([], []),
        ([*range(101)] * 10, [0, 25, 50, 75, 100]),
        ([1] + [2] * 299 + [3] * 799, [1, 2, 3, 3, 3]),
        ([int(math.log(x)) for x in range(1, 1000)], [0, 5, 6, 6, 6]),
        ([int(1000 / i) for i in range(1, 1000)], [1, 1, 2, 4, 1000]),
    ],
)
def test_of_a_moderate_number_of_values_the_quartiles_are_exact(elements: Any, expected: list[int]) -> None:
    """The same values as Beam's, of which there are five whatever there was to choose from."""
    assert expected == ApproximateQuantilesCombineFn(5).apply(elements)


def test_reversed_quartiles_go_from_the_greatest_to_the_least() -> None:
    """As sorted(reverse=True)."""
    assert [100, 75, 50, 25, 0] == ApproximateQuantilesCombineFn(5, reverse=True).apply(range(101))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["aa", "b", "zz"]),
        ({"key": len}, ["b", "aaa", "ccccc"]),
        ({"key": len, "reverse": True}, ["ccccc", "aaa", "b"]),
    ],
)
def test_a_key_says_what_values_are_compared_by(arguments: dict[str, Any], expected: list[str]) -> None:
    """The values themselves are the result."""
    words = ["aa", "aaa", "aaaa", "b", "ccccc", "dddd", "zz"]
    assert expected == ApproximateQuantilesCombineFn(3, **arguments).apply(words)


@pytest.mark.parametrize("reverse", [False, True])
def test_weights_that_follow_a_normal_distribution_have_its_quartiles(reverse: bool) -> None:
    """They are at 0.6745 standard deviations from the mean."""
    values = [-3 + 6 * i / 1000 for i in range(1001)]
    weighted = [(x, math.exp(-(x**2) / 2)) for x in values]
    expected = [-3.0, -0.672, 0.0, 0.672, 3.0]
    actual = ApproximateQuantilesCombineFn(5, weighted=True, reverse=reverse).apply(weighted)
    assert (expected[::-1] if reverse else expected) == [round(x, 3) for x in actual]


def test_a_value_of_no_weight_may_be_the_greatest_and_nothing_else() -> None:
    """Between the extremes, only weight counts."""
    weighted = [(x, 1 if 10 <= x < 20 else 0) for x in range(101)]
    assert [0, 12, 14, 17, 100] == ApproximateQuantilesCombineFn(5, weighted=True).apply(weighted)


def test_only_values_of_no_weight_give_the_extremes() -> None:
    """There is nothing between them."""
    assert [1, 3, 3] == ApproximateQuantilesCombineFn(3, weighted=True).apply([(1, 0), (2, 0), (3, 0)])


def test_batches_count_as_the_values_in_them() -> None:
    """Lists of values; if weighted, pairs of lists."""
    batches = [list(range(start, start + 10)) for start in range(0, 100, 10)] + [[100]]
    assert [0, 25, 50, 75, 100] == ApproximateQuantilesCombineFn(5, input_batched=True).apply(batches)
    weighted = [(batch, [1] * len(batch)) for batch in batches]
    fn = ApproximateQuantilesCombineFn(5, weighted=True, input_batched=True)
    assert [0, 25, 50, 75, 100] == fn.apply(weighted)


@pytest.mark.parametrize(("count", "quantiles", "error"), [(5000, 37, 20), (100_000, 50, 400)])
def test_percentiles_of_many_values_are_within_half_a_percent(count: int, quantiles: int, error: int) -> None:
    """In shards, and in any order; the least and the greatest are exact."""
    values = random.Random(1).sample(range(count), count)
    actual = combined_in_shards(ApproximateQuantilesCombineFn(quantiles), values, 7)
    exact = [(count - 1) * i / (quantiles - 1) for i in range(quantiles)]
    assert [True] * quantiles == [abs(a - e) <= error for a, e in zip(actual, exact)]
    assert [0, count - 1] == [actual[0], actual[-1]]


def test_weighted_percentiles_of_many_values_are_within_two_percent() -> None:
    """Twice the error that holds with 99% confidence; the value x weighs x, so ranks grow as its square."""
    count = 40_000
    values = random.Random(1).sample(range(count), count)
    actual = combined_in_shards(ApproximateQuantilesCombineFn(11, weighted=True), [(x, x) for x in values], 5)
    ranks = [(x / count) ** 2 for x in actual]
    assert [True] * 11 == [abs(rank - i / 10) <= 0.02 for i, rank in enumerate(ranks)]
    assert [0, count - 1] == [actual[0], actual[-1]]


def test_a_smaller_epsilon_has_a_larger_sketch() -> None:
    """Of the least size whose error is that small."""
    k = KllSketch.k_for(0.0005)
    assert KllSketch.rank_error(k) <= 0.0005 < KllSketch.rank_error(k - 1)
    assert k == ApproximateQuantilesCombineFn.create(10, epsilon=0.0005, max_num_elements=10**9)._k


@pytest.mark.parametrize(("arguments", "message"), [((1,), "got 1"), ((5, 0.0), "got 0.0"), ((5, 1.5), "got 1.5")])
def test_wrong_arguments_of_quantiles_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    """When the pipeline is built."""
    with pytest.raises(ValueError, match=message):
        ApproximateQuantilesCombineFn(*arguments)


# --- Unique


@pytest.mark.parametrize(("error", "size"), [(0.5, 16), (0.4, 25), (0.2, 100), (0.1, 400), (0.05, 1600), (0.01, 40000)])
def test_an_error_stands_for_a_size(error: float, size: int) -> None:
    """4 / error ** 2, as Beam's."""
    assert size == ApproximateUnique.parse_input_params(error=error)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"size": 30, "error": 0.2}, {"size": 10}, {"size": 100.0}, {"error": 0.0}, {"error": 0.6}, {"error": 0.009}],
)
def test_wrong_arguments_of_unique_are_refused(arguments: dict[str, Any]) -> None:
    """As Beam does: one of both, a whole size of at least 16, an error between 0.01 and 0.5."""
    with pytest.raises(ValueError, match="ApproximateUnique needs"):
        ApproximateUnique.parse_input_params(**arguments)


@pytest.mark.parametrize("size", [16, 31, 100, 1000, 4096])
def test_up_to_its_size_the_number_of_different_elements_is_exact(size: int) -> None:
    """With any number of duplicates."""
    elements = [*range(size), *range(size), 1.0, True]
    assert size == combined_in_shards(ApproximateUniqueCombineFn(size), elements, 3)


@pytest.mark.parametrize("error", [0.5, 0.1, 0.02])
def test_the_estimate_is_within_the_error(error: float) -> None:
    """Elements are hashed without a seed, so that this holds on every run or on none."""
    count = 100_000
    fn = ApproximateUniqueCombineFn(ApproximateUnique.parse_input_params(error=error))
    assert abs(combined_in_shards(fn, [*range(count), *range(count)], 3) - count) <= error * count


def test_the_estimate_is_the_same_however_the_elements_were_split() -> None:
    """A theta sketch depends on which elements there were, and on nothing else."""
    fn = ApproximateUniqueCombineFn(64)
    elements = list(range(64))
    assert 1 == len({combined_in_shards(fn, elements, shards) for shards in (1, 2, 7)})


def test_elements_are_told_apart_as_keys_are() -> None:
    """Or by a coder; NaN, which is no key, is one element here."""
    fn = ApproximateUniqueCombineFn(16)
    assert 4 == fn.apply([1, 1.0, "1", b"1", float("nan"), float("nan")])
    assert 2 == ApproximateUniqueCombineFn(16, StrUtf8Coder()).apply(["", "a", ""])


def test_an_element_that_cannot_be_told_apart_is_an_error_that_names_it() -> None:
    """A set has no encoding of its own that is the same everywhere."""
    with pytest.raises(PenstockError, match=r"ApproximateUnique compares elements.*\{1\}.*frozenset"):
        ApproximateUniqueCombineFn(16).apply([{1}])


# --- Both


@pytest.mark.parametrize(
    "make", [lambda: ApproximateQuantilesCombineFn(5), lambda: ApproximateUniqueCombineFn(16).apply([1])]
)
def test_without_the_package_the_error_says_how_to_get_it(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is an extra, and nothing else needs it."""
    monkeypatch.setitem(sys.modules, "datasketches", None)
    apache_datasketches.datasketches.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[sketches\]'"):
            make()
    finally:
        apache_datasketches.datasketches.cache_clear()


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 8])
def test_merged_quantile_sketches_keep_the_weight_of_their_values(parts: int) -> None:
    """For any number of merged sketches: a merged sketch may have empty levels."""
    sketches = [KllSketch(269) for _ in range(parts)]
    for number in range(30_000):
        sketches[(number * 2654435761 >> 7) % parts].add(number, 1)
    merged = KllSketch(269)
    for sketch in sketches:
        merged.merge(sketch)

    assert 30_000 == sum(weight for _, weight in merged.weighted_values())
