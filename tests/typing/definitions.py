"""What the snippets use.  The checkers read it in front of them; it also runs, so that none of it is wrong."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from typing_extensions import TypeIs

import penstock as beam
from penstock import DoFn, PCollection, PTransform
from penstock.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton, PBegin
from penstock.sdk.userstate import (
    BagRuntimeState,
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteRuntimeState,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from penstock.testing import TestPipeline, TestStream
from penstock.testing.util import assert_that, equal_to
from penstock.transforms.enrichment import Enrichment, EnrichmentSourceHandler
from penstock.transforms.services.request_response import Caller, RequestResponseIO
from penstock.transforms.sql import SqlTransform
from penstock.windowing import FixedWindows, TimestampedValue

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

p = beam.Pipeline()
nums = p | "nums" >> beam.Create([1, 2, 3])
floats = p | "floats" >> beam.Create([1.5])
lines = p | "lines" >> beam.Create(["a b"])
pairs = p | "pairs" >> beam.Create([("a", 1)])


def half(n: int) -> float:
    return n / 2


def scaled(n: int, by: float, unit: str = "") -> float:
    return n * by


def doubled(x: T) -> tuple[T, T]:
    return x, x


def timed(line: str) -> TimestampedValue[str]:
    return TimestampedValue(line, 3)


def pair_of(line: str) -> tuple[str, int]:
    return line, len(line)


def is_kept(n: int, stop: list[int], limit: float) -> bool:
    return n not in stop and n < limit


def named(n: int, names: dict[str, int]) -> str:
    return next(iter(names))


def at_time(n: int, time: Any = DoFn.TimestampParam) -> str:
    return f"{n} {time}"


def untyped(x):
    return x


async def fetched(url: str) -> bytes:
    return url.encode()


def signs(n: int) -> Iterator[int | beam.TaggedOutput]:
    yield n if n > 0 else beam.TaggedOutput("negative", n)


def joined(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


class Click(NamedTuple):
    user: str
    at: float


@dataclasses.dataclass
class Visit:
    page: str
    seconds: int


def decoded(data: bytes) -> Click:
    return Click(data.decode(), 1.0)


class Lower(PTransform[PCollection[str], PCollection[str]]):
    def expand(self, pcoll):
        return pcoll | beam.Map(str.lower)


class Halves(DoFn[int, float]):
    def process(self, element):
        yield element / 2


def priced(name: str, price: int) -> float:
    return price / 2


def with_tax(name: str, price: int, tax: float = 0.2) -> float:
    return price * (1 + tax)


def named_price(name: str, price: int, names: dict[str, int]) -> bytes:
    return name.encode()


def first_letter(word: str) -> str:
    return word[0]


def fields_of(line: str) -> tuple[str, ...]:
    return tuple(line.split(","))


class Account(NamedTuple):
    id: int


clicks = p | "clicks" >> beam.Create([Click("ann", 1.0)])
visits = p | "visits" >> beam.Create([Visit("home", 10)])
rows = p | "rows" >> beam.Create([beam.Row(a=1)])


class Split(DoFn):
    def process(self, line: str, separator: str = ",", at: Any = DoFn.TimestampParam) -> Iterator[str]:
        yield from line.split(separator)


class Words(DoFn[str, str]):
    def process(self, element: str) -> Iterable[str]:
        return element.split()


class Untyped(DoFn):
    def process(self, element):
        yield element


class Lengths(DoFn):
    def process(self, element: str) -> Iterator[int | beam.TaggedOutput]:
        yield len(element) if element else beam.TaggedOutput("errors", element)


class Later(DoFn[str, str]):
    def process(self, element: str) -> Iterator[TimestampedValue[str]]:
        yield TimestampedValue(element, 3)


class Fetch(DoFn):
    async def process(self, element: str) -> AsyncIterator[int]:
        yield 1


class Look(DoFn):
    async def process(self, element: str) -> list[int]:
        return [1]


class Known(DoFn):
    def process(self, element: int, stop: list[str], names: dict[str, int]) -> Iterable[int]:
        return [element]


class Buffered(DoFn[tuple[str, int], tuple[str, int]]):
    BUFFER = BagStateSpec("buffer")
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        buffer: BagRuntimeState = DoFn.StateParam(BUFFER),
        end: RuntimeTimer = DoFn.TimerParam(END),
    ) -> None:
        buffer.add(element)
        end.set(60)

    @on_timer(END)
    def at_end(self, buffer: BagRuntimeState = DoFn.StateParam(BUFFER)) -> Iterable[tuple[str, int]]:
        return buffer.read()


class Silent(DoFn):
    def process(self, element: str) -> None:
        return None


class Double(PTransform[PCollection[int], PCollection[int]]):
    def expand(self, pcoll: PCollection[int]) -> PCollection[int]:
        return pcoll | beam.Map(lambda x: 2 * x)


class Annotated(PTransform):
    def expand(self, pcoll: PCollection[int]) -> PCollection[str]:
        return pcoll | beam.Map(str)


class Plain(PTransform):
    def expand(self, pcoll):
        return pcoll | beam.Map(str)


class Numbers(PTransform[PBegin, PCollection[int]]):
    def expand(self, pbegin: PBegin) -> PCollection[int]:
        return pbegin | beam.Create([1])


class Twice(PTransform):
    def expand(self, pcoll: PCollection[T]) -> PCollection[tuple[T, T]]:
        return pcoll | beam.Map(lambda x: (x, x))


class Fork(PTransform[PCollection[int], tuple[PCollection[int], PCollection[str]]]):
    def expand(self, pcoll: PCollection[int]) -> tuple[PCollection[int], PCollection[str]]:
        return pcoll, pcoll | beam.Map(str)


class BothSides(PTransform[dict[str, PCollection[tuple[str, int]]], PCollection[str]]):
    def expand(self, pcolls: dict[str, PCollection[tuple[str, int]]]) -> PCollection[str]:
        return pcolls | beam.CoGroupByKey() | beam.Keys()


@beam.ptransform_fn
def Times(pcoll: PCollection[int], factor: int) -> PCollection[int]:
    return pcoll | beam.Map(lambda x: factor * x)


class Average(beam.CombineFn[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add_input(self, accumulator: tuple[float, int], element: float) -> tuple[float, int]:
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[float, int]]) -> tuple[float, int]:
        parts = list(accumulators)
        return sum(total for total, _ in parts), sum(count for _, count in parts)

    def extract_output(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]


class UntypedAverage(beam.CombineFn):
    def create_accumulator(self):
        return 0.0, 0

    def add_input(self, accumulator, element):
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        return accumulators[0]

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1]


data = p | "data" >> beam.Create([b"a"])
fives = p | "fives" >> beam.Create([("a", 1, 2.5, "b", None)])
triples = p | "triples" >> beam.Create([("a", 1, 2.5)])
grouped = pairs | "grouped" >> beam.GroupByKey()
configured: Any = [1]

windowed = lines | "windowed" >> beam.Map(lambda line, window=DoFn.WindowParam: (window, line))
rest_of_halves, labelled = nums | "halves" >> beam.Partition(lambda x, n: x % n, 2)
outputs = lines | "outputs" >> beam.ParDo(Lengths()).with_outputs("errors", main="lengths")
lengths, errors = outputs
fields = lines | "fields" >> beam.Map(fields_of)
good, bad = lines | "parse" >> beam.Map(int).with_exception_handling()
evens, odds = nums | beam.Partition(lambda x, n: x % n, 2)
forked, texts = nums | "fork" >> Fork()
positive, negative = nums | "signs" >> beam.FlatMap(signs).with_outputs("negative", main="positive")


# Generic functions and composites.


def swapped(pair: tuple[K, V]) -> tuple[V, K]:
    return pair[1], pair[0]


def same(x: T) -> T:
    return x


def first_of(values: Iterable[T]) -> T:
    return next(iter(values))


def last_of(values: list[T]) -> T:
    return values[-1]


def middle_of(values: Sequence[T]) -> T:
    return values[len(values) // 2]


def numbered(values: Iterable[T]) -> Iterator[tuple[int, T]]:
    yield from enumerate(values)


def key_of(pair: tuple[K, object]) -> K:
    return pair[0]


def value_of(pair: tuple[object, V]) -> V:
    return pair[1]


def size_of(values: Iterable[T]) -> int:
    return len(list(values))


def length_of(values: list[T]) -> int:
    return len(values)


def key_length(pair: tuple[K, Any]) -> int:
    return len(str(pair[0]))


def value_length(pair: tuple[Any, V]) -> int:
    return len(str(pair[1]))


def any_value(mapping: dict[K, V]) -> V:
    return next(iter(mapping.values()))


def half_of(values: Sequence[T]) -> int:
    return len(values) // 2


def tagged(x: T) -> tuple[T, str]:
    return x, ""


def tagging(x: T) -> tuple[str, T]:
    return "", x


def indexed(pair: tuple[K, V]) -> dict[K, V]:
    return {pair[0]: pair[1]}


def distinct(pcoll: PCollection[T]) -> PCollection[T]:
    return pcoll | beam.Distinct() | beam.Reshuffle() | beam.WindowInto(FixedWindows(60))


def kept(pcoll: PCollection[T], is_kept: Callable[[T], bool]) -> PCollection[T]:
    return pcoll | "kept" >> beam.Filter(is_kept)


def keyed(pcoll: PCollection[T], key: Callable[[T], K]) -> PCollection[tuple[K, T]]:
    return pcoll | beam.WithKeys(key)


def grouped_by(pcoll: PCollection[T], key: Callable[[T], K]) -> PCollection[tuple[K, Iterable[T]]]:
    return pcoll | beam.GroupBy(key)


def lists_of(pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, list[V]]]:
    return pcoll | beam.GroupByKey() | beam.MapTuple(lambda key, values: (key, list(values)))


def counted(pcoll: PCollection[T]) -> PCollection[tuple[T, int]]:
    return pcoll | "counted" >> beam.combiners.Count.PerElement()


def sums_of(pcoll: PCollection[tuple[K, int]]) -> PCollection[tuple[K, int]]:
    return pcoll | beam.CombinePerKey(sum)


def listed(pcoll: PCollection[T]) -> PCollection[list[T]]:
    return pcoll | beam.combiners.ToList()


def mapped(pcoll: PCollection[T], fn: Callable[[T], V]) -> PCollection[V]:
    return pcoll | beam.Map(fn)


class Unique(PTransform[PCollection[T], PCollection[T]]):
    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        return pcoll | beam.Distinct()


class OnlyValues(PTransform[PCollection[tuple[K, V]], PCollection[V]]):
    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[V]:
        return pcoll | beam.Values()


class HowMany(PTransform[PCollection[T], PCollection[int]]):
    def expand(self, pcoll: PCollection[T]) -> PCollection[int]:
        return pcoll | beam.combiners.Count.Globally()


class Applied(PTransform[PCollection[T], PCollection[V]], Generic[T, V]):
    def __init__(self, fn: Callable[[T], V]) -> None:
        super().__init__()
        self.fn = fn

    def expand(self, pcoll: PCollection[T]) -> PCollection[V]:
        return pcoll | beam.Map(self.fn)


class Join(PTransform):
    def expand(
        self, pcolls: tuple[PCollection[tuple[str, int]], PCollection[tuple[str, float]]]
    ) -> PCollection[tuple[str, tuple[list[int], list[float]]]]:
        return pcolls | beam.CoGroupByKey()


class Collect(beam.CombineFn[T, list[T], frozenset[T]], Generic[T]):
    def create_accumulator(self) -> list[T]:
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        return [each for part in accumulators for each in part]

    def extract_output(self, accumulator: list[T]) -> frozenset[T]:
        return frozenset(accumulator)


# Functions of other kinds.


def is_text(x: object) -> TypeGuard[str]:
    return isinstance(x, str)


def is_whole(x: object) -> TypeIs[int]:
    return isinstance(x, int)


def described(line: str, **options: int) -> int:
    return len(line) + len(options)


def priced_with(name: str, price: int, **options: int) -> bytes:
    return name.encode()


@functools.lru_cache
def remembered(line: str) -> int:
    return len(line)


class Options(DoFn):
    def process(self, element: str, **options: int) -> Iterable[int]:
        yield len(options)


# States.


class Tags(beam.coders.Coder):
    def encode(self, value: set[str]) -> bytes:
        return " ".join(sorted(value)).encode()

    def decode(self, encoded: bytes) -> set[str]:
        return set(encoded.decode().split())


text, whole = beam.coders.StrUtf8Coder(), beam.coders.VarIntCoder()


class Changes(DoFn[tuple[str, str], str]):
    LAST = ReadModifyWriteStateSpec("last", beam.coders.StrUtf8Coder())
    COUNT = CombiningValueStateSpec("count", beam.combiners.CountCombineFn())
    NAMES: ReadModifyWriteStateSpec[dict[str, int]] = ReadModifyWriteStateSpec("names", beam.coders.PickleCoder())

    def process(
        self,
        element: tuple[str, str],
        last: ReadModifyWriteRuntimeState[str] = DoFn.StateParam(LAST),
        count: Any = DoFn.StateParam(COUNT),
        names: ReadModifyWriteRuntimeState[dict[str, int]] = DoFn.StateParam(NAMES),
    ) -> Iterator[str]:
        yield last.read() or "none"
        last.write(element[1])
        names.write({element[1]: count.read()})


# Services.


class Prices(EnrichmentSourceHandler[beam.Row, beam.Row]):
    async def __call__(self, request: beam.Row, *args: Any, **kwargs: Any) -> tuple[beam.Row, beam.Row]:
        return request, beam.Row(price=3)


class Visits(EnrichmentSourceHandler[Click, Visit]):
    def __call__(self, request: Click, *args: Any, **kwargs: Any) -> tuple[Click, Visit]:
        return request, Visit("home", 3)


class Square(Caller[int, float]):
    def __call__(self, request: int, *args: Any, **kwargs: Any) -> float:
        return float(request**2)


def joined_visit(click: Click, visit: Visit) -> tuple[str, int]:
    return click.user, visit.seconds


mixed = p | "mixed" >> beam.Create([1, "a", None])
lists = p | "lists" >> beam.Create([[1, 2]])
texts_of = p | "texts of" >> beam.Create([["a", "b"]])
halves = pairs | "half values" >> beam.MapTuple(lambda key, n: (key, n / 2))
float_pairs: PCollection[tuple[str, float]] = halves
records = p | "records" >> beam.Create([{"a": 1}])
ok, failed = nums | "handled" >> beam.Map(half).with_exception_handling()
