"""Properties of single combiners.  The laws of all combiners are in test_laws.py."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from collections import Counter
from typing import Any

import pytest

from penstock.sdk.errors import PenstockError
from penstock.transforms.combiners import (
    AnyElementsCombineFn,
    CountCombineFn,
    CountDistinctCombineFn,
    Largest,
    LatestCombineFn,
    MeanCombineFn,
    SampleCombineFn,
    SingleInputTupleCombineFn,
    Smallest,
    SumCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
    TupleCombineFn,
)
from penstock.windowing import MIN_TIMESTAMP, Timestamp


def test_the_mean_of_nothing_is_nan() -> None:
    """As Beam's."""
    assert math.isnan(MeanCombineFn().apply([]))


def test_the_mean_of_large_ints_is_not_rounded_on_the_way() -> None:
    """A sum in floats would have lost the ones."""
    assert 1.0 == MeanCombineFn().apply([10**30, 1, 2 - 10**30])


def test_a_mean_refuses_to_retract_a_float() -> None:
    """Its sum may have been rounded."""
    with pytest.raises(PenstockError, match=r"MeanCombineFn was asked to retract 0\.5"):
        MeanCombineFn().retract_input((1.5, 2), 0.5)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (TopCombineFn(3), [9, 6, 6]),
        (TopCombineFn(3, reverse=True), [0, 1, 1]),
        (TopCombineFn(2, key=lambda x: -x), [0, 1]),
        (TopCombineFn(2, key=lambda x: -x, reverse=True), [9, 6]),
        (TopCombineFn(99), [9, 6, 6, 5, 3, 2, 1, 1, 1, 0]),
        (TopCombineFn(0), []),
        (Largest(2), [9, 6]),
        (Smallest(2), [0, 1]),
    ],
)
def test_top_gives_the_greatest_first_or_reversed_the_least_first(fn: TopCombineFn, expected: list[int]) -> None:
    """With a key, greatest and least are by that key."""
    assert expected == fn.apply([6, 3, 1, 1, 9, 1, 5, 2, 0, 6])


def test_top_compares_by_the_key_only() -> None:
    """Elements themselves need no order."""
    assert [{"a": 2}] == TopCombineFn(1, key=lambda row: row["a"]).apply([{"a": 1}, {"a": 2}, {"a": 2}])


def test_top_holds_no_more_than_a_few_times_n() -> None:
    """Of any number of elements; and no more than n when it travels."""
    fn = TopCombineFn(10)
    accumulator = fn.add_inputs(fn.create_accumulator(), range(10_000))
    assert len(accumulator) < 40
    assert 10 == len(fn.compact(accumulator))


def test_top_takes_no_negative_number_of_elements() -> None:
    """Told when the pipeline is built."""
    with pytest.raises(ValueError, match="got n=-1"):
        TopCombineFn(-1)


def test_every_element_is_as_likely_to_be_sampled() -> None:
    """Also across shards of uneven size: over 2,000 samples of 2 out of 10, each comes up about 400 times."""
    fn = SampleCombineFn(2, random.Random(1))
    counts: Counter[int] = Counter()
    for _ in range(2000):
        shards = [fn.add_inputs(fn.create_accumulator(), shard) for shard in (range(1), range(1, 10), range(0))]
        counts.update(fn.extract_output(fn.merge_accumulators(shards)))
    assert dict.fromkeys(range(10), True) == {element: abs(counts[element] - 400) < 100 for element in range(10)}


def test_a_seeded_sample_is_repeatable_and_another_seed_gives_another() -> None:
    """The source of random numbers is passed in."""
    samples = [SampleCombineFn(5, random.Random(seed)).apply(range(1000)) for seed in (7, 7, 8)]
    assert samples[0] == samples[1] != samples[2]


def test_a_sample_never_compares_elements() -> None:
    """They need no order, not even where random numbers collide."""

    class Same(random.Random):
        def random(self) -> float:
            return 0.5

    assert 2 == len(SampleCombineFn(2, Same()).apply([1j, 2j, 3j]))


def test_any_elements_takes_no_negative_number_and_accepts_none() -> None:
    """As Beam's Sample.Any."""
    assert [] == AnyElementsCombineFn(0).apply([1, 2])
    with pytest.raises(ValueError, match="got n=-1"):
        AnyElementsCombineFn(-1)


def test_the_latest_of_nothing_is_none() -> None:
    """As Beam's, whose empty accumulator is as old as can be."""
    fn = LatestCombineFn()
    assert (None, MIN_TIMESTAMP) == fn.create_accumulator()
    assert None is fn.apply([])


def test_of_equally_late_elements_the_last_one_wins() -> None:
    """Also the one at the least timestamp there is."""
    fn = LatestCombineFn()
    assert "b" == fn.apply([("a", Timestamp(1)), ("b", Timestamp(1)), ("c", Timestamp(0))])
    assert "a" == fn.apply([("a", MIN_TIMESTAMP)])


def test_a_list_gives_back_one_of_two_equal_elements() -> None:
    """A retraction removes one element, not all of its value."""
    fn = ToListCombineFn()
    assert [2, 1] == fn.retract_input([1, 2, 1], 1)


def test_a_set_keeps_an_element_that_came_twice_and_was_retracted_once() -> None:
    """The set is of what is left."""
    fn = ToSetCombineFn()
    accumulator = fn.add_inputs(fn.create_accumulator(), ["a", "a", "b"])
    assert {"a", "b"} == fn.extract_output(fn.retract_input(accumulator, "a"))
    assert {"b"} == fn.extract_output(fn.retract_input(accumulator, "a"))


def test_all_nans_count_as_one_distinct_element() -> None:
    """In one accumulator, in several, and retracted."""
    fn = CountDistinctCombineFn()
    some, others = (pickle.loads(pickle.dumps(fn.add_inputs({}, [float("nan"), 1, None, math.nan]))) for _ in range(2))
    merged = fn.merge_accumulators([some, others])
    assert 3 == fn.extract_output(merged)
    for _ in range(4):
        merged = fn.retract_input(merged, float("nan"))
    assert 2 == fn.extract_output(merged)


def result_of(fn: Any, accumulator: Any) -> Any:
    """Return a result that doesn't depend on the order of a list."""
    found = fn.extract_output(accumulator)
    return sorted(found) if isinstance(found, list) else found


@pytest.mark.parametrize(
    "fn",
    [
        ToListCombineFn(),
        ToSetCombineFn(),
        CountDistinctCombineFn(),
        MeanCombineFn(),
        CountCombineFn(),
        SumCombineFn(),
        TupleCombineFn(ToSetCombineFn(), SumCombineFn()),
    ],
    ids=lambda fn: type(fn).__name__,
)
def test_a_retraction_may_come_before_its_addition(fn: Any) -> None:
    """In every order of the signs the result is that of what is left; also if accumulators are stored and merged."""
    is_tuple = isinstance(fn, TupleCombineFn)
    changes = [(3, 1), (3, -1), (5, 1), (3, 1), (7, 1), (5, -1)]
    expected = fn.apply([(n, n) if is_tuple else n for n in (3, 7)])
    for order in set(itertools.permutations(changes)):
        parts = fn.create_accumulator(), fn.create_accumulator()
        for place, (n, sign) in enumerate(order):
            value = (n, n) if is_tuple else n
            change = fn.add_input if sign > 0 else fn.retract_input
            part = pickle.loads(pickle.dumps(parts[place % 2]))
            parts = (change(part, value), parts[1]) if place % 2 == 0 else (parts[0], change(part, value))
        merged = fn.merge_accumulators([fn.create_accumulator(), *parts])
        assert expected == result_of(fn, merged)


@pytest.mark.parametrize(("fn", "nothing"), [(ToListCombineFn(), []), (ToSetCombineFn(), set())])
def test_a_retraction_alone_is_not_in_the_result(fn: Any, nothing: Any) -> None:
    """Only what was added more often than retracted is."""
    accumulator = fn.retract_input(fn.create_accumulator(), "b")
    assert nothing == fn.extract_output(accumulator)
    assert fn.create_accumulator() == fn.add_input(accumulator, "b")


def test_a_dict_has_one_of_several_values_of_a_key() -> None:
    """The choice depends on the order."""
    assert ToDictCombineFn().apply([("a", 1), ("a", 2)]) in [{"a": 1}, {"a": 2}]


def test_a_tuple_combines_callables_and_combiners_alike() -> None:
    """Each component by its own."""
    fn = TupleCombineFn(max, MeanCombineFn(), sum)
    assert ("c", 37.0, 99.0) == fn.apply([("a", 100, 0.0), ("b", 10, -1), ("c", 1, 100)])


def test_a_common_input_is_given_to_each_combiner_whole() -> None:
    """`with_common_input` is the SingleInputTupleCombineFn of the same combiners."""
    fn = TupleCombineFn(min, MeanCombineFn(), max).with_common_input()
    assert isinstance(fn, SingleInputTupleCombineFn)
    assert (1, 1.75, 3) == fn.apply([1, 1, 2, 3])


def test_a_tuple_passes_on_its_combiners_lifecycle() -> None:
    """Set up in order, torn down in the opposite one."""
    calls: list[str] = []

    class Noisy(CountCombineFn):
        def __init__(self, name: str) -> None:
            self.name = name

        def setup(self) -> None:
            calls.append(f"set up {self.name}")

        def teardown(self) -> None:
            calls.append(f"tear down {self.name}")

    fn = TupleCombineFn(Noisy("a"), Noisy("b"))
    fn.setup()
    fn.teardown()
    assert ["set up a", "set up b", "tear down b", "tear down a"] == calls


def test_a_tuple_retracts_only_if_all_its_combiners_do() -> None:
    """And exactly only if all of them do."""
    assert None is TupleCombineFn(SumCombineFn(), TopCombineFn(1)).retract_input
    fn = TupleCombineFn(SumCombineFn(), CountCombineFn())
    assert [True, False] == [fn.retracts_exactly((1, 0.5)), fn.retracts_exactly((0.5, 1))]


def test_a_tuple_says_what_it_is_made_of() -> None:
    """For drawings of the pipeline."""
    expected = {"combiners": "['max', 'MeanCombineFn', 'sum']", "merge_accumulators_batch_size": 333}
    assert expected == TupleCombineFn(max, MeanCombineFn(), sum).display_data()


def test_accumulators_are_no_larger_than_what_they_hold() -> None:
    """Top's are plain elements: no wrappers that know how to compare them travel."""
    fn = TopCombineFn(2, key=len, reverse=True)
    accumulator = fn.compact(fn.add_inputs(fn.create_accumulator(), ["ccc", "a", "bb"]))
    assert len(pickle.dumps(["a", "bb"])) == len(pickle.dumps(accumulator))
