"""The page of runs on Spark, in batch and in micro-batches, in a real browser where there is one."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from servers.browser import Browser, running_browser, save_screenshot, why_there_is_no_browser
from support.programs.running_program import wait_until
from support.runners.running_pages import ask, document, post, printed_page, retracting_sums

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

pytestmark = pytest.mark.spark

VIEWS = ["steps", "event-time", "checkpoints", "errors", "logs", "profile", "graph"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for both tests."""
    if (why := why_there_is_no_browser()) is not None:
        pytest.skip(why)
    with running_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


def click_through(browser: Browser, url: str) -> None:
    """Show every view, without an error."""
    browser.open(url)
    browser.wait_until(lambda: "running" in browser.find("#state").text, "the state")
    for view in VIEWS:
        browser.find(f"#tab-{view}").click()
        shown = "return document.body.dataset.shown"
        browser.wait_until(lambda view=view: browser.driver.execute_script(shown) == view, view)  # type: ignore[misc]
    assert "" == "\n".join(browser.violations())
    assert [] == browser.errors()


def steps_of(browser: Browser) -> str:
    """The text of the table of steps."""
    browser.find("#tab-steps").click()
    return str(browser.find("#view-steps").text)


def taken_profile(page: Any) -> list[list[str]]:
    """The stacks of a profile of a second."""
    number = post(page, "/api/profiles", {"seconds": 1}).json["number"]

    def stacks() -> list[list[str]]:
        found = {each["number"]: each["stacks"] for each in document(page, "profiles")["profiles"]}
        return [stack.split("\n") for stack in found.get(number, ())]

    wait_until(stacks, "the profile")
    return stacks()


def test_a_batch_on_spark_has_a_page(
    spark: Any, browser: Browser, capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    """Counts, time and stacks of the finished tasks; panes are refused by name."""
    seen = tmp_path / "seen"

    def slow(n: int) -> int:
        # Until all was seen, however long that takes.
        if not seen.exists():
            time.sleep(0.03)
        return n

    def run() -> None:
        with beam.Pipeline(runner="spark-batch", options=PipelineOptions(ui_port=0, spark_shuffle_partitions=2)) as p:
            steps: Any = p | beam.Create(range(200))
            for number in range(12):
                steps = steps | f"Slow {number}" >> beam.Map(slow) | f"Mix {number}" >> beam.Reshuffle()
            _ = steps | "Out" >> beam.Map(lambda n: n)

    running = threading.Thread(target=run)
    running.start()
    page = printed_page(capfd)
    click_through(browser, page.ui_url)
    wait_until(lambda: document(page, "status").get("seconds", {}).get("Slow 0", 0) > 0.1, "time of a step")
    # The first of the two tasks may be done long before the second one.
    wait_until(lambda: document(page, "status")["read"].get("Slow 0") == 200, "both tasks of a step")
    assert "--runner=spark-microbatch only" in document(page, "panes")["why"]
    unmeasured = document(page, "status")["unmeasured"]
    assert "not measured by --runner=spark-batch" == unmeasured["hot_keys"]
    assert "so nothing waits" in unmeasured["backlogs"]
    wait_until(lambda: document(page, "status").get("shuffle_rates"), "rates of shuffles")
    wait_until(lambda: document(page, "status")["shuffles"]["Mix 0/Group"][0] == 200, "all elements of a shuffle")
    status, graph = document(page, "status"), document(page, "graph")
    labels = [transform["label"] for transform in graph["transforms"]]
    edges = {labels[edge["target"]]: str(edge["pcollection"]) for edge in graph["edges"]}
    assert 200 == status["shuffles"]["Mix 0/Group"][0] < status["shuffles"]["Mix 0/Group"][1]
    assert 200 == status["traffic"][edges["Mix 0/AddRandomKeys"]][0]
    wait_until(lambda: edges["Slow 1"] in document(page, "status")["estimated"], "the next tasks")
    assert ["elements", "bytes"] == document(page, "status")["estimated"][edges["Slow 1"]]
    save_screenshot(browser, "spark_batch")
    profile = taken_profile(page)
    assert any("\nslow (test_on_spark.py:" in "\n".join(stack) for stack in profile if stack[1].startswith("Slow "))
    assert 409 == post(page, "/api/requests/savepoint").status
    assert ["cancel"] == document(page, "run")["requests"]
    seen.touch()
    running.join(120)
    assert not running.is_alive()


def test_micro_batches_have_a_page(spark: Any, browser: Browser, tmp_path: pathlib.Path) -> None:
    """Batches as checkpoints, with their parts; the run is drained from the page; its log shows it afterwards."""
    directory = tmp_path / "kept"
    flags = {"ui_port": 0, "checkpoint_dir": str(directory), "spark_shuffle_partitions": 2}
    p = beam.Pipeline(runner="spark-microbatch", options=PipelineOptions(**flags))
    retracting_sums(p)
    result: Any = p.run()
    try:
        wait_until(lambda: len(document(result, "checkpoints")["checkpoints"]) > 1, "two batches")
        click_through(browser, result.ui_url)
        wait_until(lambda: document(result, "status")["seconds"].get("Busy", 0) > 0, "time of a step")
        status = document(result, "status")
        assert {2} == {len(own) for own in status["subtasks"]}

        def hottest() -> list[Any]:
            """One key of a bundle is counted, so it takes some batches until they are in order."""
            return [key for key, _ in document(result, "status").get("hot_keys", {}).get("Sum", {}).get("keys", ())]

        wait_until(lambda: hottest() == ["'often'", "'seldom'"], "the hottest keys")
        status = document(result, "status")
        assert status["kept"]["Sum"] > 0
        assert any(size > 0 for size in status["state_size"].values())
        assert {"backlogs"} == set(status["unmeasured"])
        wait_until(lambda: "'often'" in steps_of(browser), "the hottest key in the table")
        profile = taken_profile(result)
        assert {"subtask 0", "subtask 1"} >= {stack[0] for stack in profile}
        assert any("\nBusy\nbusy (running_pages.py:" in "\n".join(stack) for stack in profile)
        drawn = "/api/panes?step=Sum&key='often'"
        found: list[Any] = []

        def has_retractions() -> bool:
            found.append(ask(result.ui_url, drawn).json)
            return any(pane["sign"] < 0 for pane in found[-1]["panes"])

        wait_until(has_retractions, "retracted panes")
        assert ("", {"'often'"}) == (found[-1]["why"], {each["key"] for each in found[-1]["panes"]})
        assert found[-1]["watermarks"]
        (first, *_) = document(result, "checkpoints")["checkpoints"]
        assert ("batch", 2 * len(document(result, "graph")["tasks"])) == (first["checkpoint"], len(first["parts"]))
        assert post(result, "/api/requests/drain").json["is_done"]
        assert "DRAINED" == result.wait_until_finish(120_000)
    finally:
        if result.state == "RUNNING":
            result.cancel()
    assert (directory / "events.jsonl").read_text().splitlines()[-1].count("DRAINED")
    with pytest.raises(OSError):
        ask(result.ui_url, "/api/run")
