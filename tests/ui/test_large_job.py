"""The page of a job with 200 steps and 32 subtasks of each task, in a real browser."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from servers.browser import Browser, running_browser, why_there_is_no_browser
from support.runners.running_pages import running

import penstock as beam
from penstock.sdk.watermark_estimators import MonotonicWatermarkEstimator

pytestmark = pytest.mark.skipif(why_there_is_no_browser() is not None, reason=str(why_there_is_no_browser()))

STEPS, SUBTASKS, TASKS = 200, 32, 3

# Elements a second.
RATE = 2 * SUBTASKS

VIEWS = ("steps", "event-time", "errors", "logs", "profile", "checkpoints", "graph")

# The views that grow with the job; the others are checked in `test_in_a_browser.py`.
LARGE = {"steps", "checkpoints", "graph"}

# The longest time from a click until a view is shown, in milliseconds.  Alone it takes 300, but other tests run beside,
# and the machine may be slow: what is not shown at all is found, not what is a little slower.
PATIENCE = 15_000

_SHOWN = """
const [view, done] = arguments;
const began = performance.now();
delete document.body.dataset.shown;
document.querySelector(`#tab-${view}`).click();
const look = () => {
  if (document.body.dataset.shown === view) requestAnimationFrame(() => done(performance.now() - began));
  else requestAnimationFrame(look);
};
look();
"""


def build(p: beam.Pipeline) -> None:
    """Add 200 steps in three tasks, with two shuffles."""
    # Watermarks that move once a second: each goes to all subtasks, which kept both workers busy.
    times = {"timestamp_fn": lambda n: n // RATE, "watermark_estimator": MonotonicWatermarkEstimator.default_provider()}
    steps: Any = p | "Read" >> beam.io.GenerateSequence(0, None, RATE, 1, partitions=SUBTASKS, **times)
    for number in range(97):
        steps = steps | f"First {number}" >> beam.Map(lambda n: n)
    steps = steps | "Windows" >> beam.WindowInto(beam.window.FixedWindows(1))
    steps = steps | "Pairs" >> beam.Map(lambda n: (n % 100, n)) | "Sum" >> beam.CombinePerKey(sum)
    for number in range(97):
        steps = steps | f"Second {number}" >> beam.Map(lambda pair: pair)
    _ = steps | "All" >> beam.GroupByKey() | "Last" >> beam.Map(lambda pair: pair)


def height_of(browser: Browser, selector: str) -> float:
    """The height of an element on the screen, in pixels."""
    script = "return document.querySelector(arguments[0]).getBoundingClientRect().height"
    return float(browser.driver.execute_script(script, selector))


def overlapping_boxes(browser: Browser) -> list[str]:
    """The steps whose boxes in the graph overlap with others."""
    script = """
    const boxes = [...document.querySelectorAll(".node")].map((node) => [
      node.getAttribute("aria-label"), node.querySelector("rect").getBBox()]);
    return boxes.filter(([, a], i) => boxes.some(([, b], j) => i !== j && a.x < b.x + b.width
      && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)).map(([label]) => label)
    """
    return list(browser.driver.execute_script(script))


def test_a_job_with_200_steps_and_32_subtasks_is_shown(tmp_path: pathlib.Path) -> None:
    """Every view within a moment, accessible and without errors; the graph can be read, searched and zoomed."""
    flags = {"parallelism": SUBTASKS, "workers": 2, "checkpoint_interval": 3}
    # The browser first: a worker that is forked while it starts has its pipe, and the start would wait for the worker.
    with running_browser(tmp_path) as browser, running(tmp_path, build, **flags) as result:
        browser.open(result.ui_url)
        browser.wait_until(lambda: STEPS == len(browser.texts(".node")), "all steps")
        browser.wait_until(lambda: any("/s" in text for text in browser.texts(".edge text")), "rates of edges")
        assert [] == overlapping_boxes(browser)
        assert height_of(browser, ".node > text") >= 9

        browser.find("#view-graph input").send_keys("Second 90\n")
        browser.wait_until(lambda: "Second 90" in browser.texts("aside h2"), "the step")
        assert SUBTASKS == len(browser.texts("aside .loads li"))
        before = height_of(browser, ".node.chosen > text")
        zoom_in, zoom_out, fit = browser.driver.find_elements("css selector", "#view-graph .bar button")
        zoom_in.click()
        assert before * 1.2 < height_of(browser, ".node.chosen > text")
        zoom_out.click()
        assert before == pytest.approx(height_of(browser, ".node.chosen > text"), rel=0.05)
        fit.click()
        assert height_of(browser, "svg.pipeline > g") <= height_of(browser, "svg.pipeline")

        took = {}
        for view in VIEWS:
            took[view] = browser.driver.execute_async_script(_SHOWN, view)
            if view == "steps":
                browser.wait_until(
                    lambda: STEPS == len(browser.texts("#view-steps table:first-of-type tbody th")), "rows"
                )
            if view == "checkpoints":
                browser.wait_until(lambda: browser.find("#view-checkpoints tbody button"), "a checkpoint").click()
                parts = "#view-checkpoints div[aria-label=Parts] tbody tr"
                browser.wait_until(lambda parts=parts: TASKS * SUBTASKS == len(browser.texts(parts)), "its parts")  # type: ignore[misc]
            if directory := os.environ.get("PENSTOCK_SCREENSHOTS"):
                browser.screenshot(pathlib.Path(directory) / f"ui_large_{view}.png")
            if view in LARGE:
                assert "" == "\n".join(browser.violations()), view
        assert [] == [view for view, milliseconds in took.items() if milliseconds > PATIENCE]
        assert [] == browser.errors()
