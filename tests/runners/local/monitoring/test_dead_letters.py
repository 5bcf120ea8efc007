"""Dead letters of a running stream, by step: in Prometheus, and on its page."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.programs.running_program import wait_until
from support.runners.running_pages import document

import penstock as beam
from penstock.io.requestresponse import UserCodeExecutionException
from penstock.metrics import MetricsFilter
from penstock.options.pipeline_options import PipelineOptions
from penstock.transforms.enrichment import Enrichment, EnrichmentSourceHandler

from .test_prometheus import page


class Names(EnrichmentSourceHandler[Any, Any]):
    """Knows the names of even numbers."""

    async def __call__(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request % 2:
            raise UserCodeExecutionException("odd")
        return request, str(request)


def build(p: beam.Pipeline, url: str, directory: pathlib.Path) -> None:
    """Refuse 20 of 40 numbers by a call, 30 by Redis, 10 by the names of files, and 4 by a function."""
    numbers = p | "Read" >> beam.io.GenerateSequence(0, 40, 100, 1)
    enriched = Enrichment(Names(), lambda request, name: name, use_custom_types=True)
    _, odd = numbers | "Names" >> enriched.with_exception_handling()
    _, tenth = numbers | "Inverse" >> beam.Map(lambda n: 1 / (n % 10)).with_exception_handling()
    _ = (odd, tenth) | beam.Flatten() | "Forget" >> beam.Map(lambda letter: None)
    of_one_window = numbers | beam.WindowInto(beam.window.FixedWindows(1_000_000)) | beam.WithKeys(0)
    listed = of_one_window | beam.GroupByKey() | beam.FlatMap(lambda pair: pair[1])
    # Of the elements of one pane, those with one key differ at the same time.
    pairs = listed | beam.Map(lambda n: ("same" if n % 4 else str(n), n))
    _ = pairs | "Save" >> beam.io.WriteToRedis(url, f"{directory.name}:")
    lines = listed | beam.Map(lambda n: f"{'x' * 300 if n % 4 == 0 else 'even'} {n}")
    naming = beam.io.fileio.WriteToFiles(str(directory / "out"), destination=lambda line: line.split()[0])
    _ = lines | "Files" >> naming


@pytest.mark.parametrize("delivery", [{}, {"delivery": "strong"}, {"parallelism": 2}], ids=repr)
def test_dead_letters_of_sinks_and_calls_are_counted_by_step(
    delivery: Any, redis_server: Any, tmp_path: pathlib.Path
) -> None:
    """While the job runs: of functions and calls at once, of sinks with the commit."""
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.2, "on_commit_error": "dead_letter"}
    p = beam.Pipeline(options=PipelineOptions(**flags, metrics_port=0, ui_port=0, **delivery))
    build(p, redis_server.url, tmp_path)
    # Keeps the job running.
    _ = p | "Go on" >> beam.io.GenerateSequence(0, None, 5, 1) | beam.Map(lambda n: n)
    result: Any = p.run()
    expected = {"Names": 20, "Inverse": 4, "Save": 30, "Files": 10}

    def in_prometheus() -> dict[str, float]:
        found = page(result).items()
        return {name[-1].partition("/")[0]: n for name, n in found if name[:-1] == SAMPLE}

    def on_the_page() -> dict[str, int]:
        aside = document(result, "errors")["set_aside"]
        return {each["step"].partition("/")[0]: each["value"] for each in aside if each["name"] == "dead_letters"}

    try:
        wait_until(lambda: in_prometheus() == expected, "dead letters in Prometheus")
        wait_until(lambda: on_the_page() == expected, "dead letters on the page")
    finally:
        result.cancel()
    counters = result.metrics().query(MetricsFilter().with_name("dead_letters"))["counters"]
    assert expected == {each.key.step.partition("/")[0]: each.attempted for each in counters}


SAMPLE = ("penstock_user_counter", "dead_letters", "penstock")
