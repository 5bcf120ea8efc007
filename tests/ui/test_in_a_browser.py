"""The page in a real browser: every view while a pipeline runs, with axe-core, by keyboard, light and dark.

With `PENSTOCK_SCREENSHOTS=DIR` the views are saved there as PNGs.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from servers.browser import Browser, running_browser, save_screenshot, why_there_is_no_browser
from support.programs.running_program import wait_until
from support.runners.running_pages import busy, document, post, printed_page, retracting_sums, running

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

pytestmark = pytest.mark.skipif(why_there_is_no_browser() is not None, reason=str(why_there_is_no_browser()))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with running_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


def show(browser: Browser, view: str) -> None:
    """Click on the tab of a view, and wait until the view has its content."""
    browser.find(f"#tab-{view}").click()
    browser.wait_until(
        lambda: browser.driver.execute_script("return document.body.dataset.shown") == view, f"the view {view}"
    )


def failing_once(marker: pathlib.Path) -> Any:
    """Return a pipeline of retracting sums whose function fails once."""

    def fail_once(number: int) -> int:
        if number == 150 and not marker.exists():
            marker.touch()
            raise ValueError("this number is refused once")
        return number

    def build(p: beam.Pipeline) -> None:
        retracting_sums(p)
        numbers = p | "Read again" >> beam.io.GenerateSequence(0, None, 100, 1)
        _ = numbers | "Check" >> beam.Map(fail_once) | "Forget" >> beam.Map(lambda n: n)

    return build


def test_every_view_shows_a_stream_with_two_workers(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Each has its content, is accessible, and logs no error; some narrow or dark; a click takes a savepoint."""
    with running(tmp_path, failing_once(tmp_path / "failed"), parallelism=2) as result:
        browser.open(result.ui_url)
        browser.wait_until(lambda: "running" in browser.find("#state").text, "the state")
        browser.wait_until(lambda: all("B/s" in text for text in browser.texts(".edge text")), "rates of all edges")
        browser.wait_until(lambda: any("≈" in text.partition("/s")[0] for text in browser.texts(".edge text")), "≈")
        overlapping = browser.driver.execute_script(_OVERLAPPING)
        assert [] == overlapping
        browser.wait_until(lambda: any("%" in text for text in browser.texts(".node .share")), "shares of time")
        assert "" == _violations(browser, "graph")

        show(browser, "steps")
        browser.wait_until(lambda: "'often'" in browser.text, "the hottest key")
        assert "" == _violations(browser, "steps")

        def is_the_hottest() -> bool:
            # One key of a bundle is counted, and after the restart it takes some bundles until they are in order.
            hot = document(result, "status").get("hot_keys", {}).get("Sum", {}).get("keys", ())
            has_restarted = any(each["kind"] == "restart" for each in document(result, "errors")["timeline"])
            return has_restarted and [key for key, _ in hot[:1]] == ["'often'"]

        wait_until(is_the_hottest, "the restart, and the order of the keys")

        show(browser, "event-time")
        browser.wait_until(lambda: browser.texts("svg.drawing .pane"), "panes")
        browser.wait_until(lambda: browser.texts("svg.drawing .retracted"), "retractions")
        browser.wait_until(lambda: browser.texts("svg.drawing .watermark"), "the watermark")
        assert "'often'" == browser.find("#view-event-time input").get_property("value")
        assert "" == _violations(browser, "event-time")

        browser.in_dark()
        for view in ("event-time", "graph", "steps"):
            show(browser, view)
            assert "" == _violations(browser, f"{view}_dark")
        browser.in_dark(False)

        show(browser, "checkpoints")
        browser.wait_until(lambda: browser.find("#view-checkpoints tbody button"), "a checkpoint").click()
        browser.wait_until(lambda: "Parts of checkpoint" in browser.text, "its parts")
        assert "" == _violations(browser, "checkpoints")

        show(browser, "errors")
        browser.wait_until(lambda: "this number is refused once" in browser.text, "the error")
        assert "fail_once" in browser.text
        assert "The run failed, and restarted" in browser.text
        assert "" == _violations(browser, "errors")

        show(browser, "logs")
        browser.wait_until(lambda: "restarts in" in browser.text, "the warning of the restart")
        assert "" == _violations(browser, "logs")

        show(browser, "profile")
        browser.find("#token").send_keys(result.ui_token)
        seconds = browser.find("#view-profile input")
        seconds.clear()
        seconds.send_keys("1")
        browser.find("#view-profile form button").click()
        browser.wait_until(lambda: "busy (running_pages.py" in browser.text, "the flame graph")
        assert "" == _violations(browser, "profile")

        browser.find("[data-kind=savepoint]").click()
        browser.wait_until(lambda: "savepoint of epoch" in browser.find("#answer").text, "the savepoint")

        browser.resize(400, 900)
        for view in ("graph", "steps", "event-time"):
            show(browser, view)
            # Hundreds of panes, each of them a row, would take the check half a minute.
            assert view == "event-time" or "" == _violations(browser, f"{view}_narrow")
            beyond = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
            assert 0 >= beyond, f"{view}: {beyond} pixels are beyond the window"
            if view == "graph":
                seen = browser.driver.execute_script(
                    "const frame = document.querySelector('svg.pipeline').getBoundingClientRect();"
                    "const box = document.querySelector('.node').getBoundingClientRect();"
                    "return frame.left <= box.left && box.right <= frame.right"
                )
                assert seen, "the first step is not in view"
        browser.resize(1280, 900)
        assert [] == browser.errors()


# The texts of edges that lie over each other.
_OVERLAPPING = """
    const texts = [...document.querySelectorAll(".edge text")];
    const found = texts.map(each => [each.textContent, each.getBoundingClientRect()]);
    const over = ([, a], [, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return found.flatMap((a, i) => found.slice(i + 1).filter(b => over(a, b)).map(b => [a[0], b[0]]));
"""


def _violations(browser: Browser, name: str) -> str:
    save_screenshot(browser, name)
    return "\n".join(browser.violations())


def test_the_steps_of_a_run_in_batch_show_partitions_and_workers(
    browser: Browser, capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    """With what isn't measured, and a button that cancels; the page of a stream has no such tables."""

    def run() -> None:
        with beam.Pipeline(options=PipelineOptions(ui_port=0, parallelism=2)) as p:
            pairs = p | beam.Create(range(1_000_000), reshuffle=False) | "Busy" >> beam.Map(lambda n: (busy(n) % 3, n))
            _ = pairs | "Group" >> beam.GroupByKey() | "Out" >> beam.Map(len)

    running = threading.Thread(target=run)
    running.start()
    page = printed_page(capfd)

    def partitions() -> list[int]:
        text = browser.find("#view-steps").text
        lines = (line for line in text.splitlines() if line.startswith("Create/Values → Busy → Group "))
        return [int(number) for number in next(lines, "").split()[-3:]]

    try:
        browser.open(page.ui_url)
        browser.wait_until(lambda: "running" in browser.find("#state").text, "the state")
        show(browser, "steps")
        browser.wait_until(lambda: partitions()[1:2] >= [2], "work of both workers")
        assert (0, 16) == (partitions()[0], sum(partitions()))
        text = browser.find("#view-steps").text
        assert "worker 0" in text
        assert "worker 1" in text
        assert "watermark lag, state: a run in batch doesn't measure it." in text
        save_screenshot(browser, "batch_steps")
        assert [] == browser.errors()
    finally:
        post(page, "/api/requests/cancel")
        running.join(60)
    assert not running.is_alive()


def test_the_page_is_used_by_keyboard_alone(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Arrow keys go through the tabs and the steps; Enter chooses a step."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(browser.driver).send_keys(*keys).perform()

    def focused(name: str) -> str:
        return str(browser.driver.execute_script(f"return document.activeElement.getAttribute({name!r}) ?? ''"))

    with running(tmp_path) as result:
        browser.open(result.ui_url)
        browser.wait_until(lambda: browser.texts(".node"), "the graph")
        browser.driver.execute_script("document.querySelector('#tab-graph').focus()")
        press(Keys.ARROW_RIGHT)
        browser.wait_until(lambda: focused("id") == "tab-steps", "the next tab")
        press(Keys.END)
        browser.wait_until(lambda: focused("id") == "tab-profile", "the last tab")
        press(Keys.HOME)
        browser.wait_until(lambda: focused("id") == "tab-graph", "the first tab")
        browser.driver.execute_script("document.querySelector('svg.pipeline').focus()")
        press(Keys.ARROW_DOWN)
        browser.wait_until(lambda: focused("aria-label").startswith("Busy, ParDo"), "the second step")
        press(Keys.ENTER)
        browser.wait_until(lambda: "Busy" in browser.texts("aside h2"), "the chosen step")
        scale = "return document.querySelector('svg.pipeline > g').getAttribute('transform').split(' ').at(-1)"
        before = browser.driver.execute_script(scale)
        press("+")
        browser.wait_until(lambda: browser.driver.execute_script(scale) != before, "the zoom")
        zoomed = browser.driver.execute_script(scale)
        resized = "new ResizeObserver(() => (window.seen = true)).observe(document.querySelector('svg.pipeline'))"
        browser.driver.execute_script(resized)
        browser.driver.execute_script("document.querySelector('svg.pipeline').style.width = '60%'; window.seen = false")
        browser.wait_until(lambda: browser.driver.execute_script("return window.seen"), "another width")
        assert zoomed == browser.driver.execute_script(scale)


def test_a_thousand_steps_are_readable(browser: Browser, tmp_path: pathlib.Path) -> None:
    """At first the text has its full size; a search goes to a step; all steps are in the table and on the map."""

    def build(p: beam.Pipeline) -> None:
        numbers = p | "Read" >> beam.io.GenerateSequence(0, None, 20, 1)
        for chain in range(20):
            steps = numbers
            for step in range(50):
                steps = steps | f"Chain {chain}/Step {step}" >> beam.Map(lambda n: n)

    with running(tmp_path, build, checkpoint_interval=5) as result:
        browser.open(result.ui_url)
        browser.wait_until(lambda: 1001 == len(browser.texts(".node")), "all steps")
        search = browser.find("#view-graph input")
        search.send_keys("Chain 17/Step 42\n")
        browser.wait_until(lambda: "Chain 17/Step 42" in browser.texts("aside h2"), "the step")
        script = """
            const box = document.querySelector('.node.chosen text').getBoundingClientRect();
            const there = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            return [box.height, there !== null && there.closest('.graph') !== null];
        """
        browser.wait_until(lambda: browser.driver.execute_script(script)[1], "the step in the middle")
        assert browser.driver.execute_script(script)[0] >= 9
        assert "null" not in browser.text
        save_screenshot(browser, "thousand")
        show(browser, "steps")
        browser.wait_until(
            lambda: 1001 == len(browser.texts("#view-steps tbody:first-of-type tr th[scope=row]")), "rows"
        )
        assert [] == browser.errors()
