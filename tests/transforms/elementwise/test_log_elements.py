"""LogElements."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import FixedWindows, GlobalWindows, TimestampedValue


def logged(capsys: pytest.CaptureFixture[str], transform: beam.PTransform, window_fn: Any = None) -> str:
    """Return the output for one element at 7 seconds."""
    with TestPipeline() as p:
        stamped = p | beam.Create([TimestampedValue("a", 7)])
        out = stamped | beam.WindowInto(window_fn or FixedWindows(10)) | transform
        assert_that(out, equal_to(["a"]))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "a"),
        ({"prefix": "saw "}, "saw a"),
        ({"with_timestamp": True}, "a, timestamp='1970-01-01T00:00:07Z'"),
        ({"with_timestamp": True, "use_epoch_time": True}, "a, timestamp=7"),
        ({"with_window": True}, "a, window(start=1970-01-01T00:00:00Z, end=1970-01-01T00:00:10Z)"),
        ({"with_window": True, "use_epoch_time": True}, "a, window(start=0, end=10)"),
        (
            {"prefix": "p", "with_timestamp": True, "with_window": True, "use_epoch_time": True},
            "pa, timestamp=7, window(start=0, end=10)",
        ),
    ],
)
def test_what_is_asked_for_is_printed(
    arguments: dict[str, Any], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Beam's form."""
    assert expected + "\n" == logged(capsys, beam.LogElements(**arguments))


def test_the_pane_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it."""
    line = logged(capsys, beam.LogElements(with_pane_info=True))
    assert line.startswith("a, pane_info=PaneInfo(first: True, last: True, timing: ")


def test_times_that_are_no_dates_are_printed_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the global window are beyond the calendar."""
    line = logged(capsys, beam.LogElements(with_window=True), GlobalWindows())
    assert "a, window(start=" in line


def test_with_a_level_it_is_logged_instead(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """At that level."""
    with caplog.at_level(logging.INFO):
        printed = logged(capsys, beam.LogElements(level=logging.WARNING))
    mine = [(r.levelno, r.getMessage()) for r in caplog.records if r.name.endswith("log_elements")]
    assert ([(logging.WARNING, "a")], "") == (mine, printed)


def test_the_label_is_the_first_argument() -> None:
    """As in Beam."""
    assert ["LogElements", "mine"] == [beam.LogElements().label, beam.LogElements("mine").label]
