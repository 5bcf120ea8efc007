"""Operations on columns give what the same operations on rows give, from columns and from rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas
import pyarrow
import pyarrow.parquet
import pytest
from support.pipelines.checks import check
from support.runners.local_variants import IN_THIS_PROCESS

import penstock as beam
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.errors import ColumnError, PipelineError, SourceError
from penstock.testing import TestWindowedValue
from penstock.transforms.combiners.mean import MeanCombineFn
from penstock.windowing import CalendarDays, FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

RECORDS = [{"user": f"u{i % 5}", "at": (i * 37) % 400, "value": i - 50} for i in range(100)]


@pytest.fixture(params=["parquet", "csv", "table", "frame", "rows"])
def events(request: pytest.FixtureRequest, tmp_path: Path) -> beam.PTransform:
    """A source of Rows, as columns and one by one."""
    if request.param == "rows":
        return beam.Create([beam.Row(**record) for record in RECORDS])
    if request.param == "table":
        return beam.Create(pyarrow.Table.from_pylist(RECORDS))
    if request.param == "frame":
        return beam.Create(pandas.DataFrame(RECORDS))
    if request.param == "csv":
        path = tmp_path / "events.csv"
        lines = [f"{one['user']},{one['at']},{one['value']}\n" for one in RECORDS]
        path.write_text("user,at,value\n" + "".join(lines))
        return beam.io.ReadFromCsv(path, converters={"at": int, "value": int}, as_rows=True)
    path = tmp_path / "events.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), path, row_group_size=30)
    return beam.io.ReadFromParquet(path, as_rows=True)


def test_expressions_filter_and_compute(pipeline: Any, events: beam.PTransform) -> None:
    """In a stage, behind a function, and before one."""
    value = beam.col("value")
    with pipeline as p:
        kept = p | events | beam.Filter((value % 3 == 0) & (beam.col("user") != "u1"))
        rows = kept | beam.Select("user", half=value // 2, ratio=value / 4)
        check(
            [
                beam.Row(user=one["user"], half=one["value"] // 2, ratio=one["value"] / 4)
                for one in RECORDS
                if one["value"] % 3 == 0 and one["user"] != "u1"
            ],
            rows,
        )
        positive = rows | "function" >> beam.Map(lambda row: beam.Row(n=row.half)) | beam.Filter(beam.col("n") > 0)
        numbers = positive | "doubled" >> beam.Map(beam.col("n") * 2) | "plus" >> beam.Map(lambda n: n + 1)
        halves = [
            one["value"] // 2 for one in RECORDS if one["value"] % 3 == 0 and one["user"] != "u1" and one["value"] > 1
        ]
        check([2 * half + 1 for half in halves], numbers)


@pytest.mark.parametrize(
    "window_fn",
    [FixedWindows(60, 7), SlidingWindows(60, 20), SlidingWindows(20, 30), GlobalWindows(), CalendarDays()],
    ids=repr,
)
def test_event_times_and_windows_are_those_of_rows(pipeline: Any, events: beam.PTransform, window_fn: WindowFn) -> None:
    """By the name of a field, by an expression, and by a function."""
    with pipeline as p:
        read = p | events
        found = {}
        for name, stamp in (("name", "at"), ("col", beam.col("at") * 2 / 2), ("function", lambda row: row.at)):
            stamped = read | f"{name} at" >> beam.WithTimestamps(stamp)
            selected = stamped | f"{name} select" >> beam.Select("user", "value")
            found[name] = selected | f"{name} windows" >> beam.WindowInto(window_fn)
        expected = [
            TestWindowedValue(beam.Row(user=one["user"], value=one["value"]), one["at"], [window])
            for one in RECORDS
            for window in window_fn.assign_micros(one["at"] * 1_000_000)
        ]
        for pcollection in found.values():
            check(expected, pcollection, reify_windows=True)


def test_windows_are_assigned_again_in_each_window(pipeline: Any, events: beam.PTransform) -> None:
    """An element of three windows is three elements then, as it is with rows; and sums are those of rows."""
    with pipeline as p:
        stamped = p | events | beam.WithTimestamps("at") | beam.WindowInto(SlidingWindows(60, 20))
        again = stamped | "again" >> beam.WindowInto(FixedWindows(60))
        sums = again | beam.GroupBy("user").aggregate_field("value", sum, "total")
        expected: dict[tuple[str, int], int] = {}
        for one in RECORDS:
            key = one["user"], one["at"] // 60
            expected[key] = expected.get(key, 0) + 3 * one["value"]
        check(
            [(user, total) for (user, _), total in expected.items()],
            sums | beam.Map(lambda row: (row.user, row.total)),
        )


@pytest.mark.parametrize(
    "window_fn",
    [FixedWindows(60), SlidingWindows(60, 20), SlidingWindows(20, 30), Sessions(20), CalendarDays()],
    ids=repr,
)
def test_aggregates_of_columns_are_those_of_rows(pipeline: Any, events: beam.PTransform, window_fn: WindowFn) -> None:
    """In windows of all kinds; by names, expressions and functions; and an expression sees the results."""
    value = beam.col("value")
    with pipeline as p:
        windowed = p | events | beam.WithTimestamps("at") | beam.WindowInto(window_fn)
        names = beam.GroupBy("user").aggregate_field("value", sum, "total").aggregate_field("at", max, "last")
        columns = beam.GroupBy(beam.col("user"), odd=value % 2).aggregate_field(value * 2, MeanCombineFn(), "mean")
        columns = columns.aggregate_field("at", beam.combiners.CountDistinctCombineFn(), "times")
        columns = columns.aggregate_field(value, beam.combiners.Largest(2), "greatest")
        rows = beam.GroupBy(key0=lambda row: row.user, odd=lambda row: row.value % 2)
        rows = rows.aggregate_field(lambda row: row.value * 2, MeanCombineFn(), "mean")
        rows = rows.aggregate_field(lambda row: row.at, beam.combiners.CountDistinctCombineFn(), "times")
        rows = rows.aggregate_field(lambda row: row.value, beam.combiners.Largest(2), "greatest")
        check_both(windowed | "names" >> names, windowed | "functions" >> by_functions())
        check_both(windowed | "columns" >> columns, windowed | "rows" >> rows)
        kept = windowed | "again" >> names | beam.Filter(beam.col("total") > 0)
        above = windowed | "by functions" >> by_functions() | "above" >> beam.Filter(lambda row: row.total > 0)
        check_both(kept | beam.Select("user", "total"), above | "select" >> beam.Select("user", "total"))


def by_functions() -> Any:
    found = beam.GroupBy(user=lambda row: row.user).aggregate_field(lambda row: row.value, sum, "total")
    return found.aggregate_field(lambda row: row.at, max, "last")


def check_both(actual: beam.PCollection[Any], expected: beam.PCollection[Any]) -> None:
    """Fail the run unless two PCollections have the same elements, timestamps and windows."""
    label = f"check {actual.producer_label}"
    both = {}
    for kind, pcoll in (("actual", actual), ("expected", expected)):
        whole = pcoll | f"{label}, {kind}" >> beam.ParDo(WithEverything())
        both[kind] = whole | f"{label}, {kind} in one window" >> beam.WindowInto(GlobalWindows())
    grouped = both | f"{label}, both" >> beam.CoGroupByKey()
    check([], grouped | f"{label}, where they differ" >> beam.Filter(differs))


def differs(pair: Any) -> bool:
    _, found = pair
    return len(found["actual"]) != len(found["expected"])


class WithEverything(beam.DoFn):
    """Pairs with all that is known of an element as their key."""

    def process(
        self, element: Any, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        yield (tuple(tuple(item) if type(item) is list else item for item in element), at, window), None


def test_combiners_of_columns(pipeline: Any, events: beam.PTransform) -> None:
    """Of pairs of columns, of one column, and of whole elements."""
    user, value, at = beam.col("user"), beam.col("value"), beam.col("at")
    users = sorted({one["user"] for one in RECORDS})

    def of_user(name: str, field: str) -> list[int]:
        return [one[field] for one in RECORDS if one["user"] == name]

    with pipeline as p:
        read = p | events
        pairs = read | beam.Map((user, value))
        check([(name, sum(of_user(name, "value"))) for name in users], pairs | beam.CombinePerKey(sum))
        check([(name, 20) for name in users], pairs | beam.combiners.Count.PerKey())
        means = [(name, sum(of_user(name, "value")) / 20) for name in users]
        check(means, pairs | beam.combiners.Mean.PerKey())
        distinct = read | "modulo" >> beam.Map((user, at % 30)) | beam.combiners.CountDistinct.PerKey()
        check([(name, len({at % 30 for at in of_user(name, "at")})) for name in users], distinct)
        greatest = [(name, sorted(of_user(name, "value"))[:-4:-1]) for name in users]
        check(greatest, pairs | beam.combiners.Top.LargestPerKey(3))
        check([["u0"] * 2], read | "names" >> beam.Map(user) | beam.combiners.Top.Smallest(2))
        tuples = read | "tuples" >> beam.Map((user, (value, at)))
        extremes = tuples | "extremes" >> beam.CombinePerKey(beam.combiners.TupleCombineFn(min, max))
        check([(name, (min(of_user(name, "value")), max(of_user(name, "at")))) for name in users], extremes)
        check([-50], read | beam.Map(value) | beam.CombineGlobally(sum))
        check([100], read | beam.combiners.Count.Globally())
        counts = read | "users" >> beam.Map(user) | beam.combiners.Count.PerElement()
        check([(name, 20) for name in users], counts)
        selected = read | beam.Select("user") | "rows" >> beam.combiners.Count.PerElement()
        check([(beam.Row(user=name), 20) for name in users], selected)


def test_elements_are_grouped_by_expressions(pipeline: Any, events: beam.PTransform) -> None:
    with pipeline as p:
        groups = p | events | beam.Filter(beam.col("value") >= 46) | beam.GroupBy(beam.col("value") % 2)
        values = groups | beam.MapTuple(lambda key, rows: (key, sorted(row.value for row in rows)))
        check([(0, [46, 48]), (1, [47, 49])], values)


def test_groups_and_joins_of_columns_are_those_of_rows(pipeline: Any, events: beam.PTransform) -> None:
    """By names, by expressions, and of several inputs with keys that only one of them has; in windows."""
    user, value, at = beam.col("user"), beam.col("value"), beam.col("at")
    with pipeline as p:
        windowed = p | events | beam.WithTimestamps("at") | beam.WindowInto(SlidingWindows(120, 60))
        for name, columns, key in (
            ("name", beam.GroupBy("user"), lambda row: row.user),
            ("names", beam.GroupBy("user", "value"), lambda row: (row.user, row.value)),
            ("expression", beam.GroupBy(user, odd=value % 2), lambda row: (row.user, row.value % 2)),
        ):
            rows = windowed | f"{name} rows" >> beam.GroupBy(key)
            check_both(
                *(
                    found
                    | f"{name} {kind}" >> beam.MapTuple(lambda key, rows: ("group", tuple(key), *sorted(rows, key=str)))
                    for kind, found in (("actual", windowed | name >> columns), ("expected", rows))
                )
            )
        few = windowed | beam.Filter(value > 20)
        of_columns = {
            "values": windowed | "values" >> beam.Map((user, value)),
            "times": few | "times" >> beam.Map((user, (at, value))),
        }
        of_rows = {
            "values": windowed | "values of rows" >> beam.Map(lambda row: (row.user, row.value)),
            "times": few | "times of rows" >> beam.Map(lambda row: (row.user, (row.at, row.value))),
        }
        both = []
        for kind, tagged in (("columns", of_columns), ("rows", of_rows)):
            of_dict = tagged | f"dict of {kind}" >> beam.CoGroupByKey()
            of_tuple = (tagged["times"], tagged["values"]) | f"tuple of {kind}" >> beam.CoGroupByKey()
            dicts = of_dict | f"show dict of {kind}" >> beam.MapTuple(
                lambda user, own: (user, *((tag, *sorted(values)) for tag, values in own.items()))
            )
            tuples = of_tuple | f"show tuple of {kind}" >> beam.MapTuple(
                lambda user, own: (user, type(own).__name__, *map(tuple, map(sorted, own)))
            )
            both.append((dicts, tuples) | f"both of {kind}" >> beam.Flatten())
        check_both(*both)


def test_inputs_of_a_join_may_have_other_types_of_keys(pipeline: Any) -> None:
    """Equal keys are one, whatever their columns are; an input may be of rows."""
    with pipeline as p:
        tables = {
            "ints": p | "ints" >> beam.Create(pyarrow.table({"k": [1, 2, None], "x": ["a", "b", "c"]})),
            "floats": p | "floats" >> beam.Create(pyarrow.table({"k": [2.0, 3.5], "x": ["d", None]})),
        }
        inputs = {
            name: table | f"{name} by k" >> beam.Map((beam.col("k"), beam.col("x"))) for name, table in tables.items()
        }
        inputs["rows"] = p | "rows" >> beam.Create([(2, "e"), (4, "f")])
        expected = {1: ["a", "", ""], 2: ["b", "d", "e"], None: ["c", "", ""], 3.5: ["", None, ""], 4: ["", "", "f"]}
        check(
            [
                (key, {name: [own] if own != "" else [] for name, own in zip(inputs, found)})
                for key, found in expected.items()
            ],
            inputs | beam.CoGroupByKey(),
        )


def test_nulls_are_values_and_keys_as_they_are_of_rows(make_pipeline: Any, tmp_path: Path) -> None:
    """A null key is None.  A null is counted; and for a sum it is the error of None, which names the transform."""
    path = tmp_path / "nulls.parquet"
    table = pyarrow.table({"user": [None, "a", None], "value": [1, None, 2]})
    pyarrow.parquet.write_table(table, path)
    with make_pipeline() as p:
        read = p | beam.io.ReadFromParquet(path, as_rows=True)
        number = beam.GroupBy("user").aggregate_field("value", beam.combiners.CountCombineFn(), "number")
        check([(None, 2), ("a", 1)], read | number | beam.Map(tuple))
        known = read | beam.Filter(beam.col("user").is_null())
        total = known | "total" >> beam.GroupBy("user").aggregate_field("value", sum, "total")
        check([(None, 3)], total | "tuple" >> beam.Map(tuple))
    failing = make_pipeline()
    _ = (
        failing
        | beam.io.ReadFromParquet(path, as_rows=True)
        | "sum" >> beam.GroupBy("user").aggregate_field("value", sum, "total")
    )
    with pytest.raises(TypeError) as raised:
        failing.run().wait_until_finish()
    text = "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert "unsupported operand" in text
    assert "sum/Combine" in text


def test_side_inputs_tags_and_state_see_rows(pipeline: Any, events: beam.PTransform) -> None:
    """And the values of a side input are rows."""

    def split(row: Any, limit: int) -> Any:
        yield row.value if row.value < limit else beam.pvalue.TaggedOutput("large", row.value)

    with pipeline as p:
        kept = p | events | beam.Filter(beam.col("value") >= 0)
        limit = beam.pvalue.AsSingleton(kept | beam.Map(beam.col("value")) | beam.CombineGlobally(max))
        parts = kept | beam.FlatMap(split, limit).with_outputs("large", main="small")
        check(list(range(49)), parts.small)
        check([49], parts.large)


WRONG = {
    "field": (beam.Filter(beam.col("velue") > 1), "there is no field 'velue'; the elements have user, at, value"),
    "select": (beam.Select(n=beam.col("velue")), "there is no field 'velue'; the elements have user, at, value"),
    "stamp": (beam.WithTimestamps("moment"), "there is no field 'moment'; the elements have user, at, value"),
    "zero": (beam.Map(beam.col("value") // (beam.col("at") * 0)), "a number is divided by 0"),
    "time": (beam.WithTimestamps("user"), "u0"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_errors_name_the_transform(pipeline: Any, events: beam.PTransform, kind: str) -> None:
    transform, expected = WRONG[kind]
    fine = pipeline | events | beam.Filter(beam.col("value") < 1000)

    def run() -> None:
        _ = fine | "wrong" >> transform | beam.Map(lambda element: element)
        pipeline.run().wait_until_finish()

    with pytest.raises((ColumnError, TypeError, ValueError)) as raised:
        run()
    text = "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert expected in text
    assert "wrong: " in text or "[while running 'wrong'" in text


def test_functions_and_expressions_do_not_mix() -> None:
    with pytest.raises(PipelineError, match="Select: 'b' is a function, and can't stand beside expressions of col"):
        beam.Select(a=beam.col("a") + 1, b=lambda row: row.b)
    with pytest.raises(TypeError, match="FlatMap: expected a function, got <Column a>"):
        beam.FlatMap(beam.col("a"))  # type: ignore[arg-type]


def test_dead_letters_of_expressions(pipeline: Any, events: beam.PTransform) -> None:
    """An element that can't be computed is one of them, alone."""
    with pipeline as p:
        ratio = beam.Map(100 // beam.col("value")).with_exception_handling()
        good, bad = p | events | ratio
        check([100 // one["value"] for one in RECORDS if one["value"]], good)
        check([0], bad | beam.Map(lambda letter: letter[0].value))


def test_columns_are_written_as_their_elements(pipeline: Any, events: beam.PTransform, tmp_path: Path) -> None:
    """To Parquet and to CSV files, behind columnar operations."""
    schema = pyarrow.schema([("value", pyarrow.int32()), ("user", pyarrow.string())])
    with pipeline as p:
        kept = p | events | beam.Filter(beam.col("value") % 2 == 0) | beam.Select("user", value=beam.col("value") * 2)
        _ = kept | beam.io.WriteToParquet(tmp_path / "out" / "parquet", schema)
        _ = kept | beam.io.WriteToCsv(tmp_path / "out" / "csv", columns=["value", "user"])
    expected = sorted((2 * one["value"], one["user"]) for one in RECORDS if one["value"] % 2 == 0)
    table = pyarrow.concat_tables(map(pyarrow.parquet.read_table, (tmp_path / "out").glob("parquet-*")))
    assert schema == table.schema
    assert expected == sorted((row["value"], row["user"]) for row in table.to_pylist())
    lines = [line for path in (tmp_path / "out").glob("csv-*") for line in path.read_text().split()]
    assert sorted(f"{value},{user}" for value, user in expected) == sorted(set(lines) - {"value,user"})


@pytest.mark.parametrize("files", [1, 3])
def test_a_missing_field_of_files_is_named(pipeline: Any, tmp_path: Path, files: int) -> None:
    """By the transform, with the fields that there are, in whatever file."""
    for i in range(files):
        names = ["user", "price"] if i < files - 1 else ["user", "cost"]
        pyarrow.parquet.write_table(pyarrow.table([["a"], [1]], names=names), tmp_path / f"{i}.parquet")

    def run() -> None:
        _ = pipeline | beam.io.ReadFromParquet(tmp_path / "*") | "dear" >> beam.Filter(beam.col("price") > 0)
        pipeline.run().wait_until_finish()

    with pytest.raises(ColumnError) as raised:
        run()
    text = "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert "there is no field 'price'; the elements have user, cost" in text
    assert "dear" in text


def test_files_with_other_fields_than_the_first_are_named(pipeline: Any, tmp_path: Path) -> None:
    """Rows have the schema of the first file."""
    pyarrow.parquet.write_table(pyarrow.table({"user": ["a"], "price": [1]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"user": ["a"], "price": ["1"]}), tmp_path / "b.parquet")
    read = beam.io.ReadFromParquet(tmp_path / "*.parquet", as_rows=True)
    _ = pipeline | "Sales" >> read | beam.Filter(beam.col("price") > 0)
    with pytest.raises(SourceError) as raised:
        pipeline.run().wait_until_finish()
    assert "the field 'price' is of the type string, expected it to be of the type int64" in str(raised.value)
    assert "Sales" in "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("parallelism", [1, 2])
def test_no_elements_are_made_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int) -> None:
    """From Parquet files to Parquet files, through all that keeps columns."""
    for i in range(2):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS[i::2]), tmp_path / f"{i}.parquet")

    def refused(bundle: ColumnBundle) -> Any:
        raise AssertionError("elements are made of columns")

    monkeypatch.setattr(ColumnBundle, "values", property(refused))
    p = beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(parallelism=parallelism))
    first, second = (
        p | f"Read{i}" >> beam.io.ReadFromParquet(tmp_path / f"{i}.parquet", as_rows=True) for i in range(2)
    )
    kept = (first | beam.Filter(beam.col("value") % 2 == 0), second) | beam.Flatten()
    windowed = kept | beam.WithTimestamps("at") | beam.WindowInto(FixedWindows(60))
    schema = pyarrow.schema([("user", pyarrow.string()), ("value", pyarrow.int64())])
    _ = windowed | beam.Select("user", value=beam.col("value") + 1) | beam.io.WriteToParquet(tmp_path / "out", schema)
    p.run().wait_until_finish()
    tables = map(pyarrow.parquet.read_table, tmp_path.glob("out-*"))
    found = [(row["user"], row["value"]) for row in pyarrow.concat_tables(tables).to_pylist()]
    kept_records = [one for i, one in enumerate(RECORDS) if i % 2 or one["value"] % 2 == 0]
    assert sorted((one["user"], one["value"] + 1) for one in kept_records) == sorted(found)


class Sale(NamedTuple):
    user: str
    value: Any


def test_an_expression_leaves_the_elements_as_they_are(pipeline: Any) -> None:
    """Of their class, and with the types of their values, when they leave the process, too."""
    sales = [Sale("a", 1), Sale("b", 2.5), Sale("c", 3)]
    with pipeline as p:
        kept = p | beam.Create(sales) | beam.Filter(beam.col("value") < 9)
        check([repr(sales)], p | "one" >> beam.Create([1]) | beam.Map(_shown, beam.pvalue.AsList(kept)))
        check(list(map(repr, sales)), kept | beam.Reshuffle() | "repr" >> beam.Map(repr))


def _shown(_: int, elements: list[Any]) -> str:
    return repr(sorted(elements))


@pytest.mark.parametrize("is_windowed", [True, False])
def test_columns_stay_columns_in_a_reshuffle(
    pipeline: Any, runner_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_windowed: bool
) -> None:
    """With timestamps and windows; and the columns of different files beside each other, and beside elements."""
    numbers = range(20_000)
    pyarrow.parquet.write_table(pyarrow.table({"n": numbers}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"other": ["x"] * 6_000, "n": numbers[:6_000]}), tmp_path / "b.parquet")
    values = ColumnBundle.values.fget  # type: ignore[attr-defined]

    def few(bundle: ColumnBundle) -> Any:
        # The first bundles of a job are small, and distributed as elements.
        assert len(bundle) <= 1_024 or "n" not in bundle.batch.schema.names, "elements are made of columns"
        return values(bundle)

    if runner_name in ("local", *IN_THIS_PROCESS):
        monkeypatch.setattr(ColumnBundle, "values", property(few))
    with pipeline as p:
        first, second = (p | name >> beam.io.ReadFromParquet(tmp_path / f"{name}.parquet") for name in "ab")
        read = (first, second, p | beam.Create([{"n": n} for n in range(3)])) | beam.Flatten()
        if is_windowed:
            read = read | beam.WithTimestamps("n") | beam.WindowInto(SlidingWindows(60, 30))
        shuffled = read | beam.Reshuffle()
        if is_windowed:
            pairs = shuffled | beam.Map((beam.col("n") % 2, beam.col("n")))
            sums = pairs | beam.CombinePerKey(sum) | beam.Map(lambda pair, at=beam.DoFn.WindowParam: (*pair, at.start))
            expected: dict[tuple[int, int], int] = {}
            for n in (*numbers, *range(6_000), *range(3)):
                for window in SlidingWindows(60, 30).assign_micros(n * 1_000_000):
                    cell = n % 2, window.start.micros
                    expected[cell] = expected.get(cell, 0) + n
            check([(odd, total, start / 1_000_000) for (odd, start), total in expected.items()], sums)
        else:
            # A sum of all numbers sees no elements either.
            total = shuffled | beam.Map(beam.col("n")) | beam.CombineGlobally(sum)
            check([sum(numbers) + sum(range(6_000)) + 3], total)


@pytest.mark.parametrize("is_a_list", [True, False])
def test_keys_may_be_none(pipeline: Any, tmp_path: Path, is_a_list: bool) -> None:
    """In a file as in a list, alone and beside another field."""
    records = [{"user": None if i % 3 else "u", "n": i, "kind": i % 2 or None} for i in range(20)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "a.parquet")
    rows = beam.Create([beam.Row(**record) for record in records])
    with pipeline as p:
        read = p | (rows if is_a_list else beam.io.ReadFromParquet(tmp_path / "a.parquet", as_rows=True))
        by_user = read | beam.GroupBy("user").aggregate_field("n", sum, "total")
        check([("u", 63), (None, 127)], by_user | "pairs" >> beam.Map(tuple))
        by_both = read | "both" >> beam.GroupBy("user", "kind").aggregate_field("n", sum, "total")
        expected = {("u", 1): 27, ("u", None): 36, (None, 1): 73, (None, None): 54}
        check([(*key, total) for key, total in expected.items()], by_both | "triples" >> beam.Map(tuple))
