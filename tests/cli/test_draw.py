"""`penstock draw`: the figures of the Dataflow paper, recorded and drawn."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from package.unpack_wheel import ROOT

from penstock.__main__ import main

Command: TypeAlias = Callable[..., Result]

EXAMPLE = ROOT / "examples" / "paper_figures.py"

# As tests/model/test_paper_figures.py has them.
PANES = {
    7: ["12@12:06:00", "22@12:07:00", "33@12:08:00", "51@12:09:00"],
    8: ["12@12:06:00", "10@12:07:00", "11@12:08:00", "18@12:09:00"],
    9: ["12@12:05:39", "7@12:06:39", "11@12:07:06", "12@12:08:19", "9@12:08:52"],
    11: [
        "5@12:06:00",
        "7@12:06:00",
        "14@12:07:00",
        "3@12:07:00",
        "22@12:08:00",
        "3@12:08:00",
        "14@12:09:00",
        "12@12:09:00",
    ],
    12: ["5@12:05:50", "22@12:07:30", "3@12:07:40", "14@12:08:19", "12@12:08:56"],
    13: [
        "5@12:05:50",
        "7@12:06:00",
        "14@12:07:00",
        "3@12:07:00",
        "22@12:07:30",
        "3@12:07:40",
        "3@12:08:00",
        "14@12:08:19",
        "12@12:08:56",
    ],
    14: [
        "5@12:05:50",
        "7@12:06:00",
        "10@12:07:00",
        "-7@12:07:40",
        "-10@12:07:40",
        "25@12:07:40",
        "3@12:08:00",
        "-5@12:08:19",
        "-25@12:08:19",
        "39@12:08:19",
        "-3@12:08:56",
        "12@12:08:56",
    ],
}


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Command:
    """`penstock draw ...`, in this process."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *arguments: CliRunner().invoke(main, ["draw", *map(str, arguments)])


def clock(micros: int) -> str:
    seconds = micros // 1_000_000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@pytest.mark.parametrize("figure", sorted(PANES))
def test_a_figure_of_the_paper_is_recorded_and_drawn_as_the_docs_have_it(
    figure: int, draw: Command, tmp_path: pathlib.Path
) -> None:
    """The same bytes as the file in docs/, and the panes of the paper."""
    svg, recording = tmp_path / "a.svg", tmp_path / "a.json"

    assert 0 == (ran := draw(EXAMPLE, f"--figure={figure}", "-o", svg, "-o", recording)).exit_code, ran.output

    found = json.loads(recording.read_text())
    panes = [f"{'-' if p['sign'] < 0 else ''}{p['value']}@{clock(p['processing_time'])}" for p in found["panes"]]
    assert PANES[figure] == panes
    assert 10 == len(found["elements"])
    assert [9] == [e["value"] for e in found["elements"] if e["is_late"]] or figure == 11
    assert (ROOT / "docs" / "figures" / f"dataflow-{figure}.svg").read_text() == svg.read_text()


def test_retractions_are_struck_out_and_the_watermark_is_a_line(draw: Command, tmp_path: pathlib.Path) -> None:
    """In SVG that is well formed."""
    draw(EXAMPLE, "--figure=14", "-o", tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    struck = [element.text for element in texts if element.get("text-decoration") == "line-through"]
    assert ["7", "10", "5", "25", "3", "retraction"] == struck
    lines = [e for e in root.iter() if e.tag.endswith("polyline") and e.get("stroke") == "#1f77b4"]
    # The steps of the watermark, and the mark of the legend.
    assert [11, 2] == [len(line.get("points", "").split()) for line in lines]


def test_a_recording_is_drawn_like_the_run_and_always_as_the_same_bytes(draw: Command, tmp_path: pathlib.Path) -> None:
    """As SVG and as PNG."""
    names = [tmp_path / f"{name}.{suffix}" for name in "ab" for suffix in ("svg", "png")]
    first = draw(EXAMPLE, "--figure=13", "-o", names[0], "-o", names[1], "-o", tmp_path / "r.json")
    again = draw(tmp_path / "r.json", "-o", names[2], "-o", names[3])
    assert (0, 0) == (first.exit_code, again.exit_code)
    assert names[0].read_bytes() == names[2].read_bytes()
    assert names[1].read_bytes() == names[3].read_bytes()
    assert b"\x89PNG" == names[1].read_bytes()[:4]


TWO_KEYS = """
import penstock as beam
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, TimestampedValue

with beam.Pipeline() as p:
    stream = TestStream().add_elements([TimestampedValue((k, {"n": 1}), 1) for k in ("a", "b")])
    pairs = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10))
    pairs | "Group" >> beam.GroupByKey()
    pairs | "Count" >> beam.combiners.Count.PerKey()
"""

NO_SCRIPT = """
import penstock as beam

with beam.Pipeline() as p:
    p | "Numbers" >> beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
"""


@pytest.mark.parametrize(
    ("program", "arguments", "why"),
    [
        (TWO_KEYS, [], "the pipeline has several groupings: give one with --step. Groupings: 'Group', 'Count'"),
        (TWO_KEYS, ["--step=Cout"], "'Cout' is no grouping, so it has no panes to draw. Groupings: 'Group', 'Count'"),
        (TWO_KEYS, ["--step=Group"], 'the step has 2 keys: give one with --key. Keys: "a", "b"'),
        (TWO_KEYS, ["--step=Group", "--key=c"], 'Group: no element of the key \'c\'. Keys: "a", "b"'),
        (NO_SCRIPT, [], "this pipeline reads Numbers/Values: replace the source by a TestStream"),
        ("print('nothing')", [], "no pipeline was run, so there is none to draw"),
    ],
)
def test_what_can_not_be_drawn_is_named(
    program: str, arguments: list[str], why: str, draw: Command, tmp_path: pathlib.Path
) -> None:
    """And nothing is written."""
    (tmp_path / "program.py").write_text(program)
    ran = draw(tmp_path / "program.py", *arguments, "-o", tmp_path / "a.svg")
    assert (1, True) == (ran.exit_code, why in ran.output), ran.output
    assert not (tmp_path / "a.svg").exists()


def test_a_step_and_key_are_chosen(draw: Command, tmp_path: pathlib.Path) -> None:
    """A long value stands beside its dot."""
    (tmp_path / "program.py").write_text(TWO_KEYS)
    ran = draw(tmp_path / "program.py", "--step=Count", "--key=b", "-o", tmp_path / "a.svg")
    assert 0 == ran.exit_code, ran.output
    assert "<title>Count, key b</title>" in (tmp_path / "a.svg").read_text()
    assert ">n: 1</text>" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[1]", "expected a recording of panes as JSON"),
        (b'{"format": "penstock panes", "version": 9}', "expected a recording of panes, version 1"),
        (b'{"format": "penstock panes", "version": 1, "step": 4, "key": 1}', "Expected `str`, got `int`"),
        (b"\xff\xfe", "expected a recording of panes as JSON"),
    ],
)
def test_a_file_that_is_no_recording_is_named(content: bytes, why: str, draw: Command, tmp_path: pathlib.Path) -> None:
    """With what was expected."""
    (tmp_path / "r.json").write_bytes(content)
    ran = draw(tmp_path / "r.json", "-o", tmp_path / "a.svg")
    assert (1, True, True) == (ran.exit_code, why in ran.output, "r.json" in ran.output), ran.output


PAGE = {
    "why": "",
    "step": "Sum",
    "key": "",
    "now": 9_000_000,
    "inputs": [
        {"key": "'a'", "value": "5", "timestamp": 1_000_000, "at": 3_000_000, "sign": 1},
        {"key": "'a'", "value": "9", "timestamp": 2_000_000, "at": 8_000_000, "sign": 1},
        {"key": "'b'", "value": "1", "timestamp": 2_000_000, "at": 8_000_000, "sign": 1},
    ],
    "panes": [
        {"key": "'a'", "value": "5", "start": 0, "end": 4_000_000, "timing": "ON_TIME", "number": 0, "sign": 1,
         "at": 6_000_000, "watermark": 4_000_000},
        {"key": "'a'", "value": "5", "start": 0, "end": 4_000_000, "timing": "ON_TIME", "number": 0, "sign": -1,
         "at": 8_000_000, "watermark": 4_000_000},
        {"key": "'a'", "value": "14", "start": 0, "end": 4_000_000, "timing": "LATE", "number": 1, "sign": 1,
         "at": 8_000_000, "watermark": 4_000_000},
    ],
    "watermarks": [[6_000_000, 4_000_000]],
}  # fmt: skip


def test_the_document_of_a_running_jobs_page_is_drawn(draw: Command, tmp_path: pathlib.Path) -> None:
    """Of one of its keys; the late element and the retraction are marked."""
    (tmp_path / "run.json").write_text(json.dumps(PAGE))

    ran = draw(tmp_path / "run.json", "--key=a", "-o", tmp_path / "a.json", "-o", tmp_path / "a.svg")

    assert 0 == ran.exit_code, ran.output
    found = json.loads((tmp_path / "a.json").read_text())
    assert [("5", False), ("9", True)] == [(e["value"], e["is_late"]) for e in found["elements"]]
    assert ["5", "5", "14"] == [pane["value"] for pane in found["panes"]]
    assert [{"processing_time": 6_000_000, "event_time": 4_000_000}] == found["watermark"]
    assert 'text-decoration="line-through">5</text>' in (tmp_path / "a.svg").read_text()
    refused = draw(tmp_path / "run.json", "-o", tmp_path / "b.svg")
    assert (1, True) == (refused.exit_code, "2 keys: choose one with --key. Keys: 'a', 'b'" in refused.output)


AFTER_ANOTHER = NO_SCRIPT + TWO_KEYS


def test_the_first_pipeline_with_a_script_is_drawn(draw: Command, tmp_path: pathlib.Path) -> None:
    """One before it runs as usual."""
    (tmp_path / "program.py").write_text(AFTER_ANOTHER)
    ran = draw(tmp_path / "program.py", "--step=Count", "--key=a", "-o", tmp_path / "a.svg")
    assert (0, True) == (ran.exit_code, (tmp_path / "a.svg").exists()), ran.output


def test_a_file_that_can_not_be_written_is_named(draw: Command, tmp_path: pathlib.Path) -> None:
    """As the system says it."""
    ran = draw(EXAMPLE, "-o", tmp_path / "none" / "a.svg")
    assert 1 == ran.exit_code
    assert f"{tmp_path}/none/a.svg can't be written: No such file or directory" in ran.output


def test_another_format_is_refused(draw: Command, tmp_path: pathlib.Path) -> None:
    """By the name of the file."""
    ran = draw(EXAMPLE, "-o", tmp_path / "a.pdf")
    assert (2, True) == (ran.exit_code, "expected a name that ends with .svg, .png, .json" in ran.output)
