"""Composites, pipelines and PCollections."""

import apache_beam as beam
from apache_beam.runners.runner import PipelineState
from refusals import refused


class _Doubled(beam.PTransform):
    def __init__(self, label=None, factor=2):
        super().__init__(label)
        self.factor = factor

    def expand(self, pcoll):
        return pcoll | beam.Map(lambda x: x * self.factor)


def a_composite() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | _Doubled() | "Again" >> _Doubled(factor=3) | beam.Map(print)


def a_composite_of_a_function() -> None:
    @beam.ptransform_fn
    def Scaled(pcoll, factor):
        return pcoll | beam.Map(lambda x: x * factor)

    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | Scaled(5) | "Again" >> Scaled(factor=2) | beam.Map(print)


def a_composite_of_several_inputs() -> None:
    class Joined(beam.PTransform):
        def expand(self, inputs):
            left, right = inputs
            return (left, right) | beam.Flatten()

    with beam.Pipeline() as p:
        left, right = p | "l" >> beam.Create([1]), p | "r" >> beam.Create([2])
        (left, right) | Joined() | beam.Map(print)


def a_composite_of_a_dict() -> None:
    class Joined(beam.PTransform):
        def expand(self, inputs):
            return (inputs["left"], inputs["right"]) | beam.Flatten()

    with beam.Pipeline() as p:
        {"left": p | "l" >> beam.Create([1]), "right": p | "r" >> beam.Create([2])} | Joined() | beam.Map(print)


def a_composite_at_the_root() -> None:
    class Numbers(beam.PTransform):
        def expand(self, pbegin):
            return pbegin | beam.Create([1, 2])

    with beam.Pipeline() as p:
        p | Numbers() | beam.Map(print)


def a_composite_without_a_result() -> None:
    class Printed(beam.PTransform):
        def expand(self, pcoll):
            pcoll | beam.Map(print)

    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | Printed()


def a_composite_that_returns_its_input() -> None:
    class Same(beam.PTransform):
        def expand(self, pcoll):
            return pcoll

    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | Same() | beam.Map(print)


def a_composite_of_tuples() -> None:
    class Parts(beam.PTransform):
        def expand(self, pcoll):
            return pcoll | "even" >> beam.Filter(lambda x: x % 2 == 0), pcoll | "odd" >> beam.Filter(lambda x: x % 2)

    with beam.Pipeline() as p:
        even, odd = p | beam.Create([1, 2]) | Parts()
        even | "1" >> beam.Map(lambda x: print("even", x))
        odd | "2" >> beam.Map(lambda x: print("odd", x))


def labels_are_unique() -> None:
    with refused(RuntimeError):
        p = beam.Pipeline()
        p | beam.Create([1])
        p | beam.Create([2])


def labels_within_composites() -> None:
    with beam.Pipeline() as p:
        values = p | beam.Create([1])
        values | "First" >> _Doubled() | "1" >> beam.Map(print)
        values | "Second" >> _Doubled() | "2" >> beam.Map(print)


def labels_of_transforms() -> None:
    print(_Doubled().label, _Doubled("Named").label, ("Other" >> _Doubled()).label, str("X" >> beam.Map(len)))


def transforms_in_a_chain() -> None:
    with beam.Pipeline() as p:
        chain = beam.Map(lambda x: x + 1) | "Twice" >> beam.Map(lambda x: x * 2)
        p | beam.Create([1, 2]) | chain | beam.Map(print)


def transforms_on_lists() -> None:
    print(sorted([1, 2, 3] | beam.Map(lambda x: x * 2)))
    print(sorted([("a", 1), ("a", 2)] | beam.CombinePerKey(sum)))
    print([1, 2] | beam.CombineGlobally(sum))


def flatten_of_lists() -> None:
    print(sorted(([1, 2], [3]) | beam.Flatten()))
    print(sorted({"a": [("k", 1)], "b": [("k", 2)]} | beam.CoGroupByKey()))


def the_state_of_a_run() -> None:
    p = beam.Pipeline()
    p | beam.Create([1])
    result = p.run()
    print(result.wait_until_finish(), result.state == PipelineState.DONE, PipelineState.is_terminal(result.state))


def the_state_after_with() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1])
    print(p.result.state)


def a_runner_by_name() -> None:
    with beam.Pipeline(runner="DirectRunner") as p:
        p | beam.Create([1]) | beam.Map(print)


def a_runner_as_an_object() -> None:
    from apache_beam.runners.direct.direct_runner import DirectRunner

    with beam.Pipeline(DirectRunner()) as p:
        p | beam.Create([1]) | beam.Map(print)


def an_unknown_runner() -> None:
    with refused(ValueError):
        beam.Pipeline(runner="NoSuchRunner")


def an_empty_pipeline() -> None:
    with beam.Pipeline():
        pass
    print("done")


def two_runs_of_a_pipeline() -> None:
    p = beam.Pipeline()
    p | beam.Create([1]) | beam.Map(print)
    p.run().wait_until_finish()
    p.run().wait_until_finish()


def a_visitor() -> None:
    from apache_beam.pipeline import PipelineVisitor

    class Labels(PipelineVisitor):
        def visit_transform(self, applied):
            print("transform", applied.full_label) if "Doubled" in applied.full_label else None

        def enter_composite_transform(self, applied):
            print("enter", applied.full_label) if "Doubled" in applied.full_label else None

        def leave_composite_transform(self, applied):
            print("leave", applied.full_label) if "Doubled" in applied.full_label else None

    p = beam.Pipeline()
    p | beam.Impulse() | "Doubled" >> _Doubled() | beam.Map(print)
    p.visit(Labels())


def a_pcollection() -> None:
    p = beam.Pipeline()
    values = p | beam.Impulse()
    print(type(values).__name__, values.pipeline is p, values.is_bounded)


def the_pipeline_of_a_pcollection() -> None:
    with beam.Pipeline() as p:
        values = p | beam.Create([1])
        (values.pipeline | "more" >> beam.Create([2]), values) | beam.Flatten() | beam.Map(print)


def pcollections_of_two_pipelines() -> None:
    one, other = beam.Pipeline(), beam.Pipeline()
    with refused(Exception):
        (one | beam.Create([1]), other | beam.Create([2])) | beam.Flatten()


def a_transform_that_is_no_transform() -> None:
    with refused(TypeError), beam.Pipeline() as p:
        p | beam.Create([1]) | (lambda x: x)


def a_result_of_true() -> None:
    with refused(Exception), beam.Pipeline() as p:
        for _ in p | beam.Create([1]):
            pass


def apply() -> None:
    p = beam.Pipeline()
    values = p | beam.Create([1, 2])
    p.apply(beam.Map(print), values, label="Shown")
    p.run().wait_until_finish()
    print("Shown" in p.applied_labels, "Map(print)" in p.applied_labels)


def an_error_in_expand() -> None:
    class Broken(beam.PTransform):
        def expand(self, pcoll):
            raise KeyError("no")

    with refused(KeyError), beam.Pipeline() as p:
        p | beam.Create([1]) | Broken()


def an_error_within_the_block_does_not_run_it() -> None:
    with refused(ZeroDivisionError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.Map(print)
        _ = 1 / 0


def annotations() -> None:
    class Noted(_Doubled):
        def annotations(self):
            return {"note": "text"}

    with beam.Pipeline() as p:
        p | beam.Create([1]) | Noted() | beam.Map(print)


def display_data() -> None:
    from apache_beam.transforms.display import DisplayData

    class Shown(_Doubled):
        def display_data(self):
            return {"factor": self.factor}

    print(sorted((item.key, item.value) for item in DisplayData.create_from(Shown(factor=4)).items))


def resource_hints() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.Map(lambda x: x).with_resource_hints(min_ram="1GB") | beam.Map(print)
    with refused(ValueError):
        beam.Map(lambda x: x).with_resource_hints(colour="red")
