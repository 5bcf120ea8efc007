"""A changelog says all that is known of each change; what only appends refuses retractions."""

import json

import pytest

import penstock as beam
from penstock.io.files.changelog import ChangelogSink
from penstock.io.files.json import JsonFormat
from penstock.io.files.sinks.dynamic_write import DestinationSink
from penstock.io.files.write import FileSink
from penstock.io.sql.table_sink import TableSink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError, UnsupportedError
from penstock.sdk.sink import LabelledSink
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.triggers.pane import ONLY_PANE, PaneInfo, PaneInfoTiming
from penstock.windowing import BoundedWindow, FixedWindows, GlobalWindows, TimestampedValue
from penstock.windowing.windows import IntervalWindow

MINUTE, NEXT_MINUTE = IntervalWindow(0, 60), IntervalWindow(60, 120)


def lines_of(directory):
    """The changes in all files, in order."""
    return [json.loads(line) for path in sorted(directory.glob("c*")) for line in path.read_text().splitlines()]


def line(op, value, timestamp, window, timing="UNKNOWN", index=0, first=True, last=True):
    """Return the change that a line describes."""
    pane = {"timing": timing, "index": index, "first": first, "last": last}
    return {"op": op, "value": value, "timestamp": timestamp, "window": window, "pane": pane}


def as_they_come():
    """A pane for each element, which takes back the one before."""
    trigger = Repeatedly(AfterCount(1))
    return beam.WindowInto(GlobalWindows(), trigger=trigger, accumulation_mode=AccumulationMode.RETRACTING)


class Shift(BoundedWindow):
    """A user's own window, which has no start."""


def written(tmp_path, *bundles):
    """The lines that are written of bundles."""
    sink = LabelledSink(ChangelogSink(tmp_path / "c", JsonFormat()), "log")
    sink.prepare("1")
    writer = sink.sink.open_writer(sink.context("1", "1"))
    for bundle in bundles:
        writer.write(bundle)
    sink.commit("1", [writer.stage()])
    return lines_of(tmp_path)


def test_a_line_says_sign_value_timestamp_window_and_pane(tmp_path):
    """Each of its own, or one for all."""
    late = PaneInfo(False, True, PaneInfoTiming.LATE, 2, 1)
    single = Bundle(["b"], 7_500_000, (MINUTE,), late, -1)
    mixed = Bundle(["c", "d"], [0, -1], [(MINUTE,), (NEXT_MINUTE,)], [ONLY_PANE, late], [1, -1])
    expected = [
        line("+", "a", 5, "global"),
        line("-", "b", 7.5, {"start": 0, "end": 60}, "LATE", 2, False, True),
        line("+", "c", 0, {"start": 0, "end": 60}, "ON_TIME"),
        line("-", "d", -0.000001, {"start": 60, "end": 120}, "LATE", 2, False, True),
    ]
    assert expected == written(tmp_path, Bundle(["a"], 5_000_000), single, mixed)


def test_an_element_in_several_windows_has_a_line_for_each(tmp_path):
    """A window of the user's own is shown by its end, and its start if it has one."""
    bundle = Bundle(["a"], 0, (MINUTE, NEXT_MINUTE, Shift(8)))
    windows = [{"start": 0, "end": 60}, {"start": 60, "end": 120}, {"end": 8}]
    assert [line("+", "a", 0, window) for window in windows] == written(tmp_path, bundle)


def test_values_are_objects_arrays_or_plain(tmp_path):
    """Records are objects wherever they are."""
    values = [beam.Row(a=1), {"a": 1}, ("k", beam.Row(a=1)), None, 2**70]
    expected = [{"a": 1}, {"a": 1}, ["k", {"a": 1}], None, 2**70]
    assert expected == [line["value"] for line in written(tmp_path, Bundle(values))]


def test_a_value_that_json_lacks_is_an_error_that_names_the_transform(tmp_path):
    """And the value."""
    with pytest.raises(SinkError, match="log: '.*/c': .*object.* can't be written as JSON"):
        written(tmp_path, Bundle([object()]))


def test_a_retracting_pipeline_is_logged_change_by_change(tmp_path):
    """The signs of equal values sum up to what a batch run gives."""
    with TestPipeline() as p:
        stream = TestStream()
        for second, word in enumerate(["to", "be", "to"]):
            stream = stream.add_elements([TimestampedValue(word, second)])
        words = p | stream.advance_watermark_to_infinity() | as_they_come()
        _ = words | beam.combiners.Count.PerElement() | beam.io.WriteToChangelog(tmp_path / "c", ".jsonl")
    changes = [(line["op"], *line["value"], line["pane"]["index"], line["window"]) for line in lines_of(tmp_path)]
    expected = [
        ("+", "to", 1, 0, "global"),
        ("+", "be", 1, 0, "global"),
        ("-", "to", 1, 0, "global"),
        ("+", "to", 2, 1, "global"),
    ]
    assert expected == changes


def test_every_runner_logs_the_same_changes(make_pipeline, tmp_path):
    """In any order of the files."""
    with make_pipeline() as p:
        words = p | beam.Create([TimestampedValue(word, second) for second, word in enumerate(["to", "be", "to"])])
        words = words | beam.WindowInto(FixedWindows(2)) | beam.combiners.Count.PerElement()
        _ = words | beam.io.WriteToChangelog(tmp_path / "c")
    expected = [
        line("+", ["be", 1], 1.999999, {"start": 0, "end": 2}, "ON_TIME"),
        line("+", ["to", 1], 1.999999, {"start": 0, "end": 2}, "ON_TIME"),
        line("+", ["to", 1], 3.999999, {"start": 2, "end": 4}, "ON_TIME"),
    ]
    assert expected == sorted(lines_of(tmp_path), key=lambda line: (line["timestamp"], line["value"]))


def test_tables_and_changelogs_take_retractions_and_files_do_not():
    """A runner asks each sink for it."""
    assert [False, False, True, True] == [
        kind.spec.accepts_retractions for kind in (FileSink, DestinationSink, ChangelogSink, TableSink)
    ]


@pytest.mark.parametrize("sign", [-1, [1, -1]])
def test_a_file_of_values_refuses_a_retraction(tmp_path, sign):
    """Should one arrive there in spite of all."""
    sink = LabelledSink(FileSink(tmp_path / "out", JsonFormat()), "save")
    sink.prepare("1")
    with pytest.raises(SinkError, match="save: a file can only be appended to, and got a retraction"):
        sink.sink.open_writer(sink.context("1", "1")).write(Bundle(["a", "b"], signs=sign))


def test_a_pipeline_whose_results_may_be_retracted_refuses_files_when_it_is_built(tmp_path):
    """Naming both transforms, and what could be done."""
    p = TestPipeline()
    words = p | beam.Create(["a"]) | as_they_come() | "count" >> beam.combiners.Count.PerElement()
    with pytest.raises(UnsupportedError, match="save.*only appends, but count.* may retract .*WriteToChangelog"):
        words | "save" >> beam.io.WriteToText(tmp_path / "t")
    with pytest.raises(UnsupportedError, match="save sharded.*count.* may retract"):
        words | "save sharded" >> beam.io.WriteToText(tmp_path / "t", num_shards=2)
