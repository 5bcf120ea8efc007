"""Outputs with tags."""

import apache_beam as beam


class _Sorted(beam.DoFn):
    def process(self, element):
        if element < 0:
            yield beam.pvalue.TaggedOutput("negative", element)
        elif element > 9:
            yield beam.TaggedOutput("large", element)
        else:
            yield element


def outputs_by_attribute_and_by_tag() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()).with_outputs("negative", "large", main="rest")
        found.negative | "1" >> beam.Map(lambda x: print("negative", x))
        found["large"] | "2" >> beam.Map(lambda x: print("large", x))
        found.rest | "3" >> beam.Map(lambda x: print("rest", x))


def outputs_unpacked() -> None:
    with beam.Pipeline() as p:
        rest, negative, large = (
            p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()).with_outputs("negative", "large", main="rest")
        )
        negative | "1" >> beam.Map(lambda x: print("negative", x))
        large | "2" >> beam.Map(lambda x: print("large", x))
        rest | "3" >> beam.Map(lambda x: print("rest", x))


def outputs_without_a_main_tag() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()).with_outputs("negative", "large")
        found[None] | "1" >> beam.Map(lambda x: print("main", x))
        found.large | "2" >> beam.Map(lambda x: print("large", x))


def outputs_of_values() -> None:
    found = [-1, 5, 10] | beam.ParDo(_Sorted()).with_outputs("negative", "large", main="rest")
    rest, negative, large = found
    print(rest, negative, large, found.rest, found["large"], found.negative)


def outputs_of_any_tag() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()).with_outputs()
        found.negative | "1" >> beam.Map(lambda x: print("negative", x))


def outputs_without_with_outputs_are_dropped() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()) | beam.Map(print)


def a_tag_that_is_not_declared() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create([-1, 5, 10]) | beam.ParDo(_Sorted()).with_outputs("negative", main="rest")
        found.rest | "1" >> beam.Map(lambda x: print("rest", x))


def outputs_of_flat_map() -> None:
    def split(element):
        yield element
        yield beam.TaggedOutput("twice", element * 2)

    with beam.Pipeline() as p:
        found = p | beam.Create([1]) | beam.FlatMap(split).with_outputs("twice", main="once")
        found.once | "1" >> beam.Map(lambda x: print("once", x))
        found.twice | "2" >> beam.Map(lambda x: print("twice", x))


def outputs_of_map() -> None:
    with beam.Pipeline() as p:
        found = (
            p
            | beam.Create([1, 2])
            | beam.Map(lambda x: beam.TaggedOutput("even", x) if x % 2 == 0 else x).with_outputs("even", main="odd")
        )
        found.even | "1" >> beam.Map(lambda x: print("even", x))
        found.odd | "2" >> beam.Map(lambda x: print("odd", x))


def outputs_of_a_composite_as_a_dict() -> None:
    class Halves(beam.PTransform):
        def expand(self, pcoll):
            return {
                "low": pcoll | "low" >> beam.Filter(lambda x: x < 2),
                "high": pcoll | "high" >> beam.Filter(lambda x: x >= 2),
            }

    with beam.Pipeline() as p:
        found = p | beam.Create([1, 2, 3]) | Halves()
        found["low"] | "1" >> beam.Map(lambda x: print("low", x))
        found["high"] | "2" >> beam.Map(lambda x: print("high", x))
