"""`penstock simulate`: a program's pipelines, run under many seeds with simulated failures."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from ..sdk.errors import OptionsError, PenstockError, SimulationError
from ..sdk.runner import DEFAULT_RUNNER, create_runner
from .short_errors import short_message

if TYPE_CHECKING:
    from ..sdk.graph import Graph
    from ..sdk.runner import PipelineSimulation

MODES = ("aligned", "unaligned")
DELIVERIES = ("barriers", "strong", "weak")
RECOVERIES = ("graph", "region")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="The number of seeds.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--seed", type=int, help="Run this seed only.")
@click.option("--trace", is_flag=True, help="With --seed: print each event.")
@click.option("--pipeline", "only", type=click.IntRange(min=1), help="Simulate only this one of several pipelines.")
@click.option("--checkpoint_mode", "mode", type=click.Choice(MODES), help="How barriers align. Default: by seed.")
@click.option("--delivery", type=click.Choice(DELIVERIES), default="barriers", help="The mechanism of exactly once.")
@click.option("--recovery", type=click.Choice(RECOVERIES), default="graph", help="Tasks to restart after a failure.")
@click.option("--parallelism", type=click.IntRange(min=1), help="Subtasks of each task. Default: by seed.")
@click.option("--beam", is_flag=True, help="The program imports apache_beam: import penstock instead.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def simulate(
    file: str,
    arguments: tuple[str, ...],
    seeds: int,
    first: int,
    seed: int | None,
    trace: bool,
    only: int | None,
    mode: str | None,
    delivery: str,
    recovery: str,
    parallelism: int | None,
    beam: bool,
) -> None:
    """Simulate the pipelines of a Python file under many seeds.

    Workers crash between any two steps, or all processes crash at once; disks tear files, fail, or are slow.  The
    results are compared with those of a run without failures.  Sources must end.  Sinks are replaced, so no output is
    written.  Functions are really called, for each seed.
    Exits with status 1 at the first seed that fails.
    """
    from .drawn_graphs import graphs_of

    graphs, error = graphs_of(file, arguments, beam)
    if error is not None:
        click.echo(short_message(error), err=True)
    if not graphs:
        click.echo(f"{file}: no pipeline was run, so there is none to simulate", err=True)
        sys.exit(1)
    chosen = _chosen(file, graphs, only)
    runner = create_runner(DEFAULT_RUNNER)
    settings = {"mode": mode, "parallelism": parallelism, "delivery": delivery, "recovery": recovery}
    tried = [first + i for i in range(seeds)] if seed is None else [seed]
    click.echo(
        "Sinks are simulated, but side effects of functions are real: writes, requests and deletions happen for each "
        "seed, and again after each simulated failure",
        err=True,
    )
    for number in chosen:
        try:
            simulation = runner.simulation(graphs[number - 1], **settings)
            _tell_what_is_not_compared(simulation)
            _simulate(simulation, tried, f"pipeline {number} of {len(graphs)}", trace and seed is not None)
        except SimulationError as failure:
            _show(failure, trace)
            again = ["penstock", "simulate", file, *arguments, f"--seed={failure.seed}", f"--pipeline={number}"]
            again += [f"--checkpoint_mode={mode}"] if mode else []
            again += [f"--delivery={delivery}"] if delivery != "barriers" else []
            again += [f"--recovery={recovery}"] if recovery != "graph" else []
            again += [f"--parallelism={parallelism}"] if parallelism else []
            click.echo(f"Reproduce it by: {' '.join(again)} --trace", err=True)
            if labels := _not_repeatable(graphs[number - 1]):
                click.echo(
                    f"This may be a false alarm: {', '.join(labels)} may return other elements when it is read again, "
                    "such as times of reading, and a simulation compares results. Give it its own timestamps, "
                    "such as GenerateSequence has with start_time, or read a ScriptedSource here",
                    err=True,
                )
            sys.exit(1)
        except OptionsError as refused:
            raise click.UsageError(str(refused)) from None
        except PenstockError as unable:
            click.echo(short_message(unable), err=True)
            sys.exit(1)


def _tell_what_is_not_compared(simulation: PipelineSimulation) -> None:
    """Warn of outputs whose elements are all None, for which only number and times are compared."""
    for label, rows in simulation.expected.items():
        # The value is the first item of a row.
        if rows and all(isinstance(row, tuple) and row[0] is None for row in rows):
            click.echo(
                f"{label}: all elements are None, so only their number and timestamps are compared; simulate a "
                "pipeline that ends before this transform, or in a sink",
                err=True,
            )


def _not_repeatable(graph: Graph) -> list[str]:
    """Return the labels of the sources that aren't repeatable."""
    reads = [(read.label, read.primitive) for read in graph.unbounded_reads()]
    return [label for label, primitive in reads if not getattr(getattr(primitive, "source", None), "repeatable", True)]


def _chosen(file: str, graphs: list[Graph], only: int | None) -> list[int]:
    """Return the numbers of the pipelines to simulate, from 1 on."""
    if only is None:
        return [number for number, _ in enumerate(graphs, 1)]
    if only > len(graphs):
        click.echo(f"{file}: --pipeline={only}, but there are {len(graphs)}", err=True)
        sys.exit(1)
    return [only]


def _simulate(simulation: PipelineSimulation, seeds: list[int], name: str, trace: bool) -> None:
    """Run all seeds, with a progress bar on a terminal, and print a summary."""
    totals: Counter[str] = Counter()
    began = time.monotonic()
    with click.progressbar(seeds, label=name, file=sys.stderr, hidden=not sys.stderr.isatty()) as shown:
        for seed in shown:
            simulated = simulation.run(seed)
            totals.update(
                starts=simulated.starts,
                checkpoints=simulated.checkpoints,
                faults=simulated.harm,
                steps=simulated.steps,
            )
            if trace:
                click.echo("\n".join(simulated.trace))
    counted = ", ".join(f"{count} {what}" for what, count in totals.items())
    many = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    click.echo(f"{name}: {many} in {time.monotonic() - began:.1f} s: {counted}")


def _show(failure: SimulationError, trace: bool) -> None:
    if trace:
        click.echo("\n".join(failure.trace))
    click.echo(f"It failed: {failure}", err=True)
