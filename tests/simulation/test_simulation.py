"""The whole streaming runner under seeds: correct results, and one trace a seed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from simulation.matrix import CELLS, MEANINGLESS, REFUSED, Cell, folding, shares, tried
from simulation.negative_controls import (
    EndlesslyAwaitedWorkers,
    UnfencedWorkers,
    WorkersWithDuplicates,
    WorkersWithoutAlignment,
    WorkersWithoutFeedbackLog,
)
from simulation.prefixes import PREFIXES
from simulation.simulated_pipelines import PIPELINES

import penstock as beam
from penstock.runners.execution.shuffle.pre_aggregation import PreAggregation
from penstock.runners.local.channels.exchange import Exchange
from penstock.runners.local.channels.messages import Barrier, Message
from penstock.runners.local.simulation import world
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.runners.local.simulation.world import Faults
from penstock.runners.local.subtask.barriers import Barriers
from penstock.sdk.errors import PenstockError, SimulationError, UnsupportedError
from penstock.testing import TestStream, simulate_pipeline
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark
from penstock.windowing import FixedWindows, TimestampedValue

# Over all cells of the matrix; `make simulate` runs 10,000.
SEEDS = 75


def simulation_of(name: str, **settings: Any) -> Simulation:
    """Return the simulation of one of the seven pipelines, without the rule of its prefixes."""
    pipeline = beam.Pipeline()
    PIPELINES[name](pipeline)
    return Simulation(pipeline.graph(), SimulationSettings(**settings))


def failing(simulation: Simulation, seeds: range, enough: int = 3) -> list[str]:
    """Return the errors of the first `enough` failing seeds."""
    errors: list[str] = []
    for seed in seeds:
        try:
            simulation.run(seed)
        except SimulationError as error:
            errors.append(str(error))
            if len(errors) == enough:
                break
    return errors


@pytest.mark.parametrize("name", PIPELINES)
def test_many_seeds_lose_nothing_and_give_nothing_twice(name: str) -> None:
    """In each checkpoint mode and delivery, at any parallelism, with crashes, errors, hangs and duplicates.

    Each commit of aligned checkpoints publishes the results of a prefix, if the pipeline has a rule that tells it.
    """
    found = [tried(cell, seeds) for cell, seeds in shares(SEEDS).items() if cell.pipeline == name]
    happened = sum((each.totals for each in found), Counter[str]())

    assert [] == [failure for each in found for failure in each.failures]
    assert sum(each.seeds for each in found) >= 7
    assert happened["starts"] > 11
    if name not in ("join", "sessions_with_retractions", "transfers"):
        # Of these no grouping can be folded.
        assert 0 < happened["accumulators"] < happened["folded"]
    for kind in ("checkpoints", "deaths", "failures", "hangs", "zombies", "repetitions", "settings of the wall clock"):
        assert happened[kind] > 0, kind


def test_the_matrix_leaves_out_only_what_cannot_be() -> None:
    """Seven pipelines in six columns; the runner refuses two cells by name, and two others have no meaning."""
    assert 7 * 6 == len(CELLS) + len(REFUSED) + len(MEANINGLESS)
    assert {Cell("loop", "unaligned"), Cell("loop", "regions")} == REFUSED.keys()

    with pytest.raises(PenstockError, match="=unaligned: with the loop .* barriers have to be aligned"):
        Cell("loop", "unaligned").simulation()


def test_the_runner_refuses_what_the_simulation_refuses() -> None:
    """A loop with unaligned checkpoints."""
    pipeline = beam.Pipeline(argv=["--checkpoint_mode=unaligned", "--checkpoint_dir=unused"])
    PIPELINES["loop"](pipeline)

    with pytest.raises(PenstockError, match="=unaligned: with the loop .* barriers have to be aligned"):
        pipeline.run()


@pytest.mark.parametrize("column", ["aligned", "strong"])
def test_if_workers_that_were_given_up_are_believed_runs_fail(column: str) -> None:
    """A negative control: acknowledgements and productions of an earlier attempt."""
    zombies = Faults(deaths=4, hangs=2, zombies=8)
    simulation = Cell("windowed_sums", column).simulation(workers=UnfencedWorkers, faults=zombies)

    assert [] != failing(simulation, range(200), enough=1)


@pytest.mark.parametrize("column", ["aligned", "strong"])
def test_if_what_comes_twice_is_believed_twice_runs_fail(column: str) -> None:
    """A negative control: commands and reports that are duplicated and delayed."""
    simulation = Cell("windowed_sums", column).simulation(workers=UnfencedWorkers, faults=Faults(repeating=0.2))

    assert [] != failing(simulation, range(200), enough=1)


def test_if_deliveries_that_come_twice_are_taken_twice_results_are_wrong() -> None:
    """A negative control: no process dies, but the channel delivers some messages twice."""
    simulation = Cell("windowed_sums", "strong").simulation(workers=WorkersWithDuplicates, faults=Faults(repeating=0.2))

    (error,) = failing(simulation, range(200), enough=1)

    assert "in the end" in error or "too much" in error


def test_without_a_heartbeat_timeout_a_hung_worker_blocks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: some workers hang forever.  With a timeout runs end after ten seconds at most."""
    monkeypatch.setattr(world, "_LONGEST", 60_000_000)
    faults = Faults(hangs=3, stopped=0)
    simulation = Cell("join", "aligned").simulation(workers=EndlesslyAwaitedWorkers, faults=faults)

    (error,) = failing(simulation, range(200), enough=1)

    assert "the run has not ended" in error
    assert [] == failing(Cell("join", "aligned").simulation(faults=faults), range(8))


def test_without_faults_everything_comes_at_the_first_start() -> None:
    """Only what the user asks for, savepoints and cancellation, makes another start."""
    simulation = simulation_of("windowed_sums", faults=Faults())

    assert {0} == {simulation.run(seed).harm for seed in range(10)}


def test_without_alignment_results_are_wrong() -> None:
    """A negative control: a record from behind the barrier is in the snapshot, and is replayed after a failure."""
    (error,) = failing(simulation_of("join", workers=WorkersWithoutAlignment, mode="aligned"), range(200), enough=1)

    assert "in the end" in error or "too much" in error or "missing" in error


@pytest.mark.parametrize("name", PREFIXES)
def test_without_alignment_commits_are_of_no_prefix(name: str) -> None:
    """A negative control: records from behind the barrier on one input are published."""
    errors = failing(Cell(name, "aligned").simulation(workers=WorkersWithoutAlignment), range(200))

    assert any("the result of no prefix of the input is visible" in error for error in errors), errors


# Of transfers no window fires by the watermark, and so nothing is pending.  Of a join few seeds find it.
@pytest.mark.parametrize("name", [name for name in PREFIXES if name != "transfers"])
def test_if_barriers_overtake_pending_work_commits_are_of_no_prefix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: what is pending is in the snapshot, so the end is right, and the commits before aren't."""
    monkeypatch.setattr(Barriers, "waits_for_records", property(lambda self: False))
    first = {"join": 255, "two_sinks": 25, "windowed_sums": 40}.get(name, 0)
    (error,) = failing(Cell(name, "aligned").simulation(), range(first, first + 200), enough=1)

    assert "the result of no prefix of the input is visible" in error


def test_if_a_barrier_overtakes_a_table_results_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: folded elements are neither in the snapshot nor behind it in the source."""
    broadcast = Exchange.broadcast

    def overtaking(self: Exchange, message: Message) -> None:
        if isinstance(message, Barrier):
            monkeypatch.setattr(Exchange, "flush_table", lambda self: None)
        broadcast(self, message)
        monkeypatch.setattr(Exchange, "flush_table", flush_table)

    flush_table = Exchange.flush_table
    monkeypatch.setattr(Exchange, "broadcast", overtaking)
    with folding():
        assert [] != failing(simulation_of("windowed_sums"), range(200), enough=1)


def test_if_a_watermark_overtakes_a_table_results_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: elements are late because they have waited."""
    monkeypatch.setattr(PreAggregation, "matters", lambda self, watermark: False)
    with folding():
        assert [] != failing(simulation_of("windowed_sums", faults=Faults()), range(200), enough=1)


def test_without_the_log_of_back_edges_results_are_wrong() -> None:
    """A negative control: records in the loop at the time of the snapshot are lost in the next failure."""
    simulation = simulation_of("loop", workers=WorkersWithoutFeedbackLog, mode="aligned", parallelism=2)

    (error,) = failing(simulation, range(300), enough=1)

    assert "missing" in error or "in the end" in error


def test_the_same_seed_gives_one_trace_ten_times() -> None:
    """Step by step, with the time of each."""
    simulation = simulation_of("two_sinks")

    assert 1 == len({simulation.run(11).trace for _ in range(10)})
    assert simulation.run(11).trace != simulation.run(12).trace


TRACED = """
import hashlib
import penstock as beam
from penstock.runners.local.simulation.run import Simulation
from simulation.matrix import CELLS, MEANINGLESS, REFUSED, Cell, folding, shares, tried
from simulation.simulated_pipelines import PIPELINES

for name, build in PIPELINES.items():
    pipeline = beam.Pipeline()
    build(pipeline)
    trace = Simulation(pipeline.graph()).run(3).trace
    print(name, hashlib.sha256(chr(10).join(trace).encode()).hexdigest())
"""


def test_the_same_seed_gives_one_trace_in_every_process() -> None:
    """Also with another hash seed: a failing seed fails in each process."""

    def traces(hash_seed: str) -> str:
        paths = [str(pathlib.Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        ran = subprocess.run(
            [sys.executable, "-c", TRACED],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    found = traces("1")
    own = hashlib.sha256("\n".join(simulation_of("join").run(3).trace).encode()).hexdigest()
    assert found == traces("2")
    assert f"join {own}" in found.splitlines()


def test_the_fixture_names_the_seed_that_fails(simulate: Callable[..., None]) -> None:
    """A function whose output depends on the number of calls, which no recovery can reproduce."""
    calls: list[int] = []
    simulation_globals["calls"] = calls
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1, 2, 3]) | beam.Map(_counted)

    with pytest.raises(SimulationError, match=r"seed \d+ \(\w+\): output of Map"):
        simulate(pipeline, seeds=3)


simulation_globals: dict[str, list[int]] = {}


def _counted(value: int) -> int:
    calls = sys.modules[__name__].simulation_globals["calls"]
    calls.append(value)
    return len(calls)


def test_a_pipeline_that_is_right_passes(simulate: Callable[..., None]) -> None:
    """The fixture is `simulate_pipeline`; seeds may be given one by one."""
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1, 2, 2]) | beam.combiners.Count.PerElement()

    simulate(pipeline, seeds=[1, 5], mode="unaligned", parallelism=2)
    assert simulate is simulate_pipeline


def test_a_source_without_an_end_is_refused_by_name() -> None:
    """There would be nothing to compare with."""
    pipeline = beam.Pipeline()
    _ = pipeline | "Forever" >> beam.io.GenerateSequence(0, elements_per_period=1, period=1)

    with pytest.raises(UnsupportedError, match=r"^Forever.*: .* has no end.*`stop`"):
        simulate_pipeline(pipeline)


def test_a_script_goes_on_at_its_own_time_after_a_restart() -> None:
    """The clock used to restart at zero, so processing-time panes fired late or never."""
    script = TestStream()
    for i in range(12):
        script = script.add_elements([TimestampedValue(("ab"[i % 2], i), 2 * i)])
        script = script.advance_processing_time(3) if i % 4 == 3 else script
        script = script.advance_watermark_to(2 * i - 1) if i % 3 == 2 else script
    early = AfterWatermark(early=AfterProcessingTime(2))
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(5), trigger=early, accumulation_mode=AccumulationMode.ACCUMULATING)
        | beam.CombinePerKey(sum)
    )

    assert [] == failing(Simulation(pipeline.graph()), range(10))
