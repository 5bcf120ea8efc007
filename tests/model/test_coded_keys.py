"""Keys with a registered deterministic coder: equal exactly when their encoded bytes are, on every runner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import pytest
from support.pipelines.checks import check
from support.pipelines.coded_keys import Name, NameCoder

import penstock as beam
from penstock.sdk.coders import registry
from penstock.sdk.errors import InvalidKeyError
from penstock.sdk.userstate import CombiningValueStateSpec, MapStateSpec, SetStateSpec, TimerSpec, on_timer
from penstock.testing import TestPipeline
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows, Sessions, TimestampedValue


class Caseless(Name):
    """Two are equal if their names are; to the coder if they are but for case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caseless) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class CaselessCoder(NameCoder):
    def encode(self, value: Any) -> bytes:
        return str(value.name).lower().encode()


class Alike(Name):
    """All are equal, except to the coder."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    def __hash__(self) -> int:
        return 0


class Unhashable(Name):
    """Those with a name of the same length are equal; there is no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and len(self.name) == len(other.name)


class Pair(NamedTuple):
    left: Any
    right: int


@attrs.frozen
class Box:
    content: Any


CODERS = {Name: NameCoder, Caseless: CaselessCoder, Alike: NameCoder, Unhashable: NameCoder}
FORMS = {
    "plain": lambda key: key,
    "in a tuple": lambda key: ("t", key),
    "in a named tuple": lambda key: Pair(key, 1),
    "in an attrs class": lambda key: Box(key),
    "in a row": lambda key: beam.Row(key=key),
}


@pytest.fixture(autouse=True)
def coders() -> Iterator[None]:
    """The coders, for a test."""
    before = registry.registered()
    for kind, coder in CODERS.items():
        registry.register_coder(kind, coder)
    yield
    registry.register_all(before)


def name_of(key: Any) -> str:
    """Return the name that a key's coder compares, anywhere in the key."""
    if isinstance(key, Name):
        return key.name.lower() if isinstance(key, Caseless) else key.name
    parts = (key.content,) if isinstance(key, Box) else tuple(key)
    return next(name_of(part) for part in parts if isinstance(part, Name))


NAMES = ("a", "b", "a", "A", "b", "a")


def expected_sums(kind: type[Name]) -> dict[str, int]:
    """Of the elements' places, by name."""
    sums: dict[str, int] = {}
    for place, name in enumerate(NAMES):
        own = name_of(kind(name))
        sums[own] = sums.get(own, 0) + place
    return sums


@pytest.mark.parametrize("kind", CODERS)
def test_keys_with_a_coder_are_grouped_by_their_bytes(pipeline: Any, kind: type[Name]) -> None:
    """By each transform that groups, whatever `==` says of the keys."""
    sums = expected_sums(kind)
    with pipeline as p:
        pairs = p | beam.Create([(kind(name), place) for place, name in enumerate(NAMES)])
        named = beam.MapTuple(lambda key, value: (name_of(key), value))
        check(sums.items(), pairs | "sum" >> beam.CombinePerKey(sum) | "sum names" >> named)
        fanned = pairs | "fan" >> beam.CombinePerKey(sum).with_hot_key_fanout(3)
        check(sums.items(), fanned | "fan names" >> named)
        groups = pairs | "group" >> beam.GroupByKey() | beam.MapTuple(lambda key, values: (key, sum(values)))
        check(sums.items(), groups | "group names" >> named)
        keys = pairs | beam.Keys()
        counts = [(name, sum(name_of(kind(other)) == name for other in NAMES)) for name in sums]
        check(counts, keys | beam.combiners.Count.PerElement() | "count names" >> named)
        check(list(sums), keys | "distinct" >> beam.Distinct() | "distinct names" >> beam.Map(name_of))
        joined = {"left": pairs, "right": pairs} | beam.CoGroupByKey()
        both = joined | beam.MapTuple(lambda key, sides: (key, sum(sides["left"]) + sum(sides["right"])))
        check([(name, 2 * total) for name, total in sums.items()], both | "joined names" >> named)


@pytest.mark.parametrize("form", FORMS)
def test_keys_with_a_part_that_has_a_coder_are_grouped_by_their_bytes(pipeline: Any, form: str) -> None:
    """The part may be anywhere in a key."""
    form_of = FORMS[form]
    with pipeline as p:
        pairs = p | beam.Create([(form_of(Caseless(name)), place) for place, name in enumerate(NAMES)])
        sums = pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: (name_of(key), total))
        check(expected_sums(Caseless).items(), sums)


class Remember(beam.DoFn):
    """The sum of each key's values so far, when a timer fires; and whether user code got the key itself."""

    TOTAL = CombiningValueStateSpec("total", sum)
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        key: Any = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(TOTAL),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        assert isinstance(key, Name)
        assert key is element[0]
        total.add(element[1])
        end.set(1)

    @on_timer(END)
    def at_the_end(self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(TOTAL)) -> Any:
        yield name_of(key), total.read()


@pytest.mark.parametrize("kind", CODERS)
def test_state_belongs_to_the_bytes_of_a_key(pipeline: Any, kind: type[Name]) -> None:
    """And so do timers; the DoFn is given the key itself."""
    with pipeline as p:
        pairs = p | beam.Create([(kind(name), place) for place, name in enumerate(NAMES)])
        check(expected_sums(kind).items(), pairs | beam.ParDo(Remember()))


class Names(beam.DoFn):
    """How many names a set and a map have."""

    SEEN = SetStateSpec("seen")
    PLACES = MapStateSpec("places")

    def process(
        self,
        element: Any,
        seen: Any = beam.DoFn.StateParam(SEEN),
        places: Any = beam.DoFn.StateParam(PLACES),
    ) -> Any:
        _, (name, place) = element
        seen.add(name)
        places.put(name, place)
        if place == len(NAMES) - 1:
            assert seen.contains(type(name)("b"))
            seen.remove(type(name)("b"))
            places.remove(type(name)("b"))
            yield sorted(map(name_of, seen.read())), sorted((name_of(key), value) for key, value in places.items())


def test_sets_and_maps_in_state_have_a_name_once(pipeline: Any) -> None:
    with pipeline as p:
        values = [TimestampedValue(("k", (Caseless(name), place)), place) for place, name in enumerate(NAMES)]
        found = p | beam.Create(values) | beam.ParDo(Names())
        check([(["a"], [("a", len(NAMES) - 1)])], found)


@pytest.mark.parametrize("kind", CODERS)
def test_side_input_maps_are_looked_up_by_bytes(pipeline: Any, kind: type[Name]) -> None:
    """With a key that was made anew; iterating gives the keys themselves."""

    def look(_: Any, last: Any, groups: Any) -> Any:
        yield {name_of(key): value for key, value in last.items()}
        yield {name_of(key): sum(values) for key, values in groups.items()}
        yield [last[kind("b")], kind("b") in groups, kind("c") in groups, last.get(kind("c")), len(groups)]

    lasts = {name_of(kind(name)): place for place, name in enumerate(NAMES)}
    sums = expected_sums(kind)
    with pipeline as p:
        pairs = p | "pairs" >> beam.Create([(kind(name), place) for place, name in enumerate(NAMES)])
        in_order = pairs | beam.Map(lambda pair: pair)
        views = beam.pvalue.AsDict(in_order), beam.pvalue.AsMultiMap(pairs)
        found = p | beam.Create([0]) | beam.FlatMap(look, *views)
        check([lasts, sums, [4, True, False, None, len(sums)]], found)


@pytest.mark.parametrize("mode", AccumulationMode)
def test_panes_belong_to_the_bytes_of_a_key(pipeline: Any, mode: AccumulationMode) -> None:
    """Those that count elements as well, and windows that merge."""
    with pipeline as p:
        elements = [TimestampedValue((Name(name), 1), place) for place, name in enumerate("aabaa")]
        pairs = p | beam.Create(elements)
        each = beam.WindowInto(GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode)
        panes = pairs | each | "panes" >> beam.CombinePerKey(sum)
        last = panes | beam.Filter(lambda pair: pair[1] == 4) | beam.MapTuple(lambda key, _: key.name)
        check({AccumulationMode.DISCARDING: []}.get(mode, ["a"]), last | beam.Distinct())
        sessions = pairs | "gaps" >> beam.WindowInto(Sessions(2)) | "visits" >> beam.CombinePerKey(sum)
        check([("a", 2), ("a", 2), ("b", 1)], sessions | beam.MapTuple(lambda key, n: (key.name, n)))


def test_keys_of_a_type_without_a_coder_stay_as_they_are(pipeline: Any) -> None:
    """Though other types have one."""
    with pipeline as p:
        pairs = p | beam.Create([("a", 1), (1, 2), (1.0, 3), (("a", 1), 4), (("a", True), 5)])
        check([("a", 1), (1, 5), (("a", 1), 9)], pairs | beam.CombinePerKey(sum))


class LowerCoder(NameCoder):
    def encode(self, value: Any) -> bytes:
        return str(value).lower().encode()


def test_a_coder_for_strings_decides_of_strings(pipeline: Any) -> None:
    registry.register_coder(str, LowerCoder)
    with pipeline as p:
        pairs = p | beam.Create([("a", 1), ("A", 2), ("b", 4)])
        sums = pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: (key.lower(), total))
        check([("a", 3), ("b", 4)], sums)


def test_a_coder_that_a_wrong_hint_hides_is_an_error() -> None:
    """Its keys would be grouped by `==`."""
    p = TestPipeline()
    pairs = p | beam.Create([1]) | beam.Map(lambda n: (Name("a"), n)).with_output_types(tuple[str, int])
    pairs | "Sum" >> beam.CombinePerKey(sum)
    with pytest.raises(InvalidKeyError, match=r"Sum: the key Name\('a'\) .* a wrong type hint"):
        p.run()


def test_a_pipeline_without_transforms_runs_where_coders_are_registered(pipeline: Any) -> None:
    """There is nothing to encode in it."""
    pipeline.run().wait_until_finish()
