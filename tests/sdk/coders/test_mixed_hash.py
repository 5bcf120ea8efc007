"""How keys are spread over workers, by chi-square tests."""

import datetime as dt
import math
import random
import uuid

import pytest

from penstock.runners.execution.shuffle.partitioner import owner
from penstock.sdk.coders.key_encoding import KEY_GROUPS, key_group, key_groups
from penstock.sdk.coders.mixed_hash import bucket, mixed, pickled_hash

# Of each country its two letters.
COUNTRIES = [
    letters[i : i + 2]
    for letters in (
        "ADAEAFAGALAMAOARATAUAZBABBBDBEBFBGBHBIBJBNBOBRBSBTBWBYBZCACDCFCGCHCICLCMCNCO",
        "CRCUCVCYCZDEDJDKDMDODZECEEEGERESETFIFJFMFRGAGBGDGEGHGMGNGQGRGTGWGYHNHRHTHUID",
    )
    for i in range(0, len(letters), 2)
]
WORDS = ("user", "c", "k", "sensor", "dev", "order", "Item", "host", "q", "sess")
NAMES = [f"{name}{mark}" for name in WORDS for mark in ("", "-", "_", "/")]
DAY = dt.date(2020, 1, 1)
RANDOM = random.Random(11)

# Of each family sets of ten keys, as small pipelines have them.
FAMILIES = {
    "numbered names": [[f"{name}{n}" for n in range(10)] for name in NAMES],
    "padded names": [[f"{name}{n:05}" for n in range(10)] for name in NAMES],
    "small ints": [list(range(n, n + 10)) for n in range(0, 400, 10)],
    "hundreds": [list(range(n, n + 1_000, 100)) for n in range(40)],
    "dates": [[DAY + dt.timedelta(n + i) for i in range(10)] for n in range(0, 400, 10)],
    "dates as strings": [[str(DAY + dt.timedelta(n + i)) for i in range(10)] for n in range(0, 400, 10)],
    "UUIDs": [[uuid.UUID(int=RANDOM.getrandbits(128)) for _ in range(10)] for _ in range(40)],
    "tuples": [[(name, n) for n in range(10)] for name in NAMES],
    "tuples of ints": [[(n // 5, n % 5) for n in range(start, start + 10)] for start in range(0, 400, 10)],
    "countries": [
        [form.format(code) for code in COUNTRIES[start : start + 10]]
        for start in range(0, len(COUNTRIES), 10)
        for form in ("{}", "{}-1", "country={}", "/{}/")
    ],
    "None and a number": [[(None, n) for n in range(start, start + 10)] for start in range(0, 400, 10)],
}
WORKERS = (2, 3, 4, 8, 32)


def chi_square(keys, workers):
    """Pearson's statistic of the keys that each worker has."""
    loads = [0] * workers
    for group in key_groups(keys):
        loads[owner(group, workers)] += 1
    groups = [0] * workers
    for group in range(KEY_GROUPS):
        groups[owner(group, workers)] += 1
    expected = [len(keys) * n / KEY_GROUPS for n in groups]
    return sum((load - mean) ** 2 / mean for load, mean in zip(loads, expected, strict=True))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_sets_of_keys_load_workers_as_random_keys_do(family, workers):
    """The statistics of the sets have the mean that the multinomial distribution gives them, within 4 deviations.

    Keys that all go to one worker have a mean of 10 * (workers - 1); keys dealt out in turn one near 0.
    """
    sets = FAMILIES[family]
    mean = sum(chi_square(keys, workers) for keys in sets) / len(sets)
    deviation = math.sqrt(2 * (workers - 1) * (1 - 1 / 10) / len(sets))
    assert abs(mean - (workers - 1)) < 4 * deviation


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_keys_of_a_family_load_workers_as_random_keys_do(family, workers):
    """The statistic is below the 99.99 % quantile of its distribution (by Wilson and Hilferty's approximation)."""
    keys = list(dict.fromkeys(key for keys in FAMILIES[family] for key in keys))
    free = workers - 1
    quantile = free * (1 - 2 / (9 * free) + 3.72 * math.sqrt(2 / (9 * free))) ** 3
    assert chi_square(keys, workers) < quantile


@pytest.mark.parametrize("keys", [range(10), [f"c{n}" for n in range(10)], [f"user-{n}" for n in range(10)]])
def test_ten_numbered_keys_are_on_each_of_two_workers(keys):
    assert {0, 1} == {owner(key_group(key), 2) for key in keys}


def test_many_keys_and_one_are_in_the_same_groups():
    for keys in (["a", "user-1", "\N{BULLET}"], [0, -1, 1 << 60], [("a", 1), None, 0.5]):
        for groups in (KEY_GROUPS, 200, 3):
            assert [key_group(key, groups) for key in keys] == key_groups(keys, groups)


def test_places_are_all_taken_and_no_others():
    assert [set(range(n)) for n in (1, 3, 7)] == [{bucket(mixed(i), n) for i in range(1_000)} for n in (1, 3, 7)]


def test_what_has_no_pickle_is_at_the_first_place():
    assert 0 == pickled_hash(lambda: None)
