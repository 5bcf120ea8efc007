"""Metrics."""

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.metrics.metric import MetricsFilter as Filter
from refusals import refused


class _Counted(beam.DoFn):
    def __init__(self):
        self.seen = Metrics.counter(self.__class__, "seen")
        self.sizes = Metrics.distribution("sizes", "size")
        self.last = Metrics.gauge("gauges", "last")

    def process(self, element):
        self.seen.inc()
        self.sizes.update(element)
        self.last.set(7)
        yield element


def _run():
    p = beam.Pipeline()
    p | beam.Create([1, 5, 3]) | "Count" >> beam.ParDo(_Counted())
    result = p.run()
    result.wait_until_finish()
    return result


def a_counter() -> None:
    (counter,) = _run().metrics().query(MetricsFilter().with_name("seen"))["counters"]
    print(counter.committed, counter.attempted, counter.result, counter.key.metric.name, counter.key.step)


def a_distribution() -> None:
    (found,) = _run().metrics().query(MetricsFilter().with_name("size"))["distributions"]
    print(found.result.sum, found.result.count, found.result.min, found.result.max, found.result.mean)


def a_gauge() -> None:
    (found,) = _run().metrics().query(MetricsFilter().with_name("last"))["gauges"]
    print(found.result.value)


def by_namespace() -> None:
    found = _run().metrics().query(Filter().with_namespace("sizes"))
    print({kind: len(found[kind]) for kind in ("counters", "distributions", "gauges")})


def by_step() -> None:
    result = _run()
    print(len(result.metrics().query(MetricsFilter().with_step("Count").with_name("seen"))["counters"]))
    print(len(result.metrics().query(MetricsFilter().with_step("Other").with_name("seen"))["counters"]))


def by_several_names() -> None:
    found = _run().metrics().query(MetricsFilter().with_names(["seen", "size"]))
    print(len(found["counters"]), len(found["distributions"]), len(found["gauges"]))


def the_namespace_of_a_class() -> None:
    print(
        Metrics.get_namespace(_Counted) == f"{_Counted.__module__}.{_Counted.__name__}", Metrics.get_namespace("text")
    )
    with refused(ValueError):
        Metrics.get_namespace(3)


def names_of_metrics() -> None:
    name = Metrics.counter("space", "name").metric_name
    print(name.namespace, name.name)


def decrements() -> None:
    counter = Metrics.counter("space", "down")

    def down(x):
        counter.dec(2)
        counter.inc(5)
        return x

    p = beam.Pipeline()
    p | beam.Create([1, 2]) | beam.Map(down)
    result = p.run()
    result.wait_until_finish()
    print([found.committed for found in result.metrics().query(MetricsFilter().with_name("down"))["counters"]])


def two_steps_of_one_counter() -> None:
    p = beam.Pipeline()
    values = p | beam.Create([1, 2]) | "First" >> beam.ParDo(_Counted())
    values | "Second" >> beam.ParDo(_Counted())
    result = p.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
    print(sorted((counter.key.step, counter.committed) for counter in found))


def a_filter_of_nothing() -> None:
    found = _run().metrics().query(MetricsFilter().with_name("absent"))
    print(found["counters"], found["distributions"], found["gauges"])


def metrics_of_a_combine_fn() -> None:
    class Sum(beam.CombineFn):
        def create_accumulator(self):
            return 0

        def add_input(self, accumulator, element):
            Metrics.counter("combine", "added").inc()
            return accumulator + element

        def merge_accumulators(self, accumulators):
            return sum(accumulators)

        def extract_output(self, accumulator):
            return accumulator

    p = beam.Pipeline()
    p | beam.Create([1, 2, 3]) | beam.CombineGlobally(Sum())
    result = p.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("added"))["counters"]
    print(sum(counter.committed for counter in found))


def printed_results() -> None:
    results = _run().metrics().query(MetricsFilter().with_names(["seen", "size"]))
    for found in results["counters"] + results["distributions"]:
        print(found)
        print(found.key, found.key.labels, found.key.metric)
