"""JSON of a declared type: elements are instances of it, and another value is an error that says where it is."""

import dataclasses
import json
import pathlib
import typing
from collections import Counter

import attrs
import msgspec
import pytest

import penstock as beam
from penstock.io.files.json import JsonSource
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SourceError
from penstock.sdk.typehints.simplified import simplified
from penstock.testing.util import assert_that, equal_to
from penstock.transforms.combiners import CountCombineFn


class Person(typing.NamedTuple):
    """A named tuple with a default."""

    name: str
    age: int | None = None
    tags: list[str] = []


class StructPerson(msgspec.Struct, frozen=True):
    """A struct."""

    name: str
    age: int | None = None
    tags: list[str] = []


@attrs.frozen
class AttrsPerson:
    """An attrs class."""

    name: str
    age: int | None = None
    tags: list[str] = attrs.field(factory=list)


@dataclasses.dataclass(frozen=True)
class DataPerson:
    """A dataclass."""

    name: str
    age: int | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


class TypedPerson(typing.TypedDict):
    """A dictionary with declared fields."""

    name: str


TYPES = [Person, StructPerson, AttrsPerson, DataPerson]


def people(directory: pathlib.Path, lines: bool = True) -> pathlib.Path:
    """Write a file of people, some of them without an age, with blank lines and a field that no type has."""
    path = directory / "people.json"
    records = [{"name": f"p{n}", "other": [n], **({"age": n} if n % 3 else {})} for n in range(10_000)]
    encoded = [json.dumps(record) for record in records]
    path.write_text("\n  \n".join(encoded) + "\n" if lines else "[\n" + ",\n".join(encoded) + "]")
    return path


def read(source: JsonSource, splits: int) -> list[typing.Any]:
    """Return the values of a source."""
    return [v for split in source.split(splits) for bundle in source.read_bundles(split) for v in bundle.values]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "array"])
def test_elements_are_instances_of_the_type(kind: typing.Any, lines: bool, tmp_path: pathlib.Path) -> None:
    """Missing fields have their defaults, and unknown ones are ignored, from any number of splits."""
    source = JsonSource(people(tmp_path, lines), type=kind, lines=lines)
    values = read(source, 7)
    assert [kind(f"p{n}", n if n % 3 else None) for n in range(10_000)] == values
    assert {kind} == set(map(type, values))


def test_one_value_may_be_the_whole_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text(' {"name": "Ada"}')
    source = JsonSource(tmp_path / "a", type=Person, lines=False)
    assert [Person("Ada")] == read(source, 1)


@pytest.mark.parametrize("flags", [{}, {"parallelism": 2}, {"parallelism": 2, "start_method": "spawn"}], ids=repr)
def test_a_pipeline_reads_and_writes_the_type(flags: dict[str, typing.Any], tmp_path: pathlib.Path) -> None:
    """In this process and in workers; the type is that of the PCollection."""
    path = people(tmp_path)
    with beam.Pipeline(options=PipelineOptions([], **flags)) as p:
        found = p | beam.io.ReadFromJson(path, type=StructPerson)
        assert simplified(found.element_type) is StructPerson
        grown = found | beam.Filter(lambda person: (person.age or 0) > 9_990) | beam.Map(lambda person: (1, person))
        _ = grown | beam.GroupByKey() | beam.FlatMap(lambda group: group[1]) | beam.io.WriteToJson(tmp_path / "out")
    written = [json.loads(line) for out in tmp_path.glob("out-*") for line in out.read_text().splitlines()]
    ages = [n for n in range(9_991, 10_000) if n % 3]
    assert [{"name": f"p{n}", "age": n, "tags": []} for n in ages] == sorted(written, key=lambda one: one["age"])


@pytest.mark.parametrize("kind", [*TYPES, TypedPerson])
def test_a_value_of_another_type_is_named(kind: typing.Any, tmp_path: pathlib.Path) -> None:
    """With its file, its line, the type and what differs."""
    (tmp_path / "a.jsonl").write_text('{"name": "Ada"}\n' * 30_000 + '{"name": 5}\n')
    expected = rf"line 30001, is not of the type {kind.__name__}: Expected `str`, got `int` - at `\$\.name`: b'.*5"
    with pytest.raises(SourceError, match=expected):
        read(JsonSource(tmp_path / "a.jsonl", type=kind), 3)
    (tmp_path / "b.json").write_text('[{"name": "Ada"}, {"age": 5}]')
    expected = rf"b\.json' is not of the type {kind.__name__}: Object missing required field `name`"
    with pytest.raises(SourceError, match=expected):
        read(JsonSource(tmp_path / "b.json", type=kind, lines=False), 1)


@pytest.mark.parametrize("text", ['{"name": \n"Ada"}', '{"name": "Ada"} {"name": "Bo"}', "{", '{"name": "\udc80"}'])
def test_a_line_is_one_value(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SourceError, match="ReadFromJson: '.*a', line 1, is not JSON: "):
        read(JsonSource(tmp_path / "a", type=Person), 1)


@pytest.mark.parametrize("line", [b'{"name": "Ada"} {"name": "Bo"}', b'{"name": "Ada"}\n\n', b' {"name": "Ada"}', b"{"])
def test_as_many_values_as_lines_are_not_enough(line: bytes, tmp_path: pathlib.Path) -> None:
    """A value across two lines is found also behind a line of two values."""
    (tmp_path / "a").write_bytes(b'{"name": "Cy"}\n' + line + b'\n{"name":\n"Di"}')
    with pytest.raises(SourceError, match="ReadFromJson: '.*a', line [0-9], is not JSON: "):
        read(JsonSource(tmp_path / "a", type=Person), 1)


@pytest.mark.parametrize("kind", TYPES)
def test_fields_that_are_used_are_columns(kind: typing.Any, tmp_path: pathlib.Path) -> None:
    """A source of columns gives the fields of its elements; where Arrow can't hold one, the elements."""
    pytest.importorskip("pyarrow")
    filler = "x" * 1000
    lines = [json.dumps({"name": f"p{n}", "other": filler, **({"age": n} if n % 3 else {})}) for n in range(20_000)]
    lines[11_000] = json.dumps({"name": "Methuselah", "age": 1 << 70})
    (tmp_path / "a").write_text("\n".join(lines))
    source = JsonSource(tmp_path / "a", type=kind)
    assert source.using(("name", "tags")) is source
    assert source.using(("unknown",)) is source
    bundles = [bundle for split in source.split(3) for bundle in source.using(("age", "name")).read_bundles(split)]
    assert {ColumnBundle, Bundle} == set(map(type, bundles))
    assert [(each.name, each.age) for each in read(source, 3)] == [
        (value.name, value.age) for bundle in bundles for value in bundle.values
    ]
    assert {("age", "name")} == {tuple(b.batch.schema.names) for b in bundles if isinstance(b, ColumnBundle)}


def test_a_grouping_of_columns_is_that_of_the_elements(tmp_path: pathlib.Path) -> None:
    """Also with None as a key."""
    pytest.importorskip("pyarrow")
    records = [{"name": f"p{n % 7}", "other": "x" * 1000, **({"age": n % 5} if n % 3 else {})} for n in range(20_000)]
    (tmp_path / "a").write_text("\n".join(map(json.dumps, records)))
    expected = Counter((record.get("age"), record["name"]) for record in records)
    with beam.Pipeline() as p:
        people = p | beam.io.ReadFromJson(tmp_path / "a", type=DataPerson)
        grouped = people | beam.GroupBy("age", "name").aggregate_field("name", CountCombineFn(), "number")
        assert_that(grouped | beam.Map(tuple), equal_to([(*key, number) for key, number in expected.items()]))


class Checked(msgspec.Struct):
    """A struct that changes its fields."""

    name: str

    def __post_init__(self) -> None:
        self.name = self.name.upper()


def test_a_type_that_changes_its_fields_gives_elements(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text('{"name": "Ada"}')
    source = JsonSource(tmp_path / "a", type=Checked)
    assert source.using(("name",)) is source


def test_a_type_that_json_cannot_be_decoded_to_is_refused(tmp_path: pathlib.Path) -> None:
    """When the pipeline is built."""

    class OfUnknown(typing.NamedTuple):
        field: "Unknown"  # type: ignore[name-defined] # noqa: F821

    for kind, name in ((DataPerson | AttrsPerson, r"DataPerson \| AttrsPerson"), (OfUnknown, "OfUnknown"), (3, "3")):
        with pytest.raises(TypeError, match=rf"ReadFromJson: elements of JSON can't have the type {name}: "):
            beam.io.ReadFromJson(tmp_path / "a", type=kind)
