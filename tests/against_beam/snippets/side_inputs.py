"""Side inputs."""

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms import window
from refusals import refused


def as_singleton() -> None:
    with beam.Pipeline() as p:
        one = p | "one" >> beam.Create([10])
        p | beam.Create([1, 2]) | beam.Map(lambda x, y: x + y, pvalue.AsSingleton(one)) | beam.Map(print)


def as_singleton_with_a_default() -> None:
    with beam.Pipeline() as p:
        none = p | "none" >> beam.Create([])
        p | beam.Create([1]) | beam.Map(lambda x, y: x + y, pvalue.AsSingleton(none, default_value=7)) | beam.Map(print)


def as_singleton_of_nothing() -> None:
    with beam.Pipeline() as p:
        none = p | "none" >> beam.Create([])
        (p | beam.Create([1]) | beam.Map(lambda x, y: type(y).__name__, pvalue.AsSingleton(none)) | beam.Map(print))


def as_singleton_of_two() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        two = p | "two" >> beam.Create([1, 2])
        p | beam.Create([1]) | beam.Map(lambda x, y: x + y, pvalue.AsSingleton(two)) | beam.Map(print)


def as_list() -> None:
    with beam.Pipeline() as p:
        some = p | "some" >> beam.Create([3, 1, 2])
        (
            p
            | beam.Create([1])
            | beam.Map(lambda x, ys: (type(ys).__name__, sorted(ys)), pvalue.AsList(some))
            | beam.Map(print)
        )


def as_iter() -> None:
    with beam.Pipeline() as p:
        some = p | "some" >> beam.Create([3, 1, 2])
        p | beam.Create([1]) | beam.Map(lambda x, ys: (sorted(ys), sorted(ys)), pvalue.AsIter(some)) | beam.Map(print)


def as_dict() -> None:
    with beam.Pipeline() as p:
        names = p | "names" >> beam.Create([(1, "one"), (2, "two")])
        p | beam.Create([1, 3]) | beam.Map(lambda x, d: d.get(x, "?"), pvalue.AsDict(names)) | beam.Map(print)


def as_multi_map() -> None:
    with beam.Pipeline() as p:
        names = p | "names" >> beam.Create([(1, "a"), (1, "b"), (2, "c")])
        (
            p
            | beam.Create([1, 2])
            | beam.Map(lambda x, d: (x, sorted(d[x])), beam.pvalue.AsMultiMap(names))
            | beam.Map(print)
        )


def by_keyword() -> None:
    with beam.Pipeline() as p:
        some = p | "some" >> beam.Create([3, 1])
        (
            p
            | beam.Create([1])
            | beam.FlatMap(lambda x, more=(): sorted(more), more=pvalue.AsList(some))
            | beam.Map(print)
        )


def of_filter_and_pardo() -> None:
    class Less(beam.DoFn):
        def process(self, element, limit, names=None):
            if element < limit:
                yield element, names[element]

    with beam.Pipeline() as p:
        limit = p | "limit" >> beam.Create([2])
        names = p | "names" >> beam.Create([(0, "zero"), (1, "one")])
        values = p | beam.Create([0, 1, 2, 3])
        values | beam.Filter(lambda x, n: x >= n, pvalue.AsSingleton(limit)) | "1" >> beam.Map(print)
        (values | beam.ParDo(Less(), pvalue.AsSingleton(limit), names=pvalue.AsDict(names)) | "2" >> beam.Map(print))


def of_the_same_windows() -> None:
    with beam.Pipeline() as p:
        stamped = p | beam.Create([1, 2, 11]) | beam.Map(lambda x: window.TimestampedValue(x, x))
        values = stamped | beam.WindowInto(window.FixedWindows(10))
        values | beam.Map(lambda x, all: (x, sorted(all)), pvalue.AsList(values)) | beam.Map(print)


def of_wider_windows() -> None:
    with beam.Pipeline() as p:
        stamped = p | beam.Create([1, 2, 11, 25]) | beam.Map(lambda x: window.TimestampedValue(x, x))
        wide = stamped | "wide" >> beam.WindowInto(window.FixedWindows(20))
        (
            stamped
            | "narrow" >> beam.WindowInto(window.FixedWindows(10))
            | beam.Map(lambda x, all: (x, sorted(all)), pvalue.AsList(wide))
            | beam.Map(print)
        )


def of_the_global_window() -> None:
    with beam.Pipeline() as p:
        side = p | "side" >> beam.Create(["g"])
        stamped = p | beam.Create([1, 11]) | beam.Map(lambda x: window.TimestampedValue(x, x))
        (
            stamped
            | beam.WindowInto(window.FixedWindows(10))
            | beam.Map(lambda x, side: (x, side), pvalue.AsSingleton(side))
            | beam.Map(print)
        )


def the_same_input_twice() -> None:
    with beam.Pipeline() as p:
        some = p | "some" >> beam.Create([1, 2])
        (
            p
            | beam.Create([10])
            | beam.Map(lambda x, a, b: (x, sorted(a), sorted(b)), pvalue.AsList(some), pvalue.AsIter(some))
            | beam.Map(print)
        )


def a_computed_side_input() -> None:
    with beam.Pipeline() as p:
        values = p | beam.Create([1, 2, 3])
        total = values | beam.CombineGlobally(sum)
        values | beam.Map(lambda x, t: round(x / t, 3), pvalue.AsSingleton(total)) | beam.Map(print)


def of_a_combine_fn() -> None:
    class Scaled(beam.CombineFn):
        def create_accumulator(self, factor):
            return 0

        def add_input(self, accumulator, element, factor):
            return accumulator + element * factor

        def merge_accumulators(self, accumulators, factor):
            return sum(accumulators)

        def extract_output(self, accumulator, factor):
            return accumulator

    with beam.Pipeline() as p:
        factor = p | "factor" >> beam.Create([10])
        (
            p
            | beam.Create([("a", 1), ("a", 2)])
            | beam.CombinePerKey(Scaled(), pvalue.AsSingleton(factor))
            | beam.Map(print)
        )


def a_plain_pcollection_as_argument() -> None:
    with refused(Exception), beam.Pipeline() as p:
        some = p | "some" >> beam.Create([1])
        p | beam.Create([1]) | beam.Map(lambda x, y: x, some) | beam.Map(print)


def a_dict_with_a_key_twice() -> None:
    with beam.Pipeline() as p:
        names = p | "names" >> beam.Create([("k", 1), ("k", 1)])
        p | beam.Create([0]) | beam.Map(lambda x, d: d, pvalue.AsDict(names)) | beam.Map(print)


def of_map_tuple() -> None:
    with beam.Pipeline() as p:
        factor = p | "factor" >> beam.Create([3])
        (
            p
            | beam.Create([("a", 2)])
            | beam.MapTuple(lambda k, v, n=1: k * v * n, pvalue.AsSingleton(factor))
            | beam.Map(print)
        )
