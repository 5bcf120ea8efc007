"""`python tests/ui/pictures.py docs` takes the pictures of docs/ui.md, of a pipeline that runs, in a real browser.

Pillow reduces them to 64 colours, where it is installed.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from servers.browser import Browser, running_browser

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

# The errors show where user code is.
_PROGRAM = """
import logging
import pathlib
import time

import penstock as beam
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark

log = logging.getLogger("sums")
marker = pathlib.Path(__file__).with_name("has-failed")


def parse(number):
    until = time.perf_counter() + 0.01
    while time.perf_counter() < until:
        pass
    return number


def is_wanted(number):
    if number % 50 == 0:
        log.warning("%d numbers", number)
    if number == 120 and not marker.exists():
        marker.touch()
        raise ValueError("this number can't be summed")
    return number % 3 != 2


def with_key(number):
    return "often" if number % 4 else "seldom", number % 10


def build(p):
    numbers = p | "Read" >> beam.io.GenerateSequence(0, 1_000_000, 60, 1, partitions=2)
    wanted = numbers | "Parse" >> beam.Map(parse) | "Wanted" >> beam.Filter(is_wanted)
    windows = beam.WindowInto(
        beam.window.FixedWindows(4),
        trigger=AfterWatermark(early=AfterProcessingTime(1.5)),
        accumulation_mode=AccumulationMode.RETRACTING,
    )
    sums = wanted | "Key" >> beam.Map(with_key) | windows | "Sum" >> beam.CombinePerKey(sum)
    sums | "Text" >> beam.MapTuple(lambda key, total: f"{key}: {total}")
"""


def show(browser: Browser, view: str, holds: Any = lambda: True) -> None:
    """Show a view, and wait for its content."""
    browser.find(f"#tab-{view}").click()
    browser.wait_until(
        lambda: browser.driver.execute_script("return document.body.dataset.shown") == view and holds(), view
    )
    time.sleep(1.5)


def take(browser: Browser, result: Any, directory: pathlib.Path) -> None:
    """Take the pictures."""

    def picture(name: str) -> None:
        path = directory / f"ui_{name}.png"
        browser.screenshot(path)
        _reduce(path)

    browser.resize(1280, 800)
    browser.open(result.ui_url)
    browser.wait_until(lambda: all("B/s" in text for text in browser.texts(".edge text")), "rates of all edges")
    show(browser, "event-time", lambda: browser.texts("svg.drawing .retracted"))
    time.sleep(14)
    picture("event_time")
    show(browser, "graph")
    picture("graph")
    show(browser, "steps", lambda: any("'often'" in text for text in browser.texts("#view-steps td")))
    picture("steps")
    show(browser, "checkpoints", lambda: browser.find("#view-checkpoints tbody button"))
    browser.find("#view-checkpoints tbody button").click()
    time.sleep(1)
    browser.driver.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    picture("checkpoints")
    browser.driver.execute_script("window.scrollTo(0, 0)")
    show(browser, "errors", lambda: "can't be summed" in browser.text)
    picture("errors")
    show(browser, "logs", lambda: "numbers" in browser.text)
    picture("logs")
    show(browser, "profile")
    browser.find("#token").send_keys(result.ui_token)
    browser.find("#view-profile input").clear()
    browser.find("#view-profile input").send_keys("2")
    browser.find("#view-profile form button").click()
    browser.wait_until(lambda: "parse (sums.py" in browser.text, "the flame graph")
    picture("profile")
    browser.resize(400, 800)
    for view in ("graph", "steps", "event-time"):
        show(browser, view)
        browser.driver.execute_script(f"document.querySelector('#view-{view}').scrollIntoView()")
        picture(f"{view.replace('-', '_')}_narrow")
    browser.resize(1280, 800)
    browser.in_dark()
    show(browser, "graph")
    picture("graph_dark")


def _reduce(path: pathlib.Path) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    Image.open(path).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def main(directory: pathlib.Path) -> None:
    """Run the pipeline and the browser."""
    with tempfile.TemporaryDirectory(prefix="sums-") as place:
        program = pathlib.Path(place) / "sums.py"
        program.write_text(_PROGRAM)
        sys.path.insert(0, place)
        import sums  # type: ignore[import-not-found]

        flags = {"parallelism": 2, "checkpoint_dir": f"{place}/kept", "checkpoint_interval": 2, "ui_port": 0}
        p = beam.Pipeline(options=PipelineOptions(**flags))
        sums.build(p)
        result: Any = p.run()
        try:
            with running_browser(pathlib.Path(place)) as browser:
                take(browser, result, directory)
        finally:
            result.cancel()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
