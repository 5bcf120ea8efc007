"""Windowed values, side input markers, and what processes share."""

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils import shared
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming, WindowedValue
from refusals import refused


def windowed_values() -> None:
    one = WindowedValue("a", 5, (GlobalWindow(),))
    print(one.value, one.timestamp, one.windows, one.pane_info == PANE_INFO_UNKNOWN)
    print(one == WindowedValue("a", Timestamp(5), (GlobalWindow(),)), one == WindowedValue("b", 5, (GlobalWindow(),)))


def windowed_values_with_another_value() -> None:
    one = WindowedValue("a", 5, (IntervalWindow(0, 10),))
    print(one.with_value("b").value, one.with_value("b").timestamp, one.with_value("b").windows)


def hashes_of_windowed_values() -> None:
    one, other = WindowedValue("a", 5, (GlobalWindow(),)), WindowedValue("a", 5, (GlobalWindow(),))
    print(hash(one) == hash(other), len({one, other}))


def pane_infos() -> None:
    one = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)
    print(one, one.is_first, one.is_last, int(one.timing), one.index, one.nonspeculative_index)
    print(one == PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1), PaneInfoTiming.to_string(one.timing))
    print(PANE_INFO_UNKNOWN)


def tagged_outputs() -> None:
    one = pvalue.TaggedOutput("tag", 5)
    print(one.tag, one.value)
    with refused(TypeError):
        pvalue.TaggedOutput(5, "value")


def markers_of_side_inputs() -> None:
    p = beam.Pipeline()
    some = p | beam.Impulse()
    print(pvalue.AsList(some).pvalue is some, pvalue.AsSingleton(some, default_value=3).default_value)


def a_shared_object() -> None:
    handle = shared.Shared()

    class Model:
        pass

    class Uses(beam.DoFn):
        def __init__(self, handle):
            self.handle = handle

        def process(self, element):
            yield self.handle.acquire(Model) is self.handle.acquire(Model)

    with beam.Pipeline() as p:
        p | beam.Create([1]) | beam.ParDo(Uses(handle)) | beam.Map(print)


def shared_objects_by_tag() -> None:
    class Model:
        pass

    handle = shared.Shared()
    one = handle.acquire(Model, tag="a")
    print(handle.acquire(Model, tag="a") is one, handle.acquire(Model, tag="b") is one)


def side_input_tags_of_dicts() -> None:
    with beam.Pipeline() as p:
        sides = {"a": p | "a" >> beam.Create([1]), "b": p | "b" >> beam.Create([2])}
        (
            p
            | beam.Create([0])
            | beam.Map(lambda x, **named: sorted(named.items()), **{k: pvalue.AsSingleton(v) for k, v in sides.items()})
            | beam.Map(print)
        )


def types_of_pvalues() -> None:
    p = beam.Pipeline()
    values = p | beam.Impulse()
    print(
        isinstance(values, pvalue.PCollection), isinstance(values, beam.PCollection), isinstance(values, pvalue.PValue)
    )
