"""CSV files as columns have the values of the csv module, or are left to it."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import penstock as beam
from penstock.io.files.csv import CsvSource
from penstock.io.files.csv_columns import CsvColumns, DifferentlyParsedError
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import as_dicts
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.errors import SourceError

PIECES = ["a", "b c", ",", '"', '""', ',"', '",', "\n", "\r\n", "\r", "é", "\ufeff", "\0", "7", " ", ";", "'"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv") / "a.csv"


def by_csv_module(path: Path, **options: Any) -> tuple[list[Any], SourceError | None]:
    """Return the values that the csv module reads before an error, and the error."""
    source = CsvSource(path, **options)
    values: list[Any] = []
    try:
        for (file_range,) in source.split(1):
            for chunk, _ in source.read_range(file_range):
                values += chunk
    except SourceError as error:
        return values, error
    return values, None


def as_columns(data: bytes, columns: CsvColumns) -> tuple[list[Any], bool]:
    """Return the values that pyarrow reads, and whether they are all."""
    found: list[Any] = []
    try:
        for batch in columns.batches("a.csv", io.BytesIO(data), lambda path, names: None):
            found += as_dicts(batch)
    except DifferentlyParsedError:
        return found, False
    return found, True


def same(left: Any, right: Any) -> bool:
    """Return whether values are equal and of one type, with NaN equal to itself."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    is_nan = isinstance(left, float) and math.isnan(left)
    return type(left) is type(right) and (left == right or (is_nan and math.isnan(right)))


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=25),
    names=st.sampled_from([["x"], ["x", "y"]]),
    size=st.sampled_from([4, 5, 8, 1 << 20]),
    delimiter=st.sampled_from([",", ";"]),
    quotechar=st.sampled_from(['"', "'"]),
)
@example(pieces=['"', "a", '"', "b c", ",", "a"], names=["x", "y"], size=8, delimiter=",", quotechar='"')
@example(pieces=['"', "\n", "a"], names=["x"], size=4, delimiter=",", quotechar='"')
@example(pieces=["a", "\r", "b c"], names=["x"], size=4, delimiter=",", quotechar='"')
def test_any_text_gives_the_values_of_the_csv_module(
    path: Path, pieces: list[str], names: list[str], size: int, delimiter: str, quotechar: str
) -> None:
    """Whatever the size of blocks.  What is malformed for the csv module isn't parsed by pyarrow."""
    data = "".join(pieces).encode()
    path.write_bytes(data)
    options: dict[str, Any] = {"names": names, "delimiter": delimiter, "quotechar": quotechar}
    values, error = by_csv_module(path, **options)
    columns = CsvColumns(names, None, {}, None, delimiter, quotechar, size)
    found, is_all = as_columns(data, columns)

    if error is None:
        assert found == (values if is_all else values[: len(found)])
        source = CsvSource(path, **options)
        assert values == [value for split in source.split(1) for b in source.read_bundles(split) for value in b.values]
    else:
        assert not is_all


NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["0x10", " 1", "+1", "1_0", "nan", "NaN", "nan(1)", "-inf", "infinity", "1e400", ".5", "5.", "007"]
    ),
)


@given(numbers=st.lists(NUMBERS, min_size=4, max_size=5), convert=st.sampled_from([int, float]))
def test_numbers_are_those_of_python(path: Path, numbers: list[str], convert: Any) -> None:
    """Or they are left to Python, which may refuse them."""
    data = "".join(f"{number},x\n" for number in numbers).encode()
    path.write_bytes(data)
    values, error = by_csv_module(path, names=["n", "s"], converters={"n": convert})
    found, is_all = as_columns(data, CsvColumns(["n", "s"], None, {"n": convert}, None))

    assert error is None or not is_all
    if is_all:
        assert len(found) == len(values)
        assert all(map(same, found, values))


def test_numbers_that_pyarrow_reads_as_python_does_are_columns(tmp_path: Path) -> None:
    data = b"n,f\n1,1.5\n-7,nan\n007,-inf\n9223372036854775807,1e400\n"
    assert as_columns(data, CsvColumns(None, None, {"n": int, "f": float}, None))[1]


@pytest.mark.parametrize("as_rows", [False, True])
def test_a_file_is_read_as_columns(tmp_path: Path, as_rows: bool) -> None:
    """In several bundles, with chosen columns, numbers, and the path."""
    n = 3 * BUNDLE_SIZE
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n" + "".join(f'{i},"x\ny{i}",{i / 7}\n' for i in range(n)))
    source = CsvSource(
        path, usecols=["c", "a"], converters={"a": int, "c": float}, filename_column="file", as_rows=as_rows
    )

    bundles = [bundle for split in source.split(3) for bundle in source.read_bundles(split)]

    assert {ColumnBundle} == set(map(type, bundles))
    assert max(map(len, bundles)) <= BUNDLE_SIZE
    expected: list[Any] = [{"c": i / 7, "a": i, "file": str(path)} for i in range(n)]
    if as_rows:
        expected = [beam.Row(**record) for record in expected]
    assert expected == [value for bundle in bundles for value in bundle.values]


@pytest.mark.parametrize(
    "options",
    [
        {"converters": {"a": lambda text: text * 2}},
        {"quoting": 3},
        {"escapechar": "\\"},
        {"skipinitialspace": True},
        {"delimiter": "é"},
        {"usecols": []},
    ],
)
def test_other_options_are_left_to_the_csv_module(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    if "delimiter" in options:
        path.write_text("aéb\n1é2\n", encoding="utf-8")
    source = CsvSource(path, **options)
    values, error = by_csv_module(path, **options)
    bundles = [bundle for split in source.split(1) for bundle in source.read_bundles(split)]
    assert error is None
    assert not any(isinstance(bundle, ColumnBundle) for bundle in bundles)
    assert values == [value for bundle in bundles for value in bundle.values]


def test_the_csv_module_reads_what_follows_a_quote_within_a_value(tmp_path: Path) -> None:
    """And names the line of a later error."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{i},x\n" for i in range(300_000)) + '1,5" pipe\n2,3,4\n')
    source = CsvSource(path)
    values: list[Any] = []
    kinds = set()

    def read() -> None:
        for split in source.split(1):
            for bundle in source.read_bundles(split):
                kinds.add(type(bundle))
                values.extend(bundle.values)

    with pytest.raises(SourceError, match=r"a\.csv', line 300003: expected 2 values \(a, b\), got 3"):
        read()
    assert len(kinds) == 2
    assert values == [{"a": str(i), "b": "x"} for i in range(len(values))]
    assert len(values) > 290_000
