"""`penstock draw`: panes in event time and processing time, as in the Dataflow paper's figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from ..sdk.drawing.panes import PaneRecording
from ..sdk.errors import PenstockError, UnsupportedError
from ..sdk.metrics import MetricResults, MetricsContainer
from ..sdk.pipeline import Pipeline
from ..sdk.runner import DEFAULT_RUNNER, FinishedResult, PipelineResult, create_runner
from .program import run_program
from .short_errors import ShortErrorsCommand, short_message, writing

SUFFIXES = (".svg", ".png", ".json")


@click.command(cls=ShortErrorsCommand, context_settings={"ignore_unknown_options": True})
@click.option("--step", help="The full label of the grouping. Default: the only one.")
@click.option("--key", help="The key, as JSON or as text. Default: the only one.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, by its name .svg, .png (extra draw) or .json, the recording. May be given several times.",
)
@click.option("--beam", is_flag=True, help="The program imports apache_beam: give it penstock instead.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def draw(
    file: str, arguments: tuple[str, ...], step: str | None, key: str | None, outputs: tuple[Path, ...], beam: bool
) -> None:
    """Draw the panes of a grouping as the Dataflow paper does.

    Event time is to the right, processing time upwards.

    FILE is a Python file, whose first pipeline with a TestStream is run and recorded; or a recording, as .json: of an
    earlier run, or the document /api/panes of a running job's page.
    Elements are dots, the watermark is a line, a pane is a rectangle that ends when it fires, and a retraction is
    struck out.
    """
    from ..sdk.drawing.figure import figure_of
    from ..sdk.drawing.render import to_png, to_svg

    for output in outputs:
        if output.suffix not in SUFFIXES:
            raise click.UsageError(f"--output {output}: expected a name that ends with {', '.join(SUFFIXES)}")
    if file.endswith(".json"):
        recording = PaneRecording.from_json(Path(file).read_bytes(), file, key)
    else:
        recording = _recorded(file, arguments, step, key, beam)
    for output in outputs:
        if output.suffix == ".json":
            content = recording.to_json() + b"\n"
        elif output.suffix == ".png":
            content = to_png(figure_of(recording))
        else:
            content = f"{to_svg(figure_of(recording))}\n".encode()
        with writing(output):
            output.write_bytes(content)


def _recorded(file: str, arguments: Sequence[str], step: str | None, key: str | None, beam: bool) -> PaneRecording:
    """Return the recording of the first pipeline of a program."""
    from ..runners.execution.inspection.recordings import recording_of_key

    error: Exception | None = None
    with _recorded_runs(step) as (runs, without), redirect_stdout(sys.stderr):
        try:
            run_program(file, arguments, beam)
        except SystemExit:
            if not runs:
                raise
        except Exception as raised:
            error = raised
    if isinstance(error, PenstockError) and not runs:
        raise error
    if error is not None:
        click.echo(short_message(error), err=True)
    if not runs and without:
        raise without[0]
    if not runs:
        click.echo(f"{file}: no pipeline was run, so there is none to draw", err=True)
        sys.exit(1)
    return recording_of_key(runs[0], key)


@contextmanager
def _recorded_runs(step: str | None) -> Iterator[tuple[list[list[PaneRecording]], list[UnsupportedError]]]:
    """Record each pipeline with a script that is run within the block; collect the refusals of the others."""
    recorder = create_runner(DEFAULT_RUNNER)
    runs: list[list[PaneRecording]] = []
    without: list[UnsupportedError] = []

    def run(self: Pipeline, *arguments: Any, **named: Any) -> PipelineResult:
        metrics = MetricsContainer()
        try:
            runs.append(recorder.recordings(self.graph(), self.options, step, metrics))
        except UnsupportedError as error:
            if self.graph().has_script:
                raise
            without.append(error)
            return real_run(self, *arguments, **named)
        return FinishedResult(MetricResults(metrics))

    real_run = Pipeline.run
    Pipeline.run = run  # type: ignore[method-assign]
    try:
        yield runs, without
    finally:
        Pipeline.run = real_run  # type: ignore[method-assign]
