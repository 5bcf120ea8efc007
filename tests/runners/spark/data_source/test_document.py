"""The program of docs/spark_data_source.md."""

from __future__ import annotations

import pathlib
from typing import Any

from support.programs.document_code import programs
from support.programs.running_program import wait_until


def test_the_document_copies_long_visits(spark: Any, tmp_path: pathlib.Path) -> None:
    """As written, with other paths."""
    (code,) = programs("docs/spark_data_source.md", __file__)
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "1.txt").write_text("start 10\ncart 70\n")
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace('"/shop', f'"{tmp_path}'), names)
    try:
        wait_until(lambda: list(tmp_path.glob("long*")), "the first batch")
        with (tmp_path / "visits" / "1.txt").open("a") as file:
            file.write("pay 90\n")
        wait_until(lambda: len(list(tmp_path.glob("long*"))) > 1, "the second batch")
    finally:
        names["query"].stop()
    lines = [line for path in tmp_path.glob("long*") for line in path.read_text().splitlines()]
    assert ["cart 70", "pay 90"] == sorted(lines)
