"""read_csv: the types of columns are those of all files."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock as beam
from penstock.dataframe.convert import to_pcollection
from penstock.dataframe.io import read_csv
from penstock.sdk.errors import SourceError


def read(directory: pathlib.Path, files: dict[str, str], **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of files, in order."""
    for name, text in files.items():
        (directory / f"{name}.csv").write_text(text)
    with beam.Pipeline() as p:
        rows = beam.collect(to_pcollection(p | read_csv(str(directory / "*.csv"), **options)))
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"1": "k,n\n", "2": "k,n\na,1\n"}, [("a", 1)]),
        ({"1": "k,n\na,\n", "2": "k,n\nb,2\n"}, [("a", None), ("b", 2)]),
        ({"1": "k,n\na,1\n", "2": "k,n\nb,2.5\n"}, [("a", 1.0), ("b", 2.5)]),
        ({"1": "k,n\na,true\n", "2": "k,n\nb,2\n"}, [("a", "true"), ("b", "2")]),
        ({"1": "k,n\na,1\n", "2": "k,n\nb,two\n"}, [("a", "1"), ("b", "two")]),
        ({"1": "k,n\na,\n"}, [("a", None)]),
    ],
    ids=["a header only", "an empty column", "numbers", "a truth value and a number", "a number and text", "nothing"],
)
def test_types_are_those_of_all_files(files: dict[str, str], expected: Any, tmp_path: pathlib.Path) -> None:
    """A type that all values have; text if there is no other."""
    assert expected == read(tmp_path, files)


def test_a_column_that_begins_empty_has_the_type_of_its_first_value(tmp_path: pathlib.Path) -> None:
    """Also if that is far behind."""
    lines = ["k,n", *("a," for _ in range(1_000)), "b,7"]
    assert ("b", 7) == read(tmp_path, {"1": "\n".join(lines)}, sample_bytes=100)[-1]


def test_a_later_value_of_another_type_is_named_with_its_file_and_line(tmp_path: pathlib.Path) -> None:
    """And what to do about it works."""
    files = {"1": "k,n\na,1\n", "2": "\n".join(["k,n", *(f"b,{n}" for n in range(100)), "c,seven"])}
    with pytest.raises(SourceError, match=r"2.csv, line 102: column 'n' is of int64 .* got 'seven'; .* dtype="):
        read(tmp_path, files, sample_bytes=20)
    large = {"1": "k,n\na,1\n", "2": f"k,n\na,1\nb,{1 << 63}\n"}
    with pytest.raises(SourceError, match=r"2.csv, line 3: .* got '9223372036854775808'"):
        read(tmp_path, large, sample_bytes=10)
    assert ("c", "seven") == read(tmp_path, files)[-1]
    assert ("c", "seven") == read(tmp_path, files, sample_bytes=20, dtype={"n": str})[-1]


def test_a_sample_of_nothing_is_refused() -> None:
    """By its option."""
    with pytest.raises(ValueError, match="read_csv: sample_bytes must be a number of bytes of 1 or more, got 0"):
        read_csv("x.csv", sample_bytes=0)
