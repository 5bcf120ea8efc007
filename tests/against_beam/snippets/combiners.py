"""Combiners."""

import apache_beam as beam
from apache_beam.transforms import combiners
from refusals import refused

_PAIRS = [("a", 1), ("b", 7), ("a", 3), ("a", 5)]


def count() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        pairs | combiners.Count.Globally() | "1" >> beam.Map(lambda x: print("globally", x))
        pairs | combiners.Count.PerKey() | "2" >> beam.Map(lambda x: print("per key", x))
        pairs | beam.Keys() | combiners.Count.PerElement() | "3" >> beam.Map(lambda x: print("per element", x))


def mean() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        pairs | combiners.Mean.PerKey() | "1" >> beam.Map(lambda x: print("per key", x))
        pairs | beam.Values() | combiners.Mean.Globally() | "2" >> beam.Map(lambda x: print("globally", x))


def mean_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | combiners.Mean.Globally() | beam.Map(print)


def builtins_as_combiners() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        for function in (sum, min, max):
            name = function.__name__
            pairs | name >> beam.CombinePerKey(function) | f"print {name}" >> beam.Map(lambda x, n=name: print(n, x))


def any_and_all() -> None:
    with beam.Pipeline() as p:
        values = p | beam.Create([True, False])
        values | beam.CombineGlobally(any) | "1" >> beam.Map(lambda x: print("any", x))
        values | "all" >> beam.CombineGlobally(all) | "2" >> beam.Map(lambda x: print("all", x))


def a_lambda_as_combiner() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(_PAIRS) | beam.CombinePerKey(lambda values: sum(values) * 1) | beam.Map(print)


def combine_values() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([("a", [1, 2]), ("b", [3])]) | beam.CombineValues(sum) | beam.Map(print)


def combine_globally_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | beam.CombineGlobally(sum) | beam.Map(print)


def combine_globally_without_defaults_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | beam.CombineGlobally(sum).without_defaults() | beam.Map(print)


def combine_globally_as_a_singleton() -> None:
    with beam.Pipeline() as p:
        total = p | beam.Create([1, 2]) | beam.CombineGlobally(sum).as_singleton_view()
        p | "one" >> beam.Create([10]) | beam.Map(lambda x, t: x + t, total) | beam.Map(print)


class _Average(beam.CombineFn):
    def create_accumulator(self):
        return 0, 0

    def add_input(self, accumulator, element):
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        sums, counts = zip(*accumulators)
        return sum(sums), sum(counts)

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None


def a_combine_fn() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        pairs | beam.CombinePerKey(_Average()) | "1" >> beam.Map(print)
        pairs | beam.Values() | beam.CombineGlobally(_Average()) | "2" >> beam.Map(print)


def a_combine_fn_by_hand() -> None:
    one = _Average()
    print(one.apply([1, 2, 3]))
    print(one.extract_output(one.merge_accumulators([one.add_inputs(one.create_accumulator(), [1, 2]), (7, 1)])))


def a_combine_fn_from_a_callable() -> None:
    one = beam.CombineFn.from_callable(sum)
    print(one.apply([1, 2, 3]))


def a_combine_fn_with_arguments() -> None:
    class Scaled(beam.CombineFn):
        def create_accumulator(self, factor):
            return 0

        def add_input(self, accumulator, element, factor):
            return accumulator + element * factor

        def merge_accumulators(self, accumulators, factor):
            return sum(accumulators)

        def extract_output(self, accumulator, factor):
            return accumulator, factor

    with beam.Pipeline() as p:
        p | beam.Create(_PAIRS) | beam.CombinePerKey(Scaled(), 10) | beam.Map(print)


def a_combine_fn_with_setup() -> None:
    class Prepared(_Average):
        def setup(self):
            self.ready = True

        def extract_output(self, accumulator):
            return self.ready, super().extract_output(accumulator)

        def teardown(self):
            self.ready = False

    with beam.Pipeline() as p:
        p | beam.Create(_PAIRS) | beam.CombinePerKey(Prepared()) | beam.Map(print)


def hot_keys() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        pairs | beam.CombinePerKey(sum).with_hot_key_fanout(2) | "1" >> beam.Map(lambda x: print("two", x))
        (
            pairs
            | "by key" >> beam.CombinePerKey(_Average()).with_hot_key_fanout(lambda key: 3)
            | "2" >> beam.Map(lambda x: print("by key", x))
        )
        (
            pairs
            | beam.Values()
            | beam.CombineGlobally(sum).with_fanout(2)
            | "3" >> beam.Map(lambda x: print("globally", x))
        )


def top() -> None:
    with beam.Pipeline() as p:
        words = p | beam.Create(["a", "bcd", "ef", "ghij"])
        words | combiners.Top.Largest(2) | "1" >> beam.Map(lambda x: print("largest", x))
        words | combiners.Top.Smallest(2) | "2" >> beam.Map(lambda x: print("smallest", x))
        words | combiners.Top.Of(2, key=len) | "3" >> beam.Map(lambda x: print("of", x))
        words | "reverse" >> combiners.Top.Of(2, key=len, reverse=True) | "4" >> beam.Map(lambda x: print("reverse", x))
        words | "more" >> combiners.Top.Largest(9) | "5" >> beam.Map(lambda x: print("more", x))


def top_per_key() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        pairs | combiners.Top.LargestPerKey(2) | "1" >> beam.Map(lambda x: print("largest", x))
        pairs | combiners.Top.SmallestPerKey(2) | "2" >> beam.Map(lambda x: print("smallest", x))
        pairs | combiners.Top.PerKey(1, key=lambda x: -x) | "3" >> beam.Map(lambda x: print("per key", x))


def top_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | combiners.Top.Largest(2) | beam.Map(print)


def samples() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create(_PAIRS)
        (
            pairs
            | combiners.Sample.FixedSizeGlobally(2)
            | "1" >> beam.Map(lambda x: print("globally", len(x), set(x) <= set(_PAIRS)))
        )
        pairs | combiners.Sample.FixedSizePerKey(2) | "2" >> beam.MapTuple(lambda k, x: print("per key", k, len(x)))
        pairs | beam.combiners.Sample.Any(3) | "3" >> combiners.Count.Globally() | beam.Map(print)


def to_collections() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        pairs | combiners.ToList() | "1" >> beam.Map(lambda x: print("list", sorted(x)))
        pairs | combiners.ToDict() | "2" >> beam.Map(lambda x: print("dict", sorted(x.items())))
        pairs | combiners.ToSet() | "3" >> beam.Map(lambda x: print("set", sorted(x)))


def to_collections_of_nothing() -> None:
    with beam.Pipeline() as p:
        empty = p | beam.Create([])
        empty | combiners.ToList() | "1" >> beam.Map(print)
        empty | combiners.ToDict() | "2" >> beam.Map(print)
        empty | combiners.ToSet() | "3" >> beam.Map(print)


def latest() -> None:
    with beam.Pipeline() as p:
        pairs = (
            p
            | beam.Create([("a", 1), ("a", 9), ("b", 3)])
            | beam.Map(lambda kv: beam.window.TimestampedValue(kv, -kv[1]))
        )
        pairs | combiners.Latest.PerKey() | "1" >> beam.Map(lambda x: print("per key", x))
        pairs | combiners.Latest.Globally() | "2" >> beam.Map(lambda x: print("globally", x))


def combine_fns_of_the_module() -> None:
    print(combiners.MeanCombineFn().apply([1, 2, 6]), combiners.CountCombineFn().apply(["a", "b"]))
    print(combiners.TopCombineFn(2).apply([1, 5, 3]), combiners.TopCombineFn(2, reverse=True).apply([1, 5, 3]))
    print(combiners.Largest(2).apply([1, 5, 3]), combiners.Smallest(2).apply([1, 5, 3]))
    print(combiners.ToListCombineFn().apply([1, 2]), combiners.ToDictCombineFn().apply([("a", 1)]))


def tuples_of_combiners() -> None:
    print(combiners.TupleCombineFn(max, combiners.MeanCombineFn()).apply([(1, 2), (3, 4)]))
    print(combiners.TupleCombineFn(max, combiners.MeanCombineFn(), sum).with_common_input().apply([1, 2, 6]))
    print(combiners.SingleInputTupleCombineFn(max, len).apply([1, 2, 6]))


def tuples_of_combiners_in_a_pipeline() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_PAIRS)
            | beam.CombinePerKey(combiners.TupleCombineFn(min, max, combiners.MeanCombineFn()).with_common_input())
            | beam.Map(print)
        )


def _negative(x):
    return -x


def quantiles() -> None:
    with beam.Pipeline() as p:
        values = p | beam.Create(range(101))
        values | beam.ApproximateQuantiles.Globally(5) | "1" >> beam.Map(print)
        values | "reverse" >> beam.ApproximateQuantiles.Globally(3, reverse=True) | "2" >> beam.Map(print)
        values | "by key" >> beam.ApproximateQuantiles.Globally(2, key=_negative) | "3" >> beam.Map(print)


def quantiles_per_key() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", x) for x in range(11)] + [("b", 5)])
            | beam.ApproximateQuantiles.PerKey(3)
            | beam.Map(print)
        )


def weighted_quantiles() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([(1, 1), (2, 10), (3, 1)])
            | beam.ApproximateQuantiles.Globally(3, weighted=True)
            | beam.Map(print)
        )


def quantiles_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | beam.ApproximateQuantiles.Globally(3) | beam.Map(print)


def approximate_unique() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(list(range(10)) * 3)
            | beam.ApproximateUnique.Globally(size=16)
            | "1" >> beam.Map(lambda x: print("globally", x))
        )
        (
            p
            | "pairs" >> beam.Create([("a", x % 3) for x in range(9)])
            | beam.ApproximateUnique.PerKey(error=0.3)
            | "2" >> beam.Map(lambda x: print("per key", x))
        )


def approximate_unique_refuses_its_arguments() -> None:
    with refused(ValueError):
        beam.ApproximateUnique.Globally(size=10)
    with refused(ValueError):
        beam.ApproximateUnique.Globally(error=0.6)
    with refused(ValueError):
        beam.ApproximateUnique.Globally(size=16, error=0.1)


def something_that_is_no_combiner() -> None:
    with refused(TypeError):
        beam.CombinePerKey(5)


def combine_per_key_of_no_pairs() -> None:
    with refused(Exception), beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.CombinePerKey(sum) | beam.Map(print)
