"""The net effect of signed rows is the same in memory and from disk, and tells which rows of a table it replaces."""

from __future__ import annotations

import random
from typing import Any

import pyarrow
import pytest

from penstock.io.lakehouse import net_rows as under_test
from penstock.io.lakehouse.changes import SIGN, VERSION
from penstock.io.lakehouse.net_rows import NetRows, net_rows
from penstock.sdk.elements import hash_partitions
from penstock.sdk.errors import RejectedRecordError

SCHEMA = pyarrow.schema([("k", pyarrow.int64()), ("word", pyarrow.string()), ("v", pyarrow.list_(pyarrow.int64()))])
STAGED = pyarrow.schema([*SCHEMA, (SIGN, pyarrow.int8()), *((name, pyarrow.int64()) for name in VERSION)])
KEY = ["k", "word"]


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def is_on_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(under_test, "IN_MEMORY_ROWS", 20)
        monkeypatch.setattr(under_test, "_AT_ONCE", 30)
        monkeypatch.setattr(hash_partitions, "HELD_BYTES", 2_000)
    return bool(request.param)


def staged(rows: list[tuple[Any, ...]], at_once: int = 40) -> list[Any]:
    """Tables of (k, word, v, sign, version)."""
    columns = [dict(zip(STAGED.names, (*row[:4], 0, 0, row[4]), strict=True)) for row in rows]
    return [pyarrow.Table.from_pylist(columns[at : at + at_once], STAGED) for at in range(0, len(columns), at_once)]


def whole(net: NetRows) -> Any:
    """The rows to insert or update."""
    return pyarrow.concat_tables([rows for rows, _ in net.parts(SCHEMA)])


def listed(table: Any) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["word"], tuple(row["v"])) for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(4))
def test_rows_in_any_order_come_to_the_same(is_on_disk: bool, seed: int) -> None:
    choose = random.Random(seed)
    table = {(k, "a"): [k % 3] for k in range(0, 60, 2)}
    now, rows = dict(table), []
    for time in range(600):
        key = (choose.randrange(60), choose.choice("ab"))
        if key in now:
            rows.append((*key, now.pop(key), -1, 0))
        if choose.random() < 0.6:
            now[key] = [choose.randrange(3)]
            rows.append((*key, now[key], 1, time))
    before = pyarrow.Table.from_pylist([{"k": k, "word": w, "v": v} for (k, w), v in table.items()], SCHEMA)
    for _ in range(3):
        choose.shuffle(rows)
        net = net_rows(staged(rows), KEY, True, "Write", "t")
        added = whole(net)
        left = before.filter(pyarrow.compute.invert(net.matching(before)))
        assert sorted((k, w, tuple(v)) for (k, w), v in now.items()) == listed(pyarrow.concat_tables([added, left]))


def test_a_row_with_other_values_is_not_deleted(is_on_disk: bool) -> None:
    rows = [(n, "a", [1], -1, 0) for n in range(100)]
    net = net_rows(staged(rows), KEY, True, "Write", "t")
    table = pyarrow.Table.from_pylist([{"k": n, "word": "a", "v": [n % 2]} for n in range(110)], SCHEMA)
    assert [n % 2 == 1 and n < 100 for n in range(110)] == net.matching(table).to_pylist()
    assert [] == net.matching(table.slice(0, 0)).to_pylist()


def test_the_latest_row_of_a_key_is_left(is_on_disk: bool) -> None:
    """Without retractions; of two rows with one version neither is."""
    rows = [(n % 7, "a", [n], 1, n) for n in range(210)]
    random.Random(1).shuffle(rows)
    net = net_rows(staged(rows), KEY, False, "Write", "t")
    assert [(n % 7, "a", (n,)) for n in range(203, 210)] == listed(whole(net))
    with pytest.raises(RejectedRecordError, match=r"Write: the key is not unique: .* rows are left for \{'k': 3, "):
        net_rows(staged([*rows, (3, "a", [-1], 1, 206)]), KEY, False, "Write", "t")
    with pytest.raises(RejectedRecordError, match="the key is not unique: 30 rows are left"):
        net_rows(staged(rows), KEY, True, "Write", "t")


def test_no_rows_change_nothing(is_on_disk: bool) -> None:
    """Nor do rows that cancel each other."""
    assert net_rows([], KEY, True, "Write", "t").is_empty
    assert net_rows(staged([(n, "a", [1], s, 0) for n in range(40) for s in (1, -1)]), KEY, True, "W", "t").is_empty
