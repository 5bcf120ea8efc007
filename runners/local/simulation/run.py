"""Simulation: a job in one thread, with faults drawn by a seed, whose results are compared with those of a plain run.

Time, channels, the disk and the deaths of processes are simulated.  The job, the coordinator, slots, subtasks, the
snapshot store and transactions are the real ones.  A seed that fails, fails again in the same way.

The expected results are those of a bounded run of the same pipeline: rows with timestamps and windows, less those that
were retracted.

>>> import penstock as beam
>>> p = beam.Pipeline()
>>> _ = p | beam.Create([1, 2, 2]) | beam.combiners.Count.PerElement()
>>> simulation = Simulation(p.graph())
>>> simulation.run(7).trace == simulation.run(7).trace
True

Source: the method is that of FoundationDB's simulator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from random import Random
from typing import TypeAlias

import attrs

from ....frozen import frozen
from ....sdk.errors import OptionsError, PenstockError, SimulationError
from ....sdk.graph import Graph
from ....sdk.runner import PipelineState
from ...execution.checkpoints.control_requests import Answer
from ...execution.checkpoints.simulated_storage import SimulatedCrash
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import ProcessingTime
from ...execution.plan.execution_graph import cut, whole
from ...execution.plan.fusion import fuse
from ...execution.sinks.checkpoint_commits import OpenTransactionsFile
from ...execution.streaming.state_settings import StateSettings
from ..combinations import Combination, refusal_of
from ..job.barrier_delivery import BarrierDelivery
from ..job.checkpoint_coordinator import CheckpointSettings
from ..job.context import JobSettings
from ..job.job import Job
from ..job.restart_strategy import RestartStrategy
from ..productions.delivery import ProductionDelivery
from ..productions.directory import Productions
from ..productions.fenced_transactions import open_transactions
from ..productions.producer import GroupCommit
from .differing_steps import differing_step
from .graph import in_batch, is_monotone, sinks_of, with_sinks
from .merging_often import merging_often, wrong_merge
from .plain_run import run_plainly
from .sink import CollectingSink, Row, RuleViolated, SimulatedSink, SimulatedTable
from .workers import SimulatedWorkers, Zombies
from .world import DiskOfWorld, EndlessSimulation, Faults, SimulatedWorld

DIRECTORY = "checkpoints"

MODES = ("aligned", "unaligned")

# By the label of a table, its visible rows, and those that it has at the end: whether the visible rows are the result
# of a prefix of the input.
PrefixRule: TypeAlias = Callable[[str, Mapping[Row, int], Mapping[Row, int]], bool]


@frozen
class SimulationSettings:
    """Settings that don't depend on the seed.

    Attributes:
      mode: of checkpoints; None for one that the seed draws.
      parallelism: the number of subtasks of each task; None for one that the seed draws, which a restart may change.
      delivery: "barriers", or productions that are "strong" or "weak".
      faults: limits of faults; None for those that the seed draws.
      recovery: what restarts when a worker dies: the whole "graph", or the failover "region".
      state: how much of a worker's state may be in memory; None for all of it.
      workers: the class of the workers; negative controls replace it.
      is_prefix: tells whether rows are the result of a prefix of each source partition; checked after each commit,
        unless checkpoints are unaligned, regions restart or delivery is by productions.
    """

    mode: str | None = None
    parallelism: int | None = None
    faults: Faults | None = None
    delivery: str = "barriers"
    recovery: str = "graph"
    state: StateSettings | None = None
    workers: type[SimulatedWorkers] = SimulatedWorkers
    is_prefix: PrefixRule | None = None

    def refusal(self, graph: Graph) -> str | None:
        """Return why the runner refuses a pipeline with these settings; None if it runs."""
        loops = graph.loops()
        combination = Combination(
            self.delivery,
            self.recovery,
            self.mode or MODES[0],
            parallelism=self.parallelism or 2,
            checkpoint_dir=DIRECTORY,
            loop=loops[0].label if loops else None,
            state_backend="memory" if self.state is None else "rocksdb",
        )
        return refusal_of(combination)


@frozen
class Simulated:
    """Result of a seed.

    Attributes:
      starts: how often the job was started.
      harm: the number of deaths, failures and hangs.
      counts: the number of faults and other events by kind.
      trace: the events of the run, line by line.
    """

    seed: int
    mode: str
    starts: int
    checkpoints: int
    harm: int
    steps: int
    counts: Mapping[str, int]
    trace: tuple[str, ...]


class Simulation:
    """A pipeline, and its expected results.

    Nothing is written into the pipeline's sinks: simulated tables replace them, and also collect every PCollection
    without consumers.  Raises `UnsupportedError` for a source that has no end, and `OptionsError` for settings that the
    runner refuses.
    """

    def __init__(self, graph: Graph, settings: SimulationSettings | None = None) -> None:
        self._graph = graph
        self._settings = settings or SimulationSettings()
        if (why := self._settings.refusal(graph)) is not None:
            raise OptionsError(why)
        self._is_monotone = is_monotone(graph)
        self.expected = _expected(graph)

    def run(self, seed: int) -> Simulated:
        """Run with a seed.  Raises `SimulationError`, which names a non-deterministic step if there is one."""
        try:
            return _Run(seed, self._graph, self._settings, self.expected, self._is_monotone).run()
        except SimulationError as error:
            if self.differing_step is None:
                raise
            advice = (
                "The failure may be due to this step, not to the runner: a simulation compares with a plain run, so a "
                "recomputed step has to return the same outputs. Make the step depend on its inputs only, for example "
                "with random numbers that are seeded with the element"
            )
            raise SimulationError(f"{error}\n{self.differing_step}. {advice}", seed, error.trace) from error.__cause__

    @cached_property
    def differing_step(self) -> str | None:
        """Return a sentence about the first step that differs between two plain runs, or None."""
        try:
            return differing_step(self._graph)
        except Exception:  # whatever the user's functions raise when they are called once more
            return None


def _expected(graph: Graph) -> dict[str, Mapping[Row, int]]:
    """Return the rows of a bounded run, by the label of the sink."""
    sinks = {label: CollectingSink() for label in sinks_of(graph)}
    run_plainly(in_batch(with_sinks(graph, sinks)))
    return {label: +sink.rows for label, sink in sinks.items()}


class _Run:
    """The starts of a job under one seed."""

    def __init__(
        self,
        seed: int,
        graph: Graph,
        settings: SimulationSettings,
        expected: Mapping[str, Mapping[Row, int]],
        is_monotone: bool,
    ) -> None:
        self.seed = seed
        self.expected = expected
        self.settings = settings
        faults = settings.faults
        self.world = SimulatedWorld(seed, None if faults is None else attrs.evolve(faults))
        self.disk = DiskOfWorld(self.world)
        self.tables = {label: SimulatedTable(label, rows if is_monotone else None) for label, rows in expected.items()}
        if settings.delivery == "barriers":
            for table in self.tables.values():
                table.together = list(self.tables.values())
        sinks = {label: SimulatedSink(self.world, table) for label, table in self.tables.items()}
        self._graph = graph
        self.plan = fuse(with_sinks(merging_often(graph), sinks))
        random = self.world.random
        modes = [mode for mode in MODES if attrs.evolve(settings, mode=mode).refusal(graph) is None]
        self.mode = settings.mode or random.choice(modes)
        if settings.delivery != "barriers":
            self.mode = settings.delivery
        # After the restart of a region a checkpoint has two transactions, which are committed one after the other.
        is_one = self.mode == "aligned" and settings.recovery == "graph"
        if settings.is_prefix is not None and is_one:
            for label, table in self.tables.items():
                table.is_prefix = partial(settings.is_prefix, label, table.visible, expected[label])
        self.parallelism = settings.parallelism or random.choice([1, 2, 2, 3])
        # Microseconds.
        self.interval = random.choice([2_000, 10_000, 50_000])
        self.starts = self.checkpoints = 0
        self.zombies: list[Zombies] = []

    def run(self) -> Simulated:
        try:
            with _logged(self.world):
                while not self._attempt():
                    pass
                for zombies in self.zombies:
                    zombies.end()
                still_open = self._open_transactions()
                for label, table in self.tables.items():
                    table.check_end(self.expected[label], still_open)
        except (RuleViolated, EndlessSimulation) as error:
            raise self._failed(str(error)) from error
        except Exception as error:
            raise self._failed(f"the run failed without a fault: {type(error).__name__}: {error}") from error
        return Simulated(
            self.seed,
            self.mode,
            self.starts,
            self.checkpoints,
            self.world.harm,
            self.world.steps,
            dict(self.world.counts),
            tuple(self.world.trace),
        )

    def _open_transactions(self) -> Collection[str]:
        """Return the transactions that the next start would abort."""
        if self.settings.delivery != "barriers":
            return open_transactions(self.disk, DIRECTORY)
        return OpenTransactionsFile(self.disk, DIRECTORY).read() or ()

    def _failed(self, why: str) -> SimulationError:
        try:
            if merges := wrong_merge(self._graph, _expected):
                why = f"{why}\n{merges}"
        except Exception as error:  # whatever a user's combiner raises
            why = f"{why}\nA plain run whose combiners merge fails, too: {type(error).__name__}: {error}"
        return SimulationError(f"seed {self.seed} ({self.mode}): {why}", self.seed, tuple(self.world.trace))

    def _attempt(self) -> bool:
        """Start the job once, as a user would.  Return True if it has run to its end."""
        world = self.world
        self.starts += 1
        harm, impatience = world.harm, self.starts <= 3 and world.random.random() < 0.3
        job = self._job(impatience)
        try:
            job.run()
        except SimulatedCrash:
            if world.random.random() < 0.5:
                world.note("the machine crashes too")
                self.disk.crash()
                for zombies in self.zombies:
                    zombies.end()
                self.zombies.clear()
            return False
        except (PenstockError, OSError):
            if world.harm == harm and not impatience:
                raise
            world.note("the job has failed")
            return False
        finally:
            self.checkpoints += job.checkpoints_completed
            world.begin_again()
        return job.state == PipelineState.DONE

    def _job(self, is_impatient: bool) -> Job:
        world, random = self.world, self.world.random
        is_by_barriers = self.settings.delivery == "barriers"
        may_change = self.settings.parallelism is None and self.settings.delivery != "weak"
        if self.starts > 1 and may_change and random.random() < 0.3:
            self.parallelism = random.choice([1, 2, 3])
        n = self.parallelism
        world.note(f"start {self.starts}: {self.mode}, parallelism {n}")
        store = SnapshotStore(self.disk, DIRECTORY, token=world.token, now=lambda: world.wall() / 1_000_000)
        # A region is all of a job with one subtask of each task.
        recovers_regions = self.settings.recovery == "region" and n > 1
        settings = JobSettings(
            CheckpointSettings(
                self.interval,
                timeout=5_000 if is_impatient else 60_000_000,
                min_pause=random.choice([0, 1_000]),
            ),
            unaligned=self.mode == "unaligned",
            restarts=RestartStrategy(random.choice([0, 2, 5]), first_delay=0.01),
            recovers_regions=recovers_regions,
            state=self.settings.state,
        )
        user = _User(random if self.starts <= world.faults.stopped else None, not is_by_barriers)
        workers = self.settings.workers(random.randint(1, n), world, user, self.zombies)
        execution_graph = whole(self.plan) if n == 1 else cut(self.plan, n)
        time = ProcessingTime(world.wall, world.clock)
        delivery = BarrierDelivery(store) if is_by_barriers else ProductionDelivery(self._productions())
        user.job = Job(execution_graph, workers, settings, delivery, world.clock, world.sleep, world.token, time=time)
        return user.job

    def _productions(self) -> Productions:
        random = self.world.random
        return Productions(
            self.disk,
            DIRECTORY,
            delivery=self.settings.delivery,
            group_commit=GroupCommit(
                steps=random.choice([1, 4, 64]),
                stragglers=random.choice([10_000, 1_000_000]),
                shortest=random.choice([0, 5_000, 1 << 20]),
                ahead=random.choice([0, 200, 5_000]),
            ),
        )


class _User:
    """User who now and then stops the job, with or without a savepoint."""

    def __init__(self, random: Random | None, takes_savepoints: bool) -> None:
        self._random = random
        self._takes_savepoints = takes_savepoints
        self.job: Job | None = None

    def __call__(self) -> None:
        if self._random is None or self.job is None or self._random.random() >= 0.003:
            return
        if self._takes_savepoints and self._random.random() < 0.5:
            self.job.take_savepoint(_taken)
        elif self._random.random() < 0.5:
            self.job.stop_with_savepoint()
        else:
            self.job.cancel()


def _taken(answer: Answer) -> None:
    """Ignore whether the savepoint was taken."""


@contextmanager
def _logged(world: SimulatedWorld) -> Iterator[None]:
    """Add log lines to the trace, in the place of printing them, in the `with` block."""

    class Trace(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            world.note(record.getMessage())

    logger = logging.getLogger(__package__.partition(".")[0])
    before, handler = logger.propagate, Trace()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
