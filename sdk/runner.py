"""Runner: the interface of runners, and their lookup by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..windowing.duration import Duration, DurationTypes, seconds_of_span
from .errors import RunnerError, UnknownRunnerError, UnsupportedError
from .names.extensions import extension_point

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .drawing.panes import PaneRecording
    from .graph import Graph
    from .metrics import MetricResults, MetricsContainer
    from .options import PipelineOptions

# The entry-point group of runners in installed packages.
ENTRY_POINTS = "penstock.runners"


class PipelineState:
    """The states of a run.  Those beside the first six are Beam's, for programs that compare with them."""

    UNKNOWN = "UNKNOWN"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DRAINED = "DRAINED"
    STARTING = "STARTING"
    STOPPED = "STOPPED"
    UPDATED = "UPDATED"
    DRAINING = "DRAINING"
    PENDING = "PENDING"
    CANCELLING = "CANCELLING"
    RESOURCE_CLEANING_UP = "RESOURCE_CLEANING_UP"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    UNRECOGNIZED = "UNRECOGNIZED"

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Return whether a run in this state has ended."""
        return state in (cls.DONE, cls.FAILED, cls.CANCELLED, cls.UPDATED, cls.DRAINED)


class Capability:
    """Features that a pipeline may need: the rows of the table in the README.

    They are plain strings.  A runner of another package may declare others.
    """

    BOUNDED_SOURCES = "bounded sources"
    WINDOWS = "event-time windows, merging windows"
    SIDE_INPUTS = "side inputs, tagged outputs"
    TRIGGERS = "triggers, panes, allowed lateness, late data"
    ACCUMULATION = "discarding, accumulating and retracting panes"
    STATE_AND_TIMERS = "state and timers"
    COLUMNS = "columns, batched DoFns"
    SINKS = "transactional sinks: files, SQL tables, changelogs"
    ASYNC_CALLS = "async calls, enrichment"
    NATS = "NATS JetStream: sources and sinks"
    MQTT = "MQTT: sources and sinks"
    PUBSUB = "Google Cloud Pub/Sub: sources and sinks"
    BIGQUERY = "Google BigQuery: sources and sinks"
    TEST_STREAM = "TestStream"
    UNBOUNDED_SOURCES = "unbounded sources"
    LOOPS = "loops"
    STATE_READS = "state read from outside"
    DATAFRAMES = "DataFrames (FromSpark, ToSpark)"
    STREAMING_DATAFRAMES = "streaming DataFrames (FromSparkStream)"


class RunState(str):
    """A value of `PipelineState`; called with the label of a step, it returns the keyed state of the step.

    >>> state = RunState("DONE", lambda step: f"the state of {step}")
    >>> state == PipelineState.DONE, state("Sum")
    (True, 'the state of Sum')
    """

    _read: Callable[[str], Any] | None

    def __new__(cls, name: str, read: Callable[[str], Any] | None = None) -> RunState:
        made = super().__new__(cls, name)
        made._read = read
        return made

    def __call__(self, step: str) -> Any:
        """Return the state of a step, for committed reads: a `StepState`.

        Raises `UnsupportedError` for a run that keeps no checkpoints.
        """
        if self._read is None:
            raise UnsupportedError(
                f"{step}: its state can't be read, because this run takes no checkpoints. Run the pipeline with "
                "--runner=local or spark-microbatch, and --checkpoint_dir"
            )
        return self._read(step)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class PipelineResult:
    """A started pipeline.

    Args:
      state: one of `PipelineState`, for a result of a test's own.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1, 2])
    >>> result = p.run()
    >>> result.wait_until_finish()
    'DONE'
    >>> result.state
    'DONE'
    """

    def __init__(self, state: str = PipelineState.UNKNOWN) -> None:
        self._state = state

    @property
    def state(self) -> RunState:
        """One of `PipelineState`.  Of a local job, `result.state("Sum").get(key)` reads the state of a step."""
        return RunState(self._state)

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        """Wait until the run ends, at most `duration` (milliseconds, a `Duration` or a timedelta), and return the
        state.

        Raises the error that the pipeline failed with.
        """
        raise NotImplementedError(f"{type(self).__name__}.wait_until_finish")

    def cancel(self) -> str:
        """Stop the run as soon as possible, and return the state."""
        raise NotImplementedError(f"{type(self).__name__}.cancel")

    def metrics(self) -> MetricResults:
        """Return the metrics of user code and of the runner."""
        raise NotImplementedError(f"{type(self).__name__}.metrics")


def seconds_to_wait(duration: DurationTypes | None) -> float | None:
    """Return the seconds of an argument of `wait_until_finish`.  Numbers are milliseconds, as in Beam.

    >>> seconds_to_wait(500), seconds_to_wait(Duration(2)), seconds_to_wait(None)
    (0.5, 2.0, None)
    """
    if duration is None:
        return None
    if isinstance(duration, (Duration, timedelta)):
        return seconds_of_span(duration)
    return duration / 1000


class FinishedResult(PipelineResult):
    """The result of a run that has ended.

    Args:
      metrics: the metrics of the run.
      read_state: returns the keyed state of a step; None for a run without checkpoints.
    """

    def __init__(
        self,
        metrics: MetricResults,
        state: str = PipelineState.DONE,
        read_state: Callable[[str], Any] | None = None,
    ) -> None:
        super().__init__(state)
        self._metrics = metrics
        self._read_state = read_state

    @property
    def state(self) -> RunState:
        return RunState(self._state, self._read_state)

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        return self.state

    def cancel(self) -> str:
        return self.state

    def metrics(self) -> MetricResults:
        return self._metrics


class PipelineSimulation(Protocol):
    """Simulation of a pipeline, in which a seed decides every random choice.

    Attributes:
      expected: by label, the rows of each output of a run without failures.
    """

    @property
    def expected(self) -> Mapping[str, Any]: ...

    def run(self, seed: int) -> Any:
        """Run the simulation.  Raises `SimulationError`, which names the seed, if the results are wrong."""


class Runner(ABC):
    """Base class of runners, which run graphs.

    A runner of another package is found by its entry point in the group `penstock.runners`, or named by its class, as
    `--runner=package.module:Class`.  `docs/howto/runner.md` shows how one is written.

    Attributes:
      name: its name for `--runner`.

    >>> class Refusing(Runner):
    ...     name = "refusing"
    ...
    ...     def run_pipeline(self, graph, options):
    ...         raise UnsupportedError(f"{graph.transforms[0].label}: --runner=refusing runs nothing")
    >>> Refusing.supports(Capability.WINDOWS), Refusing.supports("time travel")
    (False, False)
    """

    name: ClassVar[str]

    @abstractmethod
    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Start the pipeline.

        Raises `UnsupportedError`, naming the transform, for what this runner can't do.
        """

    def for_options(self, options: PipelineOptions) -> Runner:
        """Return the runner of a pipeline with these options, when the pipeline is created: as a rule this one.

        A runner that stands for others, such as one of another SDK, returns one of them.
        """
        return self

    def simulation(self, graph: Graph, **settings: Any) -> PipelineSimulation:
        """Return a simulation of the pipeline.

        Raises `RunnerError` if the runner has none, and `OptionsError` for settings that it refuses.
        """
        raise RunnerError(f"runner {self.name}: it can't be simulated; the local runner can")

    def recordings(
        self,
        graph: Graph,
        options: PipelineOptions,
        step: str | None,
        metrics: MetricsContainer,
        events: int | None = None,
    ) -> list[PaneRecording]:
        """Run a pipeline with a script to its end, and return a recording of the panes of each key of a grouping.

        Args:
          step: the full label of the grouping, or of its composite; None for the only one.
          metrics: receives those of the run.
          events: the number of events of the script after which the recording ends; None for all, and the end of input.

        Raises `RunnerError` if the runner records no panes, and `UnsupportedError` for a pipeline without a script.
        """
        raise RunnerError(f"runner {self.name}: it can't record panes; the local runner can")

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        """Return the supported features, such as `Capability.WINDOWS`: "yes", "no", or "yes" with the limitations.

        A feature that isn't named is one that the runner doesn't have.
        """
        return {}

    @classmethod
    def supports(cls, capability: str) -> bool:
        """Return True if the runner has a feature, perhaps with limitations."""
        return cls.capabilities().get(capability, "no") != "no"

    @classmethod
    def missing(cls) -> str | None:
        """Return what has to be installed on this machine before the runner runs anything; None if it is ready."""
        return None


# The runner of a pipeline that names none.  It also simulates, records panes and shows first results.
DEFAULT_RUNNER = "local"

# Names of runners in other systems.
_ALIASES = {
    "directrunner": "local",
    "direct": "local",
    "testdirectrunner": "local",
    "switchingdirectrunner": "local",
    "bundlebaseddirectrunner": "local",
    "fnapirunner": "local",
    "localstreamingrunner": "local",
    "sparkbatchrunner": "spark-batch",
    "sparkrunner": "spark",
    "sparkmicrobatchrunner": "spark-microbatch",
}

# Penstock's runners, which are found without searching the installed packages.  A search takes longer than a small
# pipeline.
OURS = {
    "local": "penstock.runners.local:LocalStreamingRunner",
    "spark": "penstock.runners.spark:SparkRunner",
    "spark-batch": "penstock.runners.spark:SparkBatchRunner",
    "spark-microbatch": "penstock.runners.spark:SparkMicroBatchRunner",
}


@extension_point
def foreign_runner(name: str) -> Runner | None:
    """Return the runner of a name of another SDK, or None."""
    raise NotImplementedError


@lru_cache(maxsize=1)
def installed_runners() -> dict[str, EntryPoint]:
    """Return the installed runners by name."""
    # Slow to import, and not needed before a pipeline is created.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def create_runner(runner: Runner | str | Callable[[], Runner]) -> Runner:
    """Return a runner from its name, its class, itself, or the place of its class.

    Raises `RunnerError` for an unknown name.

    >>> create_runner("DirectRunner").name
    'local'
    >>> create_runner("penstock.runners.local:LocalStreamingRunner").name
    'local'
    """
    if isinstance(runner, Runner):
        return runner
    if not isinstance(runner, str):
        made: Any = runner() if callable(runner) else None
        if not isinstance(made, Runner):
            flags = "; flags are given by argv=" if isinstance(runner, (list, tuple)) else ""
            raise RunnerError(f"expected a runner or its name, got {runner!r}{flags}")
        return made
    if ":" in runner:
        return _at(runner)
    names = (runner, runner.lower(), _ALIASES.get(runner.rsplit(".", 1)[-1].lower()))
    if ours := next((OURS[name] for name in names if name in OURS), None):
        module, _, attribute = ours.partition(":")
        return getattr(import_module(module), attribute)()  # type: ignore[no-any-return]
    known = installed_runners()
    name = next((name for name in names if name in known), None)
    if name is None:
        if foreign_runner.is_provided() and (foreign := foreign_runner(runner)):
            return foreign
        from difflib import get_close_matches

        matches = get_close_matches(runner.lower(), [*known, *_ALIASES], n=1)
        hint = f"; did you mean {matches[0]!r}?" if matches else "."
        raise UnknownRunnerError(
            f"--runner={runner}: there is no such runner{hint} Installed: {', '.join(sorted(known))}"
        )
    return known[name].load()()  # type: ignore[no-any-return]


def _at(place: str) -> Runner:
    """Return a runner by its module and class."""
    name, _, attribute = place.partition(":")
    try:
        kind = getattr(import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownRunnerError(f"--runner={place}: expected module:Class, and {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Runner)):
        raise UnknownRunnerError(f"--runner={place}: expected a subclass of Runner, got {kind!r}")
    return kind()
