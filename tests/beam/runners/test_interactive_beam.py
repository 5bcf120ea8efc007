"""Beam's `interactive_beam`: elements of PCollections."""

from __future__ import annotations

import pytest

import penstock as beam
from penstock.beam.runners import interactive_beam as ib
from penstock.beam.runners.named_runners import InteractiveRunner
from penstock.sdk.errors import UnsupportedError


def words() -> beam.PCollection[str]:
    p = beam.Pipeline(runner=InteractiveRunner())
    return p | beam.Create(["to", "be"]) | beam.WithTimestamps(lambda word: len(word))


def test_elements_are_collected_as_a_frame() -> None:
    rows = words() | beam.Map(lambda word: beam.Row(word=word, letters=len(word)))

    assert {"word": ["to", "be"], "letters": [2, 2]} == ib.collect(rows).to_dict("list")


def test_plain_elements_and_tuples_have_numbered_columns() -> None:
    assert {0: ["to", "be"]} == ib.collect(words()).to_dict("list")
    assert {0: ["to", "be"], 1: [2, 2]} == ib.collect(words() | beam.Map(lambda w: (w, len(w)))).to_dict("list")


def test_the_window_of_each_element_is_shown() -> None:
    frame = ib.collect(words() | beam.WindowInto(beam.window.FixedWindows(60)), include_window_info=True)

    assert [0, "event_time", "windows", "pane_info"] == list(frame.columns)
    assert [2_000_000, 2_000_000] == list(frame["event_time"])
    assert (beam.window.IntervalWindow(0, 60),) == frame["windows"][0]


@pytest.mark.parametrize("limited", [lambda pcoll: ib.collect(pcoll, 1), lambda pcoll: ib.collect(pcoll, n=1)])
def test_a_number_of_elements_is_collected(limited) -> None:
    assert 1 == len(limited(words()))


def test_several_are_collected_at_once() -> None:
    one = words()
    upper = one | beam.Map(str.upper)

    assert (["to", "be"], ["TO", "BE"]) == ib.collect([one, upper], raw_records=True)


def test_a_deferred_frame_is_collected() -> None:
    from penstock.dataframe.convert import to_dataframe

    frame = to_dataframe(words() | beam.Map(lambda word: beam.Row(letters=len(word))))

    assert [2, 2] == list(ib.collect(frame)["letters"])
    assert [3, 3] == list(ib.collect(frame["letters"] + 1)[0])


def test_elements_are_shown(capsys) -> None:
    ib.show(words(), n=1)
    shown = capsys.readouterr().out

    assert "2 elements, of which 1 are shown" in shown
    assert "'to'" in shown


def test_what_only_recordings_need_is_there() -> None:
    """And does nothing."""
    pcoll = words()
    ib.watch(locals())
    ib.options.recording_duration = "10s"
    ib.evict_recorded_data(pcoll.pipeline)

    assert ib.recordings.clear(pcoll.pipeline)
    assert 0 == ib.recordings.describe(pcoll.pipeline)["size"]


def test_a_graph_is_shown_as_text(capsys) -> None:
    ib.show_graph((words() | "Upper" >> beam.Map(str.upper)).pipeline)

    assert capsys.readouterr().out.splitlines()[-1].startswith("Upper: ParDo of WithTimestamps(")


def test_the_result_of_a_run_gives_elements() -> None:
    pcoll = words()
    result = pcoll.pipeline.run()

    assert ["to", "be"] == result.get(pcoll)
    assert [2, 2] == [each.timestamp for each in result.get(pcoll, include_window_info=True)]


def test_an_unbounded_collection_is_refused() -> None:
    unbounded = beam.Pipeline() | beam.io.GenerateSequence(0)

    with pytest.raises(UnsupportedError, match="is unbounded"):
        ib.collect(unbounded)


def test_clusters_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="ib.clusters.create: penstock starts no clusters"):
        ib.clusters.create(None)
