"""What type checkers say about an expression with a pipeline: the type of its value, or the error.

Names are those of `definitions.py`.  A type is written without modules, and a literal as its class.
"""

from __future__ import annotations

import attrs

# Why Pyright knows less than mypy: it infers the right operand of `|` without the left one.
LAMBDA = "Pyright doesn't know the parameter of a lambda behind `|`"

# Its type variables are in the parameters of the class only.
COMPOSITE = "Pyright infers the composite without the left side of `|`"

LABEL = "mypy infers a generic function behind a label without the elements"


@attrs.frozen
class Less:
    """The types in mypy and in Pyright, where one of them is less precise."""

    mypy: str
    pyright: str
    reason: str


@attrs.frozen
class Error:
    """An error that both checkers report: a part of its text in each; None for no error in Pyright."""

    mypy: str
    pyright: str | None


def operands(left: str, right: str, in_pyright: str | None = None) -> Error:
    """Return the error for operands of `|` that don't fit."""
    return Error(
        f'Unsupported operand types for | ("{left}" and "{right}")',
        f'Operator "|" not supported for types "{left}" and "{in_pyright or right}"',
    )


SOURCES: list[tuple[str, str | Less | Error]] = [
    ("p | beam.Create([1, 2, 3])", "PCollection[int]"),
    ("p | beam.Create((1.5, 2.5))", "PCollection[float]"),
    ('p | "label" >> beam.Create(["a"])', "PCollection[str]"),
    ('p | beam.Create({"a": 1})', "PCollection[tuple[str, int]]"),
    ('p | beam.Create([("a", 1)])', "PCollection[tuple[str, int]]"),
    ("p | beam.Create(range(3))", "PCollection[int]"),
    ('p | beam.Create([Click("ann", 1.0)])', "PCollection[Click]"),
    ('p | beam.Create([Visit("home", 10)])', "PCollection[Visit]"),
    ("p | beam.Create([beam.Row(a=1)])", "PCollection[Row]"),
    ('p | beam.Create([TimestampedValue("a", 3)])', "PCollection[str]"),
    ("p | beam.Impulse()", "PCollection[bytes]"),
    ("p | beam.Map(str)", operands("Pipeline", "Map[object, str]")),
    ("nums | beam.Create([1])", operands("PCollection[int]", "Create[int]")),
    ("nums | beam.Impulse()", operands("PCollection[int]", "Impulse")),
]

FUNCTIONS: list[tuple[str, str | Less | Error]] = [
    ("nums | beam.Map(lambda x: x + 1)", Less("PCollection[int]", "PCollection[Any]", LAMBDA)),
    (
        "nums | beam.Map(lambda x: (x, str(x)))",
        Less("PCollection[tuple[int, str]]", "PCollection[tuple[Any, str]]", LAMBDA),
    ),
    ("lines | beam.Map(lambda line: len(line))", "PCollection[int]"),
    (
        'lines | beam.Map(lambda line: ("key", line.count("a")))',
        Less("PCollection[tuple[str, int]]", "PCollection[tuple[str, Any]]", LAMBDA),
    ),
    ("lines | beam.Map(len)", "PCollection[int]"),
    ("lines | beam.Map(str.upper)", "PCollection[str]"),
    ("nums | beam.Map(half)", "PCollection[float]"),
    ('nums | "half" >> beam.Map(half)', "PCollection[float]"),
    ('nums | "text" >> beam.Map(lambda x: str(x))', "PCollection[str]"),
    ("nums | beam.Map(scaled, 2.5)", "PCollection[float]"),
    ('nums | beam.Map(scaled, 2.5, unit="m")', "PCollection[float]"),
    ("nums | beam.Map(scaled, by=2.5)", "PCollection[float]"),
    ("nums | beam.Map(at_time)", "PCollection[str]"),
    ("nums | beam.Map(untyped)", "PCollection[Any]"),
    ("nums | beam.Map(doubled)", "PCollection[tuple[int, int]]"),
    ("nums | beam.Map(print)", "PCollection[None]"),
    ("lines | beam.Map(timed)", "PCollection[str]"),
    ("lines | beam.Map(pair_of) | beam.GroupByKey()", "PCollection[tuple[str, Iterable[int]]]"),
    ("lines | beam.Map(pair_of).with_output_types(tuple[str, float])", "PCollection[tuple[str, float]]"),
    ("lines | beam.Map(untyped).with_output_types(int)", "PCollection[int]"),
    ("lines | beam.Map(untyped).with_input_types(str)", "PCollection[Any]"),
    ("lines | beam.FlatMap(str.split)", "PCollection[str]"),
    ("lines | beam.FlatMap(lambda line: line.split())", Less("PCollection[str]", "PCollection[Any]", LAMBDA)),
    ("lines | beam.FlatMap(lambda line: [len(line)])", "PCollection[int]"),
    (
        "lines | beam.Map(str.split) | beam.FlatMap(lambda words: words)",
        Less("PCollection[str]", "PCollection[Any]", LAMBDA),
    ),
    ("nums | beam.Filter(lambda x: x > 1)", "PCollection[int]"),
    ("lines | beam.Filter(str.isalpha)", "PCollection[str]"),
    ("clicks | beam.Filter(lambda click: click.at > 1)", "PCollection[Click]"),
    ("clicks | beam.Map(lambda click: click.user)", Less("PCollection[str]", "PCollection[Any]", LAMBDA)),
    ("visits | beam.Map(lambda visit: visit.seconds)", Less("PCollection[int]", "PCollection[Any]", LAMBDA)),
    ("rows | beam.Map(lambda row: row.a)", "PCollection[Any]"),
    ("pairs | beam.MapTuple(lambda word, n: f'{word}: {n}')", "PCollection[str]"),
    ("pairs | beam.FlatMapTuple(lambda word, n: [len(word), len(word)])", "PCollection[int]"),
    ("lines | beam.AsyncMap(fetched)", "PCollection[bytes]"),
    ("nums | beam.Map(half) | beam.Map(str) | beam.Map(len)", "PCollection[int]"),
    ("nums | beam.Map(lambda x, window=DoFn.WindowParam: str(x))", "PCollection[str]"),
    ("nums | beam.Map(lambda x, at=DoFn.TimestampParam, window=DoFn.WindowParam: f'{x} {at}')", "PCollection[str]"),
    ("nums | beam.Filter(lambda x, window=DoFn.WindowParam: bool(x))", "PCollection[int]"),
    ("lines | beam.FlatMap(lambda line, window=DoFn.WindowParam: [len(line)])", "PCollection[int]"),
    ("nums | beam.Map(lambda x, stop, at=DoFn.TimestampParam: len(stop), AsList(lines))", "PCollection[int]"),
    ("nums | beam.Map(lambda x, by: str(x * by), 3)", "PCollection[str]"),
    ("nums | beam.Map(lambda x, by: str(x * by), by=3)", "PCollection[str]"),
    ("nums | beam.Map(lambda *parts: len(parts))", "PCollection[int]"),
    ("lines | beam.Map(str.split) | beam.FlatMap()", "PCollection[Any]"),
    ("lines | beam.combiners.ToList() | beam.FlatMap(sorted)", "PCollection[str]"),
    ('rows | beam.Map(beam.col("a") * 2)', "PCollection[Any]"),
    ('rows | beam.Map((beam.col("a"), beam.col("b")))', "PCollection[Any]"),
    ('rows | beam.Filter(beam.col("a") > 2)', "PCollection[Row]"),
    ("nums | beam.Map(functools.partial(scaled, by=2))", "PCollection[float]"),
    ("lines | beam.FlatMap(lambda line, more=(): sorted(more), more=AsList(lines))", "PCollection[Any]"),
    ("nums | beam.Map(lambda x, by, plus=0: str(x * by + plus), 10, plus=5)", "PCollection[str]"),
    ("nums | (beam.Map(half) | beam.Map(str))", "PCollection[str]"),
    ("beam.Map(half) | beam.Filter(bool)", "PTransform[PCollection[int], PCollection[float]]"),
    ("beam.Map(half)", "Map[int, float]"),
    ("[1, 2] | beam.Map(half)", "list[float]"),
    ("lines | beam.Map(lambda line: line + 1)", Error('Unsupported operand types for + ("str" and "int")', None)),
    ("clicks | beam.Map(lambda click: click.usr)", Error('"Click" has no attribute "usr"', None)),
    ("lines | beam.Filter(lambda line: line > 3)", Error("Unsupported operand types for >", None)),
    (
        "lines | beam.Map(half)",
        Error(
            'Argument 1 to "Map" has incompatible type "Callable[[int], float]"',
            'Operator "|" not supported for types "PCollection[str]" and "Map[int, float]"',
        ),
    ),
    (
        'nums | beam.Map(scaled, "2")',
        Error(
            '"Callable[[int, float, str], float]"; expected "Callable[[int, str], Result]"',
            'cannot be assigned to parameter "by" of type "float"',
        ),
    ),
    (
        "nums | beam.Map(3)",
        Error('No overload variant of "Map" matches argument type "int"', "cannot be assigned to parameter"),
    ),
    (
        "nums | beam.Map(scaled)",
        Error('expected "Callable[[int], Result]"', 'Argument missing for parameter "by"'),
    ),
    ("nums | beam.FlatMap(half)", Error('Argument 1 to "FlatMap" has incompatible type', "cannot be assigned to")),
]

KEYS: list[tuple[str, str | Less | Error]] = [
    ("pairs | beam.GroupByKey()", "PCollection[tuple[str, Iterable[int]]]"),
    ('pairs | "group" >> beam.GroupByKey()', "PCollection[tuple[str, Iterable[int]]]"),
    ("pairs | beam.Keys()", "PCollection[str]"),
    ("pairs | beam.Values()", "PCollection[int]"),
    ("pairs | beam.KvSwap()", "PCollection[tuple[int, str]]"),
    ("lines | beam.WithKeys(len)", "PCollection[tuple[int, str]]"),
    ('lines | beam.WithKeys("all")', "PCollection[tuple[str, str]]"),
    ("pairs | beam.ReshufflePerKey()", "PCollection[tuple[str, int]]"),
    ("pairs | beam.GroupIntoBatches(10)", "PCollection[tuple[str, list[int]]]"),
    ("pairs | beam.DeduplicatePerKey(60)", "PCollection[tuple[str, int]]"),
    ("lines | beam.GroupBy(len)", "PCollection[tuple[int, Iterable[str]]]"),
    (
        "clicks | beam.GroupBy(lambda click: click.user)",
        Less("PCollection[tuple[str, Iterable[Click]]]", "PCollection[tuple[Any, Iterable[Click]]]", LAMBDA),
    ),
    ('clicks | beam.GroupBy("user")', "PCollection[tuple[Any, Iterable[Click]]]"),
    ('rows | beam.GroupBy("a").aggregate_field("a", sum, "total")', "PCollection[Any]"),
    ('rows | beam.Select("a")', "PCollection[Row]"),
    ('rows | beam.Select("a", b=lambda row: row.a + 1)', "PCollection[Row]"),
    ('{"a": pairs, "b": pairs} | beam.CoGroupByKey()', "PCollection[tuple[str, dict[str, list[Any]]]]"),
    (
        "(pairs, lines | beam.Map(lambda line: (line, 1.5))) | beam.CoGroupByKey()",
        "PCollection[tuple[str, tuple[list[int], list[float]]]]",
    ),
    ("(pairs, pairs, pairs) | beam.CoGroupByKey()", "PCollection[tuple[str, tuple[list[int], list[int], list[int]]]]"),
    ("nums | beam.GroupByKey()", operands("PCollection[int]", "GroupByKey")),
    ("nums | beam.Keys()", operands("PCollection[int]", "Keys")),
    ("nums | beam.GroupIntoBatches(10)", operands("PCollection[int]", "GroupIntoBatches")),
    ("lines | beam.KvSwap()", operands("PCollection[str]", "KvSwap")),
    (
        "(nums, pairs) | beam.CoGroupByKey()",
        operands("tuple[PCollection[int], PCollection[tuple[str, int]]]", "CoGroupByKey"),
    ),
]

COMBINERS: list[tuple[str, str | Less | Error]] = [
    ("pairs | beam.CombinePerKey(sum)", "PCollection[tuple[str, int]]"),
    ('pairs | "sum" >> beam.CombinePerKey(sum)', "PCollection[tuple[str, int]]"),
    ("lines | beam.WithKeys(len) | beam.CombinePerKey(max)", "PCollection[tuple[int, str]]"),
    ("pairs | beam.CombinePerKey(any)", "PCollection[tuple[str, bool]]"),
    ("pairs | beam.CombinePerKey(joined)", "PCollection[tuple[str, str]]"),
    ("pairs | beam.CombinePerKey(lambda values: max(values))", "PCollection[tuple[str, int]]"),
    ("pairs | beam.CombinePerKey(lambda values: len(list(values)))", "PCollection[tuple[str, int]]"),
    ("pairs | beam.CombinePerKey(Average())", "PCollection[tuple[str, float]]"),
    ("pairs | beam.CombinePerKey(UntypedAverage())", "PCollection[tuple[str, Any]]"),
    ("pairs | beam.CombinePerKey(beam.combiners.MeanCombineFn())", "PCollection[tuple[str, float]]"),
    ("pairs | beam.CombinePerKey(beam.combiners.CountCombineFn())", "PCollection[tuple[str, int]]"),
    ("pairs | beam.CombinePerKey(sum).with_hot_key_fanout(10)", "PCollection[tuple[str, int]]"),
    ("floats | beam.CombineGlobally(sum)", "PCollection[float]"),
    ("floats | beam.CombineGlobally(max).without_defaults()", "PCollection[float]"),
    ("nums | beam.CombineGlobally(Average())", "PCollection[float]"),
    ("pairs | beam.GroupByKey() | beam.CombineValues(sum)", "PCollection[tuple[str, int]]"),
    ("nums | beam.combiners.Count.Globally()", "PCollection[int]"),
    ("pairs | beam.combiners.Count.PerKey()", "PCollection[tuple[str, int]]"),
    ("lines | beam.combiners.Count.PerElement()", "PCollection[tuple[str, int]]"),
    ("nums | beam.combiners.Mean.Globally()", "PCollection[float]"),
    ("pairs | beam.combiners.Mean.PerKey()", "PCollection[tuple[str, float]]"),
    ("floats | beam.combiners.Sum.Globally()", "PCollection[float]"),
    ("pairs | beam.combiners.Max.PerKey()", "PCollection[tuple[str, int]]"),
    ("lines | beam.combiners.Min.Globally()", "PCollection[str]"),
    ("lines | beam.combiners.Top.Of(3, key=len)", "PCollection[list[str]]"),
    ("pairs | beam.combiners.Top.Largest(3, key=lambda pair: pair[1])", "PCollection[list[tuple[str, int]]]"),
    ("pairs | beam.Values() | beam.CombineGlobally(sum).without_defaults()", "PCollection[int]"),
    ("pairs | beam.combiners.Top.LargestPerKey(3)", "PCollection[tuple[str, list[int]]]"),
    ("nums | beam.combiners.Sample.FixedSizeGlobally(3)", "PCollection[list[int]]"),
    ("nums | beam.combiners.Sample.Any(3)", "PCollection[int]"),
    ("nums | beam.combiners.ToList()", "PCollection[list[int]]"),
    ("nums | beam.combiners.ToSet()", "PCollection[set[int]]"),
    ("pairs | beam.combiners.ToDict()", "PCollection[dict[str, int]]"),
    ("pairs | beam.combiners.Latest.PerKey()", "PCollection[tuple[str, int]]"),
    ("nums | beam.combiners.Latest.Globally()", "PCollection[int]"),
    ("lines | beam.combiners.CountDistinct.Globally()", "PCollection[int]"),
    ("nums | beam.combiners.ApproximateQuantiles.Globally(5)", "PCollection[list[int]]"),
    (
        "nums | beam.CombinePerKey(max)",
        Error('Unsupported operand types for | ("PCollection[int]"', '"PCollection[int]"'),
    ),
    (
        "lines | beam.WithKeys(len) | beam.CombinePerKey(Average())",
        operands("PCollection[tuple[int, str]]", "CombinePerKey[Average]"),
    ),
    ("lines | beam.CombineGlobally(Average())", operands("PCollection[str]", "CombineGlobally[Average]")),
    ("nums | beam.combiners.ToDict()", operands("PCollection[int]", "ToDict")),
]

DOFNS: list[tuple[str, str | Less | Error]] = [
    ("lines | beam.ParDo(Split())", "PCollection[str]"),
    ('lines | beam.ParDo(Split(), ";")', "PCollection[str]"),
    ('lines | "split" >> beam.ParDo(Split(), separator=";")', "PCollection[str]"),
    ("lines | beam.ParDo(Words())", "PCollection[str]"),
    ("lines | beam.ParDo(Untyped())", "PCollection[Any]"),
    ("lines | beam.ParDo(Lengths())", "PCollection[int]"),
    ("lines | beam.ParDo(Later())", "PCollection[str]"),
    ("lines | beam.ParDo(Fetch())", "PCollection[int]"),
    ("lines | beam.ParDo(Look())", "PCollection[int]"),
    ("lines | beam.ParDo(str.split)", "PCollection[str]"),
    ("nums | beam.ParDo(Known(), AsList(lines), AsDict(pairs))", "PCollection[int]"),
    ("lines | beam.ParDo(Untyped()).with_output_types(int)", "PCollection[int]"),
    ("lines | beam.ParDo(Silent()) | beam.combiners.Count.Globally()", "PCollection[int]"),
    ("outputs.errors", "PCollection[Any]"),
    ('outputs["errors"]', Less("PCollection[int] | PCollection[Any]", "PCollection[Any]", "mypy takes it for a tuple")),
    ("lengths", "PCollection[int]"),
    ("errors", "PCollection[Any]"),
    ("(lines | beam.ParDo(Lengths()).with_outputs())[None]", "PCollection[int]"),
    ("good", "PCollection[int]"),
    ("bad", "PCollection[tuple[Any, Any]]"),
    ("evens", "PCollection[int]"),
    ("positive", "PCollection[int]"),
    ("(nums | beam.FlatMap(signs).with_outputs())[None]", "PCollection[int]"),
    ("(nums | beam.Map(lambda x: x).with_exception_handling())[0]", "PCollection[Any]"),
    (
        "nums | beam.ParDo(Split())",
        Error('incompatible type "Split"; expected "DoFnOf[int]"', '"PCollection[int]" and "ParDo[str, str]"'),
    ),
    (
        "nums | beam.ParDo(Words())",
        Error('incompatible type "Words"; expected "DoFnOf[int]"', '"PCollection[int]" and "ParDo[str, str]"'),
    ),
    ("nums | beam.ParDo(Split)", operands("PCollection[int]", "ParDo[ClassInPlaceOfInstance, Any]")),
    (
        'lines | beam.ParDo(Words(), "a")',
        Error('"ParDo" matches argument types "Words", "str"', "Expected 0 positional arguments"),
    ),
    (
        "lines | beam.ParDo(Split(), 3)",
        Error('"ParDo" matches argument types "Split", "int"', 'parameter "separator" of type "str"'),
    ),
]

SIDE_INPUTS: list[tuple[str, str | Less | Error]] = [
    ("AsList(nums)", "list[int]"),
    ("AsIter(nums)", "Iterable[int]"),
    ("AsDict(pairs)", "dict[str, int]"),
    ("AsMultiMap(pairs)", "dict[str, list[int]]"),
    ("AsSingleton(nums)", "int"),
    ("AsSingleton(nums, None)", "int | None"),
    ("nums | beam.Filter(is_kept, AsList(nums), AsSingleton(floats))", "PCollection[int]"),
    ("nums | beam.Map(named, names=AsDict(pairs))", "PCollection[str]"),
    (
        "nums | beam.Map(lambda x, total: x / total, AsSingleton(nums | beam.CombineGlobally(sum)))",
        Less("PCollection[float]", "PCollection[Any]", LAMBDA),
    ),
    ("nums | beam.Map(lambda x, others: x in others, AsList(nums))", "PCollection[bool]"),
    (
        "nums | beam.Filter(is_kept, AsList(lines), AsSingleton(floats))",
        Error('expected "Callable[[int, list[str], float], Result]"', '"list[str]"'),
    ),
    (
        "nums | beam.Filter(is_kept, AsList(nums), AsSingleton(lines))",
        Error('expected "Callable[[int, list[int], str], Result]"', 'parameter "limit" of type "float"'),
    ),
    (
        "nums | beam.Map(named, AsList(pairs))",
        Error(
            'expected "Callable[[int, list[tuple[str, int]]], Result]"',
            '"list[tuple[str, int]]"',
        ),
    ),
    (
        "nums | beam.Map(named, pairs)",
        Error(
            'expected "Callable[[int, PCollection[tuple[str, int]]], Result]"',
            '"PCollection[tuple[str, int]]"',
        ),
    ),
    ("AsDict(nums)", Error('Argument 1 to "AsDict" has incompatible type "PCollection[int]"', '"PCollection[int]"')),
    ("AsList([1])", Error('Argument 1 to "AsList" has incompatible type "list[int]"', '"list[int]"')),
]

COMPOSITES: list[tuple[str, str | Less | Error]] = [
    ("nums | Double()", "PCollection[int]"),
    ('nums | "double" >> Double() | Annotated()', "PCollection[str]"),
    ("nums | Annotated()", "PCollection[str]"),
    ("nums | Plain()", "Any"),
    ("p | Numbers()", "PCollection[int]"),
    ("p | Numbers() | Double()", "PCollection[int]"),
    ("lines | Twice()", "PCollection[tuple[str, str]]"),
    ("nums | Fork()", "tuple[PCollection[int], PCollection[str]]"),
    ("texts", "PCollection[str]"),
    ("nums | Times(3)", "PCollection[int]"),
    ('{"a": pairs} | BothSides()', "PCollection[str]"),
    ("nums | (Double() | Annotated())", "PCollection[str]"),
    ("lines | Double()", operands("PCollection[str]", "Double")),
    ("lines | Annotated()", operands("PCollection[str]", "Annotated")),
    (
        'nums | Times("3")',
        Error('Argument 1 to "Times" has incompatible type "str"; expected "int"', 'parameter "factor"'),
    ),
    ("p | Double()", operands("Pipeline", "Double")),
    ("nums | Numbers()", operands("PCollection[int]", "Numbers")),
]

ELEMENTS: list[tuple[str, str | Less | Error]] = [
    ("nums | beam.Reshuffle()", "PCollection[int]"),
    ("nums | beam.Distinct()", "PCollection[int]"),
    ("nums | beam.Deduplicate(60)", "PCollection[int]"),
    ("nums | beam.BatchElements()", "PCollection[list[int]]"),
    ("lines | beam.SortAndBatchElements(1, 10, 100)", "PCollection[list[str]]"),
    ("nums | beam.WindowInto(FixedWindows(60))", "PCollection[int]"),
    ("nums | beam.WindowInto(beam.window.SlidingWindows(60, 10))", "PCollection[int]"),
    ("clicks | beam.WithTimestamps(lambda click: click.at)", "PCollection[Click]"),
    ('clicks | beam.WithTimestamps("at")', "PCollection[Click]"),
    (
        "clicks | beam.Map(lambda click: beam.transforms.window.TimestampedValue(click.user, click.at))",
        Less("PCollection[str]", "PCollection[Any]", LAMBDA),
    ),
    ("beam.transforms.trigger.AfterCount(3)", "AfterCount"),
    ('beam.userstate.BagStateSpec[str]("words")', "BagStateSpec[str]"),
    ("(nums, nums) | beam.Flatten()", "PCollection[int]"),
    ("(nums, [4, 5]) | beam.Flatten()", "PCollection[int]"),
    ("([1], [2]) | beam.Flatten()", "list[int]"),
    (
        "(nums, half) | beam.Flatten()",
        Error(
            '("tuple[PCollection[int], Callable[[int], float]]" and "Flatten")',
            '"tuple[PCollection[int], (n: int) -> float]"',
        ),
    ),
    ("nums | beam.Flatten()", operands("PCollection[int]", "Flatten")),
    ("[nums, nums] | beam.Flatten()", "PCollection[int]"),
    ("nums | beam.FlattenWith(nums)", "PCollection[int]"),
    ("nums | beam.LogElements()", "PCollection[int]"),
    ("nums | beam.Tee(beam.Map(print))", "PCollection[int]"),
    ("nums | beam.WaitOn(lines)", "PCollection[int]"),
    ("nums | beam.ToString.Element()", "PCollection[str]"),
    ('lines | beam.Regex.find(r"a+")', "PCollection[str]"),
    ('lines | beam.Regex.split(" ")', "PCollection[list[str]]"),
    ("nums | beam.Reify.Timestamp()", "PCollection[TimestampedValue[int]]"),
    ("nums | beam.Partition(lambda x, n: x % n, 2)", "tuple[PCollection[int], ...]"),
    (
        "list(nums)",
        Error('No overload variant of "list" matches argument type "PCollection[int]"', '"PCollection[int]"'),
    ),
    ('nums | beam.Regex.find(r"a+")', operands("PCollection[int]", "ParDo[str, str]")),
]

CONNECTORS: list[tuple[str, str | Less | Error]] = [
    ('p | beam.io.ReadFromText("lines")', "PCollection[str]"),
    ('p | beam.io.ReadFromTextWithFilename("lines")', "PCollection[tuple[str, Any]]"),
    ('p | "read" >> beam.io.ReadFromText("lines", skip_header_lines=1)', "PCollection[str]"),
    ('p | beam.io.ReadFromText("lines", coder=beam.coders.BytesCoder())', "PCollection[Any]"),
    ('p | beam.io.textio.ReadFromText("lines")', "PCollection[str]"),
    ('lines | beam.io.textio.WriteToText("lines")', "Any"),
    ('p | beam.io.parquetio.ReadFromParquet("table")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.avroio.ReadFromAvro("table")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromParquet("table")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromParquet("table", as_rows=True)', "PCollection[Any]"),
    ('p | beam.io.ReadFromCsv("table.csv")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromAvro("table.avro")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromJson("table.json")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromJson("table.json", type=Click)', "PCollection[Click]"),
    ('p | beam.io.ReadFromKafka({}, "clicks")', "PCollection[tuple[bytes, bytes]]"),
    ('p | beam.io.ReadFromKafka({}, "clicks", value_deserializer=decoded)', "PCollection[tuple[bytes, Click]]"),
    ('p | beam.io.ReadFromKafka({}, "clicks", with_metadata=True)', "PCollection[KafkaRecord]"),
    ('p | beam.io.ReadFromSocket("localhost", 80)', "PCollection[str]"),
    ('pairs | beam.io.WriteToKafka({}, "counts")', "Any"),
    ('clicks | beam.io.WriteToParquet("table")', "Any"),
    ('visits | beam.io.WriteToParquet("table")', "Any"),
    ('rows | beam.io.WriteToAvro("table")', "Any"),
    ('lines | beam.io.WriteToText("lines")', "Any"),
    ('nums | beam.io.WriteToKafka({}, "counts")', operands("PCollection[int]", "WriteToKafka")),
    ('lines | beam.io.WriteToParquet("table")', operands("PCollection[str]", "WriteToParquet")),
    ('lines | beam.io.ReadFromText("lines")', Error('("PCollection[str]" and "ReadFromText[', '"ReadFromText[str]"')),
]

STATE_AND_TESTS: list[tuple[str, str | Less | Error]] = [
    ('DoFn.StateParam(BagStateSpec("buffer"))', "BagRuntimeState[Any]"),
    ('DoFn.StateParam(CombiningValueStateSpec("sum", sum))', "CombiningValueRuntimeState[Any, Any]"),
    ('DoFn.StateParam(ReadModifyWriteStateSpec("last"))', "ReadModifyWriteRuntimeState[Any]"),
    ('DoFn.StateParam(CombiningValueStateSpec("total", sum, ttl=60))', "CombiningValueRuntimeState[Any, Any]"),
    ('DoFn.StateParam(BagStateSpec("texts", beam.coders.StrUtf8Coder()))', "BagRuntimeState[str]"),
    ('DoFn.StateParam(SetStateSpec("seen", beam.coders.VarIntCoder())).read()', "list[int]"),
    ("DoFn.TimerParam(Buffered.END)", "RuntimeTimer"),
    ("pairs | beam.ParDo(Buffered()) | beam.combiners.Count.Globally()", "PCollection[int]"),
    ("assert_that(nums, equal_to([1, 2, 3]))", "None"),
    ("p | TestStream().add_elements([1, 2])", "PCollection[int]"),
    ("TestPipeline() | beam.Create([1])", "PCollection[int]"),
    ("p.run()", "PipelineResult"),
    ("beam.collect(lines)", "list[str]"),
]

LABELS: list[tuple[str, str | Less | Error]] = [
    (
        'lines | "pair" >> beam.Map(lambda word: (word, 1))',
        "PCollection[tuple[Any, int]]",
    ),
    (
        'lines | "pair" >> beam.Map(lambda word: (word, 1)) | "sum" >> beam.CombinePerKey(sum)',
        "PCollection[tuple[Any, int]]",
    ),
    (
        'lines | "split" >> beam.FlatMap(lambda line: [(word, 1) for word in line.split()])',
        "PCollection[tuple[Any, int]]",
    ),
    ('nums | "big" >> beam.Filter(lambda x: x > 1)', "PCollection[int]"),
    ('clicks | "at" >> beam.WithTimestamps(lambda click: click.at)', "PCollection[Click]"),
    ('lines | "keys" >> beam.WithKeys(lambda line: len(line))', "PCollection[tuple[int, str]]"),
    ("labelled", "PCollection[int]"),
    ("windowed", "PCollection[tuple[Any, Any]]"),
    ('pairs | "text" >> beam.MapTuple(lambda k, v: f"{k}: {v}")', "PCollection[str]"),
    ('lines | "int" >> beam.Map(int) | "half" >> beam.Map(half)', "PCollection[float]"),
    ('nums | "at" >> beam.Map(lambda x: TimestampedValue((x, "a"), x))', "PCollection[tuple[Any, str]]"),
    ('nums | "words" >> beam.ParDo(Words())', operands("PCollection[int]", "ParDo[str, str]")),
    ('nums | "first" >> beam.WithKeys(first_letter)', operands("PCollection[int]", "WithKeys[str, str]")),
]

TUPLES: list[tuple[str, str | Less | Error]] = [
    (
        "pairs | beam.MapTuple(lambda k, v: (v, k))",
        Less("PCollection[tuple[int, str]]", "PCollection[tuple[Any, Any]]", LAMBDA),
    ),
    ("pairs | beam.MapTuple(priced)", "PCollection[float]"),
    ("pairs | beam.MapTuple(with_tax)", "PCollection[float]"),
    ("pairs | beam.MapTuple(with_tax, 0.3)", "PCollection[float]"),
    ("pairs | beam.MapTuple(named_price, AsDict(pairs))", "PCollection[bytes]"),
    ("pairs | beam.MapTuple(named_price, names=AsDict(pairs))", "PCollection[bytes]"),
    (
        "pairs | beam.MapTuple(lambda k, v, names: names[k] + v, AsDict(pairs))",
        Less("PCollection[int]", "PCollection[Any]", LAMBDA),
    ),
    ("pairs | beam.MapTuple(lambda k, v, end='!': f'{k}{end}')", "PCollection[str]"),
    ("triples | beam.MapTuple(lambda a, b, c: len(a))", "PCollection[int]"),
    ("grouped | beam.MapTuple(lambda k, vs: (len(k), sum(vs)))", "PCollection[tuple[int, int]]"),
    ("grouped | beam.FlatMapTuple(lambda k, vs: [str(v) for v in vs])", "PCollection[str]"),
    ("pairs | beam.MapTuple(print)", "PCollection[None]"),
    (
        "grouped | beam.MapTuple(priced)",
        Error('expected "Callable[[str, Iterable[int]], Result]"', None),
    ),
    (
        "pairs | beam.MapTuple(lambda k, v: k + v)",
        Error('Unsupported operand types for + ("str" and "int")', None),
    ),
    ("fives | beam.MapTuple(lambda a, b, c, d, e: a)", "PCollection[Any]"),
    ("fields | beam.MapTuple(priced)", "PCollection[float]"),
    ("fields | beam.MapTuple(lambda a, b, c: len(a))", "PCollection[int]"),
    ("fields | beam.Keys()", "PCollection[str]"),
    (
        "fields | beam.GroupByKey()",
        "PCollection[tuple[str, Iterable[str]]]",
    ),
    (
        "fields | beam.combiners.Count.PerKey()",
        "PCollection[tuple[str, int]]",
    ),
    ("nums | beam.MapTuple(lambda a, b: a)", Error('("PCollection[int]" and "MapTuple[', '"PCollection[int]"')),
]

OTHERS: list[tuple[str, str | Less | Error]] = [
    ("lines | beam.Map(int)", "PCollection[int]"),
    ("lines | beam.FlatMap(list)", "PCollection[str]"),
    ("nums | beam.FlatMap(range)", "PCollection[int]"),
    ("lines | beam.Filter(bool)", "PCollection[str]"),
    ("lines | beam.Map(str.encode, 'utf-8')", "PCollection[bytes]"),
    ("nums | beam.Map(functools.partial(scaled, by=3))", "PCollection[float]"),
    ("visits | beam.Map(dataclasses.asdict)", "PCollection[dict[str, Any]]"),
    ("nums | beam.Map(lambda x, a, b: a + b, 1, 2)", Less("PCollection[int]", "PCollection[Any]", LAMBDA)),
    ("nums | beam.Map(lambda x, a=1, b=2, c=3: str(x))", "PCollection[str]"),
    ("lines | Lower()", "PCollection[str]"),
    (
        "nums | beam.ParDo(Halves())",
        Less("PCollection[float]", "PCollection[Any]", "Pyright infers the result of `process`, by its code"),
    ),
    ("lines | beam.ParDo(Halves())", Error('incompatible type "Halves"; expected "UnannotatedProcess[str,', None)),
    ("nums | Lower()", operands("PCollection[int]", "Lower")),
    ("p | beam.Create(configured)", "PCollection[Any]"),
    ("lines | beam.WithKeys(first_letter)", "PCollection[tuple[str, str]]"),
    (
        "lines | beam.WithKeys(lambda line: line[0])",
        Less("PCollection[tuple[str, str]]", "PCollection[tuple[Any, str]]", LAMBDA),
    ),
    ("lines | beam.WithKeys(None)", "PCollection[tuple[None, str]]"),
    (
        "nums | beam.WithKeys(first_letter)",
        Error('expected "Callable[[int], Result]"', '"WithKeys[str, str]"'),
    ),
    ("clicks | SqlTransform('SELECT user FROM PCOLLECTION')", "PCollection[Row]"),
    ("{'c': clicks} | 'sql' >> SqlTransform('SELECT user FROM c')", "PCollection[Row]"),
    ("p | TestStream().add_elements([TimestampedValue('a', 1)]).advance_watermark_to(5)", "PCollection[str]"),
    ("['a'] | beam.Map(len)", "list[int]"),
    ("lines | beam.FlatMap(3)", Error('No overload variant of "FlatMap" matches argument type "int"', "cannot be")),
]

MORE_CONNECTORS: list[tuple[str, str | Less | Error]] = [
    ('p | beam.io.ReadFromIceberg("shop.sales")', "PCollection[Row]"),
    ('p | beam.io.ReadFromDeltaChanges("sales")', "PCollection[Row]"),
    ('p | beam.io.ReadFromSQL("url", "sales", increasing_column="id")', "PCollection[Row]"),
    ('p | beam.io.ReadFromRedisStream("url", "clicks")', "PCollection[RedisStreamEntry]"),
    ('p | beam.io.ReadFromNats("url", "clicks")', "PCollection[NatsMessage]"),
    ('p | beam.io.ReadFromMqtt("url", "clicks")', "PCollection[MqttMessage]"),
    ('p | beam.io.ReadFromPubSub(subscription="clicks")', "PCollection[bytes]"),
    ('p | beam.io.ReadFromPubSub(subscription="clicks", with_attributes=True)', "PCollection[PubsubMessage]"),
    ('p | beam.io.ReadFromPostgresChanges("url", "accounts", "slot")', "PCollection[Row]"),
    ('p | beam.io.ReadFromPostgresChanges("url", "accounts", "slot", type=Account)', "PCollection[Account]"),
    ("data | beam.io.FromDebezium(Account)", "PCollection[Account]"),
    ("data | beam.io.FromDebezium()", "PCollection[Row]"),
    ("p | beam.io.ReadContinuouslyFromText('lines')", "PCollection[str]"),
    ("lines | beam.io.ReadAllFromText()", "PCollection[str]"),
    ("lines | beam.io.ReadAllFromText(with_filename=True)", "PCollection[tuple[str, str]]"),
    ("lines | beam.io.ReadAllFromAvro()", "PCollection[dict[str, Any]]"),
    ("p | beam.io.fileio.MatchFiles('*') | beam.io.fileio.ReadMatches()", "PCollection[ReadableFile]"),
    ("p | beam.io.GenerateSequence(0, 10)", "PCollection[int]"),
    ('p | beam.io.ReadFromBigQuery(table="shop:sales.orders")', "PCollection[dict[str, Any]]"),
    ('p | beam.io.ReadFromBigQuery(table="shop:sales.orders", output_type="BEAM_ROW")', "PCollection[Row]"),
    ('clicks | beam.io.WriteToIceberg("shop.clicks")', "Any"),
    ('lines | beam.io.WriteToIceberg("shop.clicks")', operands("PCollection[str]", "WriteToIceberg")),
    ('lines | beam.io.WriteToDelta("clicks")', operands("PCollection[str]", "WriteToDelta")),
    ('lines | beam.io.WriteToCsv("clicks")', operands("PCollection[str]", "WriteToCsv")),
    ('lines | beam.io.WriteToAvro("clicks")', operands("PCollection[str]", "WriteToAvro")),
    ('data | beam.io.WriteToNats("url", "clicks")', "Any"),
    ('lines | beam.io.WriteToNats("url", "clicks")', operands("PCollection[str]", "WriteToNats[bytes]")),
    ('lines | beam.io.WriteToNats("url", "clicks", data=str.encode)', "Any"),
    ('lines | beam.io.WriteToMqtt("url", "clicks")', operands("PCollection[str]", "WriteToMqtt[bytes]")),
    ('lines | beam.io.WriteToPubSub("clicks")', operands("PCollection[str]", "WriteToPubSub")),
    ('pairs | beam.io.WriteToRedis("url")', "Any"),
    ('lines | beam.io.WriteToRedis("url")', operands("PCollection[str]", "WriteToRedis[tuple[Any, Any]]")),
    ('lines | beam.io.WriteToRedis("url", key=hash)', "Any"),
    ('lines | beam.io.WriteToRedisStream("url", "s")', Error('"PCollection[str]"', '"WriteToRedisStream[Record]"')),
    ('lines | beam.io.WriteToJson("lines")', "Any"),
    ('pairs | beam.io.WriteToSQL("url", "counts")', "Any"),
]

# Behind a label mypy knows nothing of the elements of a generic function or composite.
GENERIC: list[tuple[str, str | Less | Error]] = [
    ("distinct(nums)", "PCollection[int]"),
    ("lists_of(pairs)", "PCollection[tuple[str, list[int]]]"),
    ("keyed(lines, len)", "PCollection[tuple[int, str]]"),
    ("grouped_by(lines, len)", "PCollection[tuple[int, Iterable[str]]]"),
    ("sums_of(pairs)", "PCollection[tuple[str, int]]"),
    ("mapped(nums, half)", "PCollection[float]"),
    ("nums | Unique()", Less("PCollection[int]", "PCollection[Any]", COMPOSITE)),
    ('nums | "unique" >> Unique()', Less("PCollection[int]", "PCollection[Any]", COMPOSITE)),
    ("pairs | OnlyValues()", Less("PCollection[int]", "PCollection[Any]", COMPOSITE)),
    ('pairs | "values" >> OnlyValues()', "PCollection[Any]"),
    ('nums | "how many" >> HowMany()', "PCollection[int]"),
    ('lines | "twice" >> Twice()', "PCollection[tuple[str, str]]"),
    ("nums | Applied(half)", "PCollection[float]"),
    ('nums | "applied" >> Applied(half)', "PCollection[float]"),
    ("lines | Applied(half)", Error("incompatible type", operands("PCollection[str]", "Applied[int, float]").pyright)),
    ("pairs | beam.Map(swapped)", "PCollection[tuple[int, str]]"),
    (
        'pairs | "swapped" >> beam.Map(swapped)',
        Less("PCollection[tuple[Any, Any]]", "PCollection[tuple[int, str]]", LABEL),
    ),
    ('nums | "same" >> beam.Map(same)', Less("PCollection[Any]", "PCollection[int]", LABEL)),
    ('nums | "same" >> beam.Filter(same)', "PCollection[int]"),
    ("lists | beam.FlatMap(same)", "PCollection[int]"),
    ('lists | "sum" >> beam.Map(sum)', Less("PCollection[Any]", "PCollection[int]", LABEL)),
    ("lists | beam.Map(sum)", "PCollection[int]"),
    ("lists | beam.Map(max)", "PCollection[int]"),
    ('lists | "set" >> beam.Map(set)', Less("PCollection[set[Any]]", "PCollection[set[int]]", LABEL)),
    ('lists | "first" >> beam.Map(first_of)', Less("PCollection[Any]", "PCollection[int]", LABEL)),
    ('lists | "first" >> beam.Map(first_of) | "half" >> beam.Map(half)', "PCollection[float]"),
    ('lists | "last" >> beam.Map(last_of) | "half" >> beam.Map(half)', "PCollection[float]"),
    ('pairs | "key" >> beam.Map(key_of) | "upper" >> beam.Map(str.upper)', "PCollection[str]"),
    ('pairs | "value" >> beam.Map(value_of) | "half" >> beam.Map(half)', "PCollection[float]"),
    ('lists | "size" >> beam.Map(size_of)', "PCollection[int]"),
    ('lists | "length" >> beam.Map(length_of)', "PCollection[int]"),
    ('lists | "middle" >> beam.Map(half_of)', "PCollection[int]"),
    ('pairs | "size of key" >> beam.Map(key_length)', "PCollection[int]"),
    ('pairs | "size of value" >> beam.Map(value_length)', "PCollection[int]"),
    ('records | "any" >> beam.Map(any_value) | "half" >> beam.Map(half)', "PCollection[float]"),
    ('nums | "tag" >> beam.Map(tagged) | "keys" >> beam.Values()', "PCollection[str]"),
    ('pairs | "dicts" >> beam.Map(indexed) | "dump" >> beam.Map(json.dumps)', "PCollection[str]"),
    ('pairs | "dict" >> beam.combiners.ToDict()', "PCollection[dict[str, int]]"),
    ('nums | "list" >> beam.combiners.ToList()', "PCollection[list[int]]"),
    ("lists | beam.FlatMap(numbered)", "PCollection[tuple[int, int]]"),
    ("lists | beam.Map(middle_of)", "PCollection[int]"),
    ("nums | beam.Map(tagging)", "PCollection[tuple[str, int]]"),
    ("pairs | beam.CombinePerKey(Collect[int]())", "PCollection[tuple[str, frozenset[int]]]"),
    ("pairs | beam.CombinePerKey(Collect()) | beam.MapTuple(lambda key, found: len(found))", "PCollection[int]"),
    (
        '{"n": pairs, "x": float_pairs} | beam.CoGroupByKey()',
        Less(
            "PCollection[tuple[str, dict[str, list[Any]]]]",
            "PCollection[tuple[Any, dict[str, list[Any]]]]",
            "Pyright joins different values of a dict to `Any`",
        ),
    ),
    ("(pairs, float_pairs) | Join()", "PCollection[tuple[str, tuple[list[int], list[float]]]]"),
]

FUNCTIONS_OF_KINDS: list[tuple[str, str | Less | Error]] = [
    ("mixed | beam.Filter(is_text)", "PCollection[str]"),
    ('mixed | "texts" >> beam.Filter(is_text)', "PCollection[str]"),
    ("mixed | beam.Filter(is_whole)", "PCollection[int]"),
    ("nums | beam.Filter(is_text)", "PCollection[str]"),
    ("records | beam.Map(json.dumps)", "PCollection[str]"),
    ('records | "dump" >> beam.Map(json.dumps, sort_keys=True)', "PCollection[str]"),
    ("lines | beam.Map(json.loads, parse_float=float)", "PCollection[Any]"),
    ("data | beam.Map(json.loads)", "PCollection[Any]"),
    ("lines | beam.Map(Visit, 3)", "PCollection[Visit]"),
    ("lines | beam.Map(Visit, seconds=3)", "PCollection[Visit]"),
    ("pairs | beam.MapTuple(Visit)", "PCollection[Visit]"),
    ("visits | beam.Map(dataclasses.replace, seconds=3)", "PCollection[Visit]"),
    ("visits | beam.Map(dataclasses.astuple)", "PCollection[tuple[Any, ...]]"),
    ("lines | beam.Map(described)", "PCollection[int]"),
    ("lines | beam.Map(described, width=3)", "PCollection[int]"),
    ("lines | beam.Filter(described)", "PCollection[str]"),
    ("lines | beam.WithKeys(described)", "PCollection[tuple[int, str]]"),
    ("pairs | beam.MapTuple(priced_with, width=3)", "PCollection[bytes]"),
    ("lines | beam.ParDo(Options())", "PCollection[int]"),
    ("lines | beam.ParDo(Options(), width=3)", "PCollection[int]"),
    ("lines | beam.Map(remembered)", "PCollection[int]"),
    ("nums | beam.Map(functools.partial(untyped))", "PCollection[Any]"),
    ("lines | beam.Map(int, 16)", "PCollection[int]"),
    ("lines | beam.Map(int, base=16)", "PCollection[int]"),
    ('data | "text" >> beam.Map(str, "utf-8")', "PCollection[str]"),
    ("lines | beam.Map(os.path.basename)", "PCollection[str]"),
    ("lines | beam.Map(os.path.splitext)", "PCollection[tuple[str, str]]"),
    ('lines | beam.Map(os.path.join, "a")', "PCollection[str]"),
    ("nums | beam.Map(pow, 2)", "PCollection[Any]"),
    ("lines | beam.Map(described, width=3) | beam.Map(divmod, 2)", "PCollection[tuple[int, int]]"),
    (
        "lists | beam.FlatMap(sorted, key=lambda n: -n)",
        Less(
            "PCollection[Any]",
            "PCollection[SupportsRichComparisonT@sorted]",
            "Pyright keeps the type variable of `sorted`",
        ),
    ),
    ("nums | beam.ParDo(lambda x, by=2: [x * by], by=3)", "PCollection[Any]"),
    (
        "nums | beam.Map(half, y=3)",
        Error('expected "def (int, /, *, any_name: Any) -> Result"', 'No parameter named "y"'),
    ),
    ("lists | beam.Map(sum, 10)", "PCollection[int]"),
    ('texts_of | beam.Map(", ".join)', "PCollection[str]"),
    ('lines | "format" >> beam.Map("{}!".format)', "PCollection[str]"),
    (
        "lists | beam.Map(sorted, key=lambda n: -n)",
        Less(
            "PCollection[list[Any]]",
            "PCollection[list[SupportsRichComparisonT@sorted]]",
            "Pyright keeps the type variable of `sorted`",
        ),
    ),
    ("lines | beam.Map(str.split).with_output_types(list[str] | None)", "PCollection[list[str] | None]"),
    (
        "nums | beam.Map(described)",
        Error('expected "Callable[[int], Result]"', operands("PCollection[int]", "Map[str, int]").pyright),
    ),
    ("lines | beam.combiners.Mean.Globally()", operands("PCollection[str]", "Globally")),
    (
        "pairs | beam.GroupBy(lambda pair: pair[0], n=lambda pair: pair[1])",
        "PCollection[tuple[Any, Iterable[tuple[str, int]]]]",
    ),
    (
        "nums | beam.GroupBy(len)",
        Error('expected "Callable[[int], int]"', '"PCollection[int]" and "GroupBy[Sized, int]"'),
    ),
    ("ok", "PCollection[float]"),
    ("failed", "PCollection[tuple[Any, Any]]"),
]

STATES: list[tuple[str, str | Less | Error]] = [
    ("DoFn.StateParam(Changes.LAST).read()", "str | None"),
    ("DoFn.StateParam(Changes.COUNT).read()", "int"),
    ("DoFn.StateParam(Changes.NAMES).read()", "dict[str, int] | None"),
    ('DoFn.StateParam(ReadModifyWriteStateSpec("last")).read()', "Any"),
    ('DoFn.StateParam(ReadModifyWriteStateSpec[Click]("last")).read()', "Click | None"),
    ('DoFn.StateParam(ReadModifyWriteStateSpec("on", beam.coders.BooleanCoder())).read()', "bool | None"),
    ('DoFn.StateParam(CombiningValueStateSpec("mean", Average())).read()', "float"),
    (
        'DoFn.StateParam(CombiningValueStateSpec("mean", beam.coders.PickleCoder(), Average()))',
        "CombiningValueRuntimeState[float, float]",
    ),
    ('DoFn.StateParam(CombiningValueStateSpec("top", beam.coders.VarIntCoder(), max)).read()', "int"),
    ('DoFn.StateParam(CombiningValueStateSpec("any", any)).read()', "bool"),
    ('DoFn.StateParam(BagStateSpec("tags", Tags())).read()', "list[set[str]]"),
    (
        'DoFn.StateParam(BagStateSpec("lists", beam.coders.ListCoder(beam.coders.VarIntCoder()))).read()',
        "list[list[int]]",
    ),
    (
        'DoFn.StateParam(BagStateSpec("pairs", beam.coders.TupleCoder((text, whole)))).read()',
        "list[tuple[str, int]]",
    ),
    ('DoFn.StateParam(OrderedListStateSpec("log", beam.coders.StrUtf8Coder())).read()', "list[tuple[Timestamp, str]]"),
    (
        'DoFn.StateParam(MapStateSpec("n", text, whole)).get("a")',
        "int | None",
    ),
    ('DoFn.StateParam(MapStateSpec("n", text, whole)).get("a", 0)', "int"),
    ('DoFn.StateParam(MapStateSpec("n")).get("a")', "Any"),
    (
        "DoFn.StateParam(Changes.LAST).write(3)",
        Error('has incompatible type "int"; expected "str"', 'to parameter "value" of type "str"'),
    ),
    ("DoFn.TimerParam(Changes.LAST)", Error('expected "TimerSpec"', 'parameter "timer_spec" of type "TimerSpec"')),
    ("rows | Enrichment(Prices())", "PCollection[Row]"),
    ("clicks | Enrichment(Visits(), joined_visit, use_custom_types=True)", "PCollection[tuple[str, int]]"),
    (
        "clicks | Enrichment(Visits(), joined_visit, use_custom_types=True).with_cache(10)",
        "PCollection[tuple[str, int]]",
    ),
    ("nums | RequestResponseIO(Square())", "PCollection[float]"),
    (
        "nums | Enrichment(Prices())",
        Error(
            'expected "EnrichmentSourceHandler[int, Any]"', operands("PCollection[int]", "Enrichment[Row, Row]").pyright
        ),
    ),
]

SNIPPETS = [
    *SOURCES,
    *FUNCTIONS,
    *KEYS,
    *COMBINERS,
    *DOFNS,
    *SIDE_INPUTS,
    *COMPOSITES,
    *ELEMENTS,
    *CONNECTORS,
    *STATE_AND_TESTS,
    *LABELS,
    *TUPLES,
    *OTHERS,
    *MORE_CONNECTORS,
    *GENERIC,
    *FUNCTIONS_OF_KINDS,
    *STATES,
]
