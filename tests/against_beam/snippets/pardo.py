"""ParDo and DoFn."""

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from refusals import refused


class _Split(beam.DoFn):
    def __init__(self, delimiter=" "):
        self.delimiter = delimiter

    def process(self, element):
        return element.split(self.delimiter)


def a_dofn_returns_a_list() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a b", "c"]) | beam.ParDo(_Split()) | beam.Map(print)


def a_dofn_with_a_constructor() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a,b", "c"]) | beam.ParDo(_Split(",")) | beam.Map(print)


def a_dofn_returns_none() -> None:
    class Nothing(beam.DoFn):
        def process(self, element):
            print("saw", element)

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Nothing()) | beam.Map(print)


def a_dofn_returns_a_string() -> None:
    class Text(beam.DoFn):
        def process(self, element):
            return "ab"

    with refused(TypeError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Text()) | beam.Map(print)


def a_dofn_returns_a_number() -> None:
    class Number(beam.DoFn):
        def process(self, element):
            return 5

    with refused(TypeError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Number()) | beam.Map(print)


def a_dofn_returns_a_dict() -> None:
    class Fields(beam.DoFn):
        def process(self, element):
            return {"a": 1}

    with refused(TypeError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Fields()) | beam.Map(print)


def a_function_in_place_of_a_dofn() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.ParDo(lambda x: [x, x * 10]) | beam.Map(print)


def a_class_in_place_of_a_dofn() -> None:
    with refused(TypeError, ValueError):
        beam.ParDo(3)


def arguments_of_process() -> None:
    class Add(beam.DoFn):
        def process(self, element, first, second=1):
            yield element + first * second

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Add(), 10, second=3) | beam.Map(print)


def the_timestamp() -> None:
    class Stamped(beam.DoFn):
        def process(self, element, timestamp=beam.DoFn.TimestampParam):
            yield element, type(timestamp).__name__, timestamp.micros, float(timestamp)

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([5])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.ParDo(Stamped())
            | beam.Map(print)
        )


def the_timestamp_in_map() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([5])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam: (x, t))
            | beam.Map(print)
        )


def the_window() -> None:
    class Windowed(beam.DoFn):
        def process(self, element, window=beam.DoFn.WindowParam):
            yield element, window, window.start, window.end, window.max_timestamp()

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([5, 12])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.ParDo(Windowed())
            | beam.Map(print)
        )


def the_global_window() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([5]) | beam.Map(lambda x, w=beam.DoFn.WindowParam: (x, w)) | beam.Map(print)


def the_windows_of_sliding_windows() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([5])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.WindowInto(window.SlidingWindows(10, 5))
            | beam.Map(lambda x, w=beam.DoFn.WindowParam: (x, w))
            | beam.Map(print)
        )


def the_pane() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1)])
            | beam.GroupByKey()
            | beam.Map(
                lambda x, pane=beam.DoFn.PaneInfoParam: (pane.is_first, pane.is_last, pane.index, int(pane.timing))
            )
            | beam.Map(print)
        )


def the_pane_before_grouping() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.Map(
                lambda x, pane=beam.DoFn.PaneInfoParam: (pane.is_first, pane.is_last, pane.index, int(pane.timing))
            )
            | beam.Map(print)
        )


def the_element_and_the_key() -> None:
    class Keyed(beam.DoFn):
        def process(self, pair=beam.DoFn.ElementParam, key=beam.DoFn.KeyParam):
            yield pair, key

    with beam.Pipeline() as p:
        p | beam.Create([("a", 1)]) | beam.ParDo(Keyed()) | beam.Map(print)


def the_windowed_value() -> None:
    class Whole(beam.DoFn):
        def process(self, element, whole=beam.DoFn.WindowedValueParam):
            yield whole.value, whole.timestamp, whole.windows

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([5])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.ParDo(Whole())
            | beam.Map(print)
        )


def timestamped_values_change_the_timestamp() -> None:
    class Stamp(beam.DoFn):
        def process(self, element):
            yield window.TimestampedValue(element, element * 2)

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, 2])
            | beam.ParDo(Stamp())
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam: (x, t))
            | beam.Map(print)
        )


def windowed_values_change_the_window() -> None:
    class Place(beam.DoFn):
        def process(self, element):
            yield beam.utils.windowed_value.WindowedValue(element, 3, [window.IntervalWindow(0, 10)])

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.ParDo(Place())
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam: (x, t, w))
            | beam.Map(print)
        )


def setup_and_bundles() -> None:
    class Traced(beam.DoFn):
        def setup(self):
            self.calls = ["setup"]

        def start_bundle(self):
            self.calls.append("start_bundle")

        def process(self, element):
            self.calls.append("process")
            yield self.calls[:3]

        def finish_bundle(self):
            print("finish_bundle")

        def teardown(self):
            print("teardown")

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Traced()) | beam.Map(print)


def finish_bundle_outputs_windowed_values() -> None:
    class Count(beam.DoFn):
        def start_bundle(self):
            self.count = 0

        def process(self, element):
            self.count += 1

        def finish_bundle(self):
            yield beam.utils.windowed_value.WindowedValue(self.count, 0, [window.GlobalWindow()])

    with beam.Pipeline() as p:
        p | beam.Create([1, 2, 3], reshuffle=False) | beam.ParDo(Count()) | beam.CombineGlobally(sum) | beam.Map(print)


def finish_bundle_outputs_plain_values() -> None:
    class Count(beam.DoFn):
        def process(self, element):
            pass

        def finish_bundle(self):
            yield 1

    with refused(Exception), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Count()) | beam.Map(print)


def a_dofn_keeps_its_class_attributes() -> None:
    class Scaled(beam.DoFn):
        factor = 3

        def process(self, element):
            yield element * self.factor

    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.ParDo(Scaled()) | beam.Map(print)


def an_error_names_the_transform() -> None:
    def fail(x):
        raise ValueError("no")

    try:
        with beam.Pipeline() as p:
            p | beam.Create([1]) | "Refuse" >> beam.Map(fail)
    except ValueError as error:
        print("while running 'Refuse'" in str(error), "no" in str(error))


def batches() -> None:
    class Twice(beam.DoFn):
        def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
            yield [x * 2 for x in batch]

        def infer_output_type(self, input_type):
            return int

    with beam.Pipeline() as p:
        p | beam.Create([1, 2, 3]).with_output_types(int) | beam.ParDo(Twice()) | beam.Map(print)


def elements_and_batches() -> None:
    class Sizes(beam.DoFn):
        @beam.DoFn.yields_elements
        def process_batch(self, batch: list[int]) -> Iterator[int]:
            yield from batch

        def infer_output_type(self, input_type):
            return int

    with beam.Pipeline() as p:
        p | beam.Create([1, 2, 3]).with_output_types(int) | beam.ParDo(Sizes()) | beam.Map(print)


def bundle_finalizer() -> None:
    class Final(beam.DoFn):
        def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
            finalizer.register(lambda: None)
            yield element

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Final()) | beam.Map(print)


def setup_context() -> None:
    import contextlib

    @contextlib.contextmanager
    def connection():
        yield "connected"

    class Connected(beam.DoFn):
        def process(self, element, connection=beam.DoFn.SetupContextParam(connection)):
            yield element, connection

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Connected()) | beam.Map(print)


def bundle_context() -> None:
    import contextlib

    @contextlib.contextmanager
    def connection(name):
        yield f"connected to {name}"

    class Connected(beam.DoFn):
        def process(self, element, connection=beam.DoFn.BundleContextParam(connection, args=("db",))):
            yield element, connection

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Connected()) | beam.Map(print)


def timestamps_of_created_elements() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam: (t == beam.window.MIN_TIMESTAMP, t == Timestamp.of(0)))
            | beam.Map(print)
        )


def callables_with_side_arguments() -> None:
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n

    with beam.Pipeline() as p:
        p | beam.Create([1]) | "Add" >> beam.Map(Adder(5)) | beam.Map(print)


def partial_functions() -> None:
    import functools

    with beam.Pipeline() as p:
        p | beam.Create([2, 3]) | beam.Map(functools.partial(pow, 2)) | beam.Map(print)


def default_labels() -> None:
    print(beam.Map(len).label, beam.ParDo(_Split()).label, beam.Filter(bool).label, beam.FlatMap(str.split).label)
    print(
        beam.GroupByKey().label, beam.Create([1]).label, beam.CombinePerKey(sum).label, beam.CombineGlobally(max).label
    )
    print(beam.Flatten().label, beam.Reshuffle().label)


def the_label_of_a_lambda() -> None:
    print(beam.Map(lambda x: x).label.startswith("Map(<lambda at "))
