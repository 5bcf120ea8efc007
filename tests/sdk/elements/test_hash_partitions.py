"""Records in partitions of their hash are read back as they were added."""

from __future__ import annotations

import marshal
import tempfile
from typing import Any

import pytest

from penstock.sdk.elements.hash_partitions import PARTITIONS, HashPartitions


def test_records_are_read_in_the_order_in_which_they_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file, and those that are still in memory; again and again."""
    files: list[Any] = []
    create = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: files.append(create(**options)) or files[-1])
    with HashPartitions[int](marshal.dumps, marshal.loads, held=1_000) as kept:
        for number in range(3_500):
            kept.add(number % 3 - PARTITIONS, number)
        for _ in range(2):
            found = [list(kept.of(number)) for number in range(PARTITIONS)]
            assert [[n for n in range(3_500) if n % 3 == number] for number in range(3)] == found[:3]
            assert [] == [record for rest in found[3:] for record in rest]
        assert [False] == [file.closed for file in files]
    assert files[0].closed


def test_few_records_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tempfile, "TemporaryFile")
    kept = HashPartitions[str](marshal.dumps, marshal.loads, held=1_000)
    kept.add(7, "record", size=999)
    assert ["record"] == list(kept.of(7))
