"""Deferred frames have the results of pandas on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as beam
from penstock.dataframe import NonParallelOperation, WontImplementError, allow_non_parallel_operations
from penstock.dataframe.convert import to_dataframe, to_pcollection
from penstock.dataframe.frames import DeferredDataFrame
from penstock.dataframe.io import read_csv, read_parquet
from penstock.dataframe.transforms import DataframeTransform
from penstock.sdk.errors import SourceError, TypeHintError
from penstock.sdk.typehints.schema import with_schema
from penstock.testing import assert_that, equal_to


def joined_outer(df: Any) -> Any:
    few = df[df.n < 2].rename(columns={"n": "m"})
    return df[df.n > 0].merge(few, left_on="n", right_on="m", how="outer")


def sums_by_number(df: Any) -> Any:
    return df.groupby("n")[["x"]].sum().rename(columns={"x": "total"})


def without_index(df: Any) -> Any:
    return df.reset_index(drop=True)


# Of a frame with columns k of text, n of whole numbers, and x of floats: of pandas, and deferred.
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda df: df[["x", "k"]],
    "column": lambda df: df.n,
    "filter": lambda df: df[(df.x > 0) | ~(df.n <= 2) & df.k.isin(["a"])],
    "not equal": lambda df: df[df.x != 1.5],
    "loc": lambda df: df.loc[df.n.between(0, 3), ["n"]],
    "arithmetic": lambda df: df.assign(c=2 * df.n - df.x, d=lambda f: f.n / 2, e=-df.n + abs(df.x), f=df.n % 3),
    "quotients": lambda df: df.assign(q=df.x / df.n, r=df.n // 2)[["q", "r"]],
    "fillna": lambda df: df.fillna({"x": 0.5}),
    "missing": lambda df: df[df.x.isna()],
    "dropna": lambda df: df.dropna(subset=["x"]).x.astype(int),
    "types": lambda df: df.assign(n=df.n.astype(float), s=df.n.astype(str)),
    "text": lambda df: df.assign(u=df.k.str.upper(), l=df.k.str.len(), s=df.k.str.startswith("a")),
    "contains": lambda df: df[df.k.str.contains("a|c")],
    "drop": lambda df: df.drop(columns=["x"]).rename(columns={"n": "m"}),
    "sum": lambda df: df.groupby("k").sum(),
    "mean": lambda df: df.groupby("k")[["n", "x"]].mean(),
    "count": lambda df: df.groupby(["k", "n"]).x.count(),
    "size": lambda df: df.groupby("k").size(),
    "agg": lambda df: df.groupby("k").agg({"n": "min", "x": "max"}),
    "named": lambda df: df.groupby("n", as_index=False).agg(lo=("x", "min"), hi=("k", "max"), t=("n", "sum")),
    "key of numbers": lambda df: df.groupby("x").n.sum().reset_index(),
    "filtered": lambda df: df[df.x > 0].groupby("k").x.mean(),
    "merge": lambda df: df.merge(df.groupby("k", as_index=False).x.sum(), on="k"),
    "merge left": lambda df: df.merge(df[df.n > 1][["k", "n"]], on="n", how="left", suffixes=("", "_r")),
    "merge outer": joined_outer,
    "merge index": lambda df: without_index(df.merge(df[df.n > 1].groupby("k").x.sum(), left_on="k", right_index=True)),
    "merge index outer": lambda df: without_index(
        df[df.n > 0].merge(sums_by_number(df), "outer", left_on="n", right_index=True)
    ),
    "merge index left": lambda df: without_index(
        df.merge(sums_by_number(df[["n", "x"]]), "left", left_on="n", right_index=True)
    ),
    "merge by own index": lambda df: without_index(
        sums_by_number(df[df.n < 3]).merge(
            df[["k", "n"]].rename(columns={"n": "m"}), "right", left_index=True, right_on="m"
        )
    ),
}

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "bc"]),
        st.integers(-3, 5),
        st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 1.5, 4.0])),
    ),
    min_size=1,
    max_size=12,
)


def plain(value: Any) -> Any:
    """A value with None for every missing value, and a number as a float."""
    if value is None or value is pandas.NA or value != value:
        return None
    return value if isinstance(value, str) else float(value)


def of_pandas(found: Any) -> list[Any]:
    if isinstance(found, pandas.Series):
        found = found.to_frame("values")
    frame = found if found.index.names == [None] else found.reset_index()
    return [tuple(map(plain, row)) for row in frame.itertuples(index=False)]


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@settings(max_examples=6)
@given(rows=ROWS)
def test_results_are_those_of_pandas(rows: list[tuple[str, int, float | None]]) -> None:
    """All operations, on random rows, in one pipeline."""
    frame = pandas.DataFrame(rows, columns=["k", "n", "x"]).astype({"x": float})
    with beam.Pipeline() as p:
        # The last row tells the types, if all others have None.
        df = to_dataframe(p | beam.Create([beam.Row(k=k, n=n, x=x) for k, n, x in [*rows, ("z", 0, 0.0)]]))
        df = df[df.k != "z"]
        for name, operation in OPERATIONS.items():
            result = operation(df)
            result = result if isinstance(result, DeferredDataFrame) else result.to_frame("values")
            pcoll = to_pcollection(result, label=name, include_indexes=True)
            assert_that(pcoll, has_rows(in_order(of_pandas(operation(frame)))), f"{name} is that of pandas")


def has_rows(expected: list[Any]) -> Callable[[list[Any]], None]:
    def check(rows: list[Any]) -> None:
        actual = in_order([tuple(map(plain, row)) for row in rows])
        assert len(expected) == len(actual)
        for one, other in zip(expected, actual, strict=True):
            assert all(a == b or (isinstance(a, float) and math.isclose(a, b)) for a, b in zip(one, other)), actual

    return check


def test_aggregates_are_those_of_each_window(pipeline: Any) -> None:
    """And so are joins and the greatest rows."""
    rows = [beam.Row(k="ab"[i % 2], n=i) for i in range(10)]
    with pipeline as p:
        windowed = p | beam.Create(rows) | beam.WithTimestamps("n") | beam.WindowInto(beam.window.FixedWindows(5))
        df = to_dataframe(windowed)
        totals = df.groupby("k").n.sum().reset_index()
        assert_that(to_pcollection(totals), equal_to([("a", 6), ("b", 4), ("a", 14), ("b", 21)]), "totals")
        shares = df.merge(totals.rename(columns={"n": "total"}), on="k")
        assert_that(to_pcollection(shares[shares.n > 7]), equal_to([("a", 8, 14), ("b", 9, 21)]), "shares")
        assert_that(to_pcollection(df.nlargest(1, "n", keep="any").n), equal_to([4, 9]), "greatest")


def test_files_are_read_and_written(tmp_path: Path) -> None:
    """CSV with missing values, types and a separator; Parquet; and the index of groups."""
    (tmp_path / "in.csv").write_text("item;cups;price;sold\ntea;1;2.5;true\nmilk;;3;False\n")
    with beam.Pipeline() as p:
        df = p | read_csv(str(tmp_path / "in.csv"), sep=";")
        df.to_parquet(tmp_path / "all")
        df.groupby("item").agg(n=("cups", "count"), price=("price", "max")).to_csv(tmp_path / "items")
        df[["price"]].to_csv(tmp_path / "prices", index=False, header=False)
    with beam.Pipeline() as p:
        again = p | read_parquet(str(tmp_path / "all*"), columns=["item", "cups", "sold"])
        assert_that(to_pcollection(again), equal_to([("tea", 1, True), ("milk", None, False)]))

    def lines(name: str) -> list[str]:
        return sorted((tmp_path / f"{name}-00000-of-00001").read_text().splitlines())

    assert ["item,n,price", "milk,0,3.0", "tea,1,2.5"] == lines("items")
    assert ["2.5", "3.0"] == lines("prices")


def test_rows_that_are_too_short_are_padded(tmp_path: Path) -> None:
    """With missing values, as by pandas, which skips lines of spaces, too."""
    (tmp_path / "in.csv").write_text("a,b,c\n1,x,2.5\n3\n  \n\n 4,y\n,,\n")
    with beam.Pipeline() as p:
        df = p | read_csv(str(tmp_path / "in.csv"))
        rows = [(1, "x", 2.5), (3, None, None), (4, "y", None), (None, None, None)]
        assert_that(to_pcollection(df), equal_to(rows))


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4,5\n", "a,b\n" + "1,2\n" * 300_000 + "3,4,5\n"])
def test_rows_that_are_too_long_are_refused(tmp_path: Path, text: str) -> None:
    """With the path, whether or not the row is among those by which types are inferred."""
    (tmp_path / "in.csv").write_text(text)

    def run() -> None:
        with beam.Pipeline() as p:
            _ = to_pcollection((p | read_csv(str(tmp_path / "in.csv"))).a) | beam.combiners.Count.Globally()

    with pytest.raises(SourceError, match=r"in.csv.*xpected 2 (columns|values).*got 3"):
        run()


def test_transforms_take_and_return_frames_by_name() -> None:
    """As Beam's do; and rows may be frames of pandas."""
    with beam.Pipeline() as p:
        left = p | "left" >> beam.Create([beam.Row(k="a", n=1), beam.Row(k="b", n=2)])
        right = p | "right" >> beam.Create([beam.Row(k="a", m=3)])
        joined = {"left": left, "right": right} | DataframeTransform(
            lambda left, right: {"both": left.merge(right, on="k"), "n": left.n}
        )
        assert_that(joined["both"], equal_to([("a", 1, 3)]), "both")
        assert_that(joined["n"], equal_to([1, 2]), "n")
        frames = to_pcollection(to_dataframe(left), yield_elements="pandas")
        assert_that(frames | beam.FlatMap(lambda frame: frame.n.tolist()), equal_to([1, 2]), "frames")


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda df: df.sort_values("n"), "df.sort_values isn't supported on a deferred frame; rows have no order"),
        (lambda df: df.head(), "df.head isn't supported"),
        (lambda df: df[1:2], "rows have no order"),
        (lambda df: df.n.cumsum(), "df.cumsum isn't supported on a deferred series"),
        (lambda df: df.nlargest(2, "n"), 'give keep="any"'),
        (lambda df: df.pivot_table("n"), "df.pivot_table isn't supported"),
        (lambda df: df.groupby("k").median(), r"df.groupby\(...\).median isn't supported"),
        (lambda df: df.groupby("k").agg({"n": ["min", "max"]}), "expected one of sum, mean"),
        (lambda df: df[["n", "k"]].groupby("n").sum(), "column 'k' is of the type string; expected numbers"),
        (lambda df: df.groupby(lambda row: row), "expected the name of a column"),
        (lambda df: df.assign(m=df[df.n > 1].n), "'n' is a series of other rows"),
        (lambda df: df.merge(df, on="k", indicator=True), r"df.merge\(indicator=True\) isn't supported"),
        (lambda df: df.merge(df, left_on="k", right_index=True), r"merge\(right_index=True\).*which set_index makes"),
        (lambda df: df.merge(df, left_index=True, right_index=True), r"merge\(left_index=True, right_index=True\)"),
        (lambda df: df.n.str.wrap(3), "df.str.wrap isn't supported"),
        (lambda df: df.to_csv("out"), "the frame has no index; give index=False"),
    ],
)
def test_other_operations_are_refused_by_name(operation: Callable[[Any], Any], expected: str) -> None:
    """With Beam's class of error."""
    df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(k="a", n=1)]))

    with pytest.raises(WontImplementError, match=expected):
        operation(df)


def test_operations_on_all_rows_are_refused() -> None:
    """Also where Beam would allow them."""
    df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(k="a", n=1)]))

    with allow_non_parallel_operations(), pytest.raises(NonParallelOperation, match="df.sum isn't supported"):
        df.sum()
    with pytest.raises(NonParallelOperation, match="df.median isn't supported"):
        df.n.agg("median")
    with pytest.raises(KeyError, match="there is no column 'm'; the frame has k, n"):
        df["m"]
    with pytest.raises(TypeHintError, match="df.to_dataframe: the fields of Create/Values's elements"):
        to_dataframe(beam.Pipeline() | beam.Create([(1, 2)]))


def test_aggregates_of_a_series_are_those_of_pandas() -> None:
    """Missing values count for nothing."""
    values = [1.5, None, 4.0]
    with beam.Pipeline() as p:
        df = to_dataframe(
            p | beam.Create([beam.Row(x=x) for x in values]).with_output_types(with_schema(beam.Row, [("x", "double")]))
        )
        for name in ("sum", "mean", "count", "min", "max"):
            expected = getattr(pandas.Series(values), name)()
            assert_that(to_pcollection(getattr(df.x, name)()), equal_to([expected]), name)


def test_values_are_a_series() -> None:
    """Of numbers or texts."""
    with beam.Pipeline() as p:
        numbers = to_dataframe(p | beam.Create([1, 2]))
        assert_that(to_pcollection(numbers * 3), equal_to([3, 6]), "numbers")
        texts = to_dataframe(p | "texts" >> beam.Create(["a"]))
        assert_that(to_pcollection(texts.str.upper()), equal_to(["A"]), "texts")


def test_columns_are_chosen_by_their_names() -> None:
    """As by pandas's filter."""
    df = to_dataframe(beam.Pipeline() | beam.Create([beam.Row(price=1.0, net_price=0.5, item="tea")]))
    assert ["item", "price"] == df.filter(items=["item", "price", "no"]).columns
    assert ["price", "net_price"] == df.filter(like="price").columns
    assert ["price"] == df.filter(regex="^p").columns
    with pytest.raises(TypeError, match="expected one of items, like and regex"):
        df.filter()
    with pytest.raises(WontImplementError, match="filter rows by a mask"):
        df.filter(like="a", axis=0)
