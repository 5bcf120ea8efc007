"""The net effect of signed changes is the same in memory and from disk, in any order of the changes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from penstock.io.sinks import net_changes
from penstock.io.sinks.net_changes import NetChanges
from penstock.sdk.elements import hash_partitions


class Change(msgspec.Struct, array_like=True, frozen=True):
    key: str
    value: str
    sign: int
    version: tuple[int, int]


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def is_on_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(net_changes, "IN_MEMORY_BYTES", 2_000)
        monkeypatch.setattr(hash_partitions, "HELD_BYTES", 3_000)
    return bool(request.param)


def net(changes: Iterable[Change]) -> NetChanges[Change]:
    return NetChanges(changes, Change, lambda change: (change.key, change.value), lambda change: 10)


def found(changes: Iterable[Change]) -> dict[str, list[tuple[str, int, tuple[int, int]]]]:
    return as_read(net(changes))


def as_read(read: Iterable[Sequence[Any]]) -> dict[str, list[tuple[str, int, tuple[int, int]]]]:
    """By key its values, each with its count and version."""
    return {
        values[0].change.key: sorted((each.change.value, each.count, each.change.version) for each in values)
        for values in read
    }


def expected(changes: Sequence[Change]) -> dict[str, list[tuple[str, int, tuple[int, int]]]]:
    """The rule, by the sums of all changes of a value."""
    rule = {}
    for key in {change.key for change in changes}:
        counts: dict[str, int] = {}
        versions: dict[str, tuple[int, int]] = {}
        for change in changes:
            if change.key == key:
                counts[change.value] = counts.get(change.value, 0) + change.sign
                if change.sign > 0:
                    versions[change.value] = max(change.version, versions.get(change.value, change.version))
        left = {value for value, count in counts.items() if count > 0}
        last = max((versions[value] for value in left), default=None)
        kept = {value for value in left if versions[value] == last} or {v for v, count in counts.items() if count < 0}
        if kept:
            rule[key] = sorted((value, counts[value], versions.get(value, (0, 0))) for value in kept)
    return rule


@pytest.mark.parametrize("seed", range(5))
def test_changes_in_any_order_come_to_the_same(is_on_disk: bool, seed: int) -> None:
    """Keys with several latest values included, and keys whose values are all gone."""
    choose = random.Random(seed)
    changes = []
    for _ in range(300):
        sign = choose.choice([1, -1])
        version = (choose.randrange(3), choose.randrange(3)) if sign > 0 else (0, 0)
        changes.append(Change(f"k{choose.randrange(30)}", f"v{choose.randrange(4)}", sign, version))
    rule = expected(changes)
    for _ in range(3):
        choose.shuffle(changes)
        assert rule == found(changes)
    assert {True, False} == {count > 0 for values in rule.values() for _, count, _ in values}


def test_changes_are_read_again(is_on_disk: bool) -> None:
    """As a commit that is tried again does."""
    read = net(Change(f"k{n}", "v", 1, (0, 0)) for n in range(200))
    assert 200 == len(as_read(read))
    assert as_read(read) == as_read(read)


def test_few_changes_keep_the_order_of_their_keys() -> None:
    read = net(Change(f"k{n}", "v", 1, (0, 0)) for n in range(100))
    assert [f"k{n}" for n in range(100)] == [values[0].change.key for values in read]


def test_changes_of_one_key_are_not_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that cancel each other, nor those of which the latest is left."""
    monkeypatch.setattr(net_changes, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(hash_partitions, "HELD_BYTES", 0)
    most = 0

    def counted(self: Any, changes: Iterable[Any]) -> Any:
        nonlocal most
        together = list(changes)
        most = max(most, len(together))
        return netted(self, together)

    netted = NetChanges._netted
    monkeypatch.setattr(NetChanges, "_netted", counted)
    changes = [Change("k", f"v{n}", sign, (n, 0)) for n in range(2_000) for sign in (1, -1)]
    changes += [Change("k", f"w{n}", 1, (n, 0)) for n in range(4_000)]
    assert {"k": [("w3999", 1, (3_999, 0))]} == found(changes)
    assert most < 400
