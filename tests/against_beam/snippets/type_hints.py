"""Type hints of transforms."""

import typing

import apache_beam as beam
from apache_beam import typehints
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.typehints.decorators import TypeCheckError
from refusals import refused


def hints_that_match() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, 2])
            | beam.Map(lambda x: str(x)).with_input_types(int).with_output_types(str)
            | beam.Map(len).with_input_types(str)
            | beam.Map(print)
        )


def hints_that_do_not_match() -> None:
    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create(["a"]) | beam.Map(lambda x: x).with_input_types(int)


def annotations_that_do_not_match() -> None:
    def double(x: int) -> int:
        return x * 2

    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create(["a"]) | beam.Map(double)


def decorators_that_do_not_match() -> None:
    @typehints.with_input_types(int)
    @typehints.with_output_types(str)
    def shown(x):
        return str(x)

    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create(["a"]) | beam.Map(shown)


def annotations_of_a_dofn() -> None:
    class Split(beam.DoFn):
        def process(self, element: str) -> typing.Iterable[str]:
            yield from element.split()

    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Split())


def checks_that_are_turned_off() -> None:
    with beam.Pipeline(options=PipelineOptions(["--no_pipeline_type_check"])) as p:
        p | beam.Create(["a"]) | beam.Map(lambda x: x * 2).with_input_types(int) | beam.Map(print)


def checks_while_running() -> None:
    with refused(Exception), beam.Pipeline(options=PipelineOptions(["--runtime_type_check"])) as p:
        p | beam.Create([1, "a"]) | beam.Map(lambda x: x).with_input_types(int) | beam.Map(lambda x: None)


def element_types() -> None:
    p = beam.Pipeline()
    numbers = p | beam.Create([1, 2])
    print(numbers.element_type is int)
    words = numbers | beam.Map(str).with_output_types(str)
    print(words.element_type is str)


def grouping_of_what_is_no_pair() -> None:
    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create([1, 2]).with_output_types(int) | beam.GroupByKey()


def combining_of_wrong_values() -> None:
    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.MapTuple(lambda k, v: k).with_input_types(tuple[int, int])


def checks_by_constraints() -> None:
    for constraint, value in (
        (typehints.List[int], ["a"]),
        (typehints.Tuple[int, str], (1, 2)),
        (typehints.Dict[str, int], {"a": "b"}),
        (typehints.Set[int], {"a"}),
    ):
        with refused(Exception):
            constraint.type_check(value)
    typehints.List[int].type_check([1, 2])
    typehints.Tuple[int, str].type_check((1, "a"))


def text_of_constraints() -> None:
    print(typehints.List[int], typehints.Tuple[int, str], typehints.Dict[str, int], typehints.Union[int, str])
    print(typehints.Optional[int], typehints.KV[str, int], typehints.Iterable[int], typehints.Any)


def consistency() -> None:
    consistent = typehints.typehints.is_consistent_with
    print(consistent(int, int), consistent(int, typehints.Any), consistent(int, str), consistent(bool, int))
    print(consistent(typehints.List[int], typehints.Iterable[int]), consistent(int, typehints.Union[int, str]))


def hints_of_composites() -> None:
    @typehints.with_input_types(int)
    @typehints.with_output_types(str)
    class Shown(beam.PTransform):
        def expand(self, pcoll):
            return pcoll | beam.Map(str)

    with refused(TypeCheckError), beam.Pipeline() as p:
        p | beam.Create(["a"]) | Shown()


def hints_of_kv() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["a", "bb"])
            | beam.Map(lambda x: (x, len(x))).with_output_types(typehints.KV[str, int])
            | beam.CombinePerKey(sum)
            | beam.Map(print)
        )


def optional_results() -> None:
    def maybe(x: int) -> int | None:
        return x if x > 1 else None

    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.Map(maybe) | beam.Map(print)


def inferred_from_generators() -> None:
    def words(text: str) -> typing.Iterator[str]:
        yield from text.split()

    p = beam.Pipeline()
    print((p | beam.Create(["a b"]) | beam.FlatMap(words)).element_type is str)
