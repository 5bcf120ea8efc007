"""What a runner is to the sdk, and how one is found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..windowing.duration import Duration, DurationTypes, seconds_of_span
from .errors import RunnerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .graph import Graph
    from .metrics import MetricResults
    from .options import PipelineOptions

# The group under which an installed package may offer runners.
ENTRY_POINTS = "penstock.runners"


class PipelineState:
    """Where a run stands."""

    UNKNOWN = "UNKNOWN"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DRAINED = "DRAINED"

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Return whether a run in this state has ended."""
        return state in (cls.DONE, cls.FAILED, cls.CANCELLED, cls.DRAINED)


class Capability(StrEnum):
    """What a pipeline may need of its runner; the values are the rows of the table in the README."""

    BOUNDED_SOURCES = "bounded sources"
    WINDOWS = "event-time windows, merging windows"
    SIDE_INPUTS = "side inputs, tagged outputs"
    TRIGGERS = "triggers, panes, allowed lateness, late data"
    ACCUMULATION = "discarding, accumulating and retracting panes"
    STATE_AND_TIMERS = "state and timers"
    SINKS = "transactional sinks: files, SQL tables, changelogs"
    TEST_STREAM = "TestStream"
    UNBOUNDED_SOURCES = "unbounded sources"
    LOOPS = "loops"
    DATAFRAMES = "DataFrames (FromSpark, ToSpark)"
    STREAMING_DATAFRAMES = "streaming DataFrames (FromSparkStream)"


class PipelineResult(ABC):
    """A pipeline that was started."""

    @property
    @abstractmethod
    def state(self) -> str:
        """One of `PipelineState`."""

    @abstractmethod
    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        """Wait for its end, at most `duration` (milliseconds, a `Duration` or a timedelta), and return the state.

        Raises what made the pipeline fail.
        """

    @abstractmethod
    def cancel(self) -> str:
        """Stop it as soon as may be."""

    @abstractmethod
    def metrics(self) -> MetricResults:
        """The metrics that user code and the runner have counted."""


def seconds_to_wait(duration: DurationTypes | None) -> float | None:
    """Return the seconds of what `wait_until_finish` is given: a number is one of milliseconds, as in Beam.

    >>> seconds_to_wait(500), seconds_to_wait(Duration(2)), seconds_to_wait(None)
    (0.5, 2.0, None)
    """
    if duration is None:
        return None
    if isinstance(duration, (Duration, timedelta)):
        return seconds_of_span(duration)
    return duration / 1000


class FinishedResult(PipelineResult):
    """A run that ended before anybody could have waited for it.

    Args:
      metrics: what was counted.
    """

    def __init__(self, metrics: MetricResults, state: str = PipelineState.DONE) -> None:
        self._metrics = metrics
        self._state = state

    @property
    def state(self) -> str:
        return self._state

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        return self.state

    def cancel(self) -> str:
        return self.state

    def metrics(self) -> MetricResults:
        return self._metrics


class PipelineSimulation(Protocol):
    """A pipeline that can be run under seeds: all that is left to chance in a run, a seed decides."""

    def run(self, seed: int) -> Any:
        """Run it.  Raises for a seed under which it gives wrong results, and names the seed."""


class Runner(ABC):
    """Runs graphs.

    Attributes:
      name: what `--runner` calls it.
      aliases: other names for it: its class's, and Beam's.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Start the pipeline.

        Raises `UnsupportedError`, naming the transform, for what this runner can't do.
        """

    def simulation(self, graph: Graph, **settings: Any) -> PipelineSimulation:
        """A simulation of the pipeline.  Raises `RunnerError` where the runner has none."""
        raise RunnerError(f"runner {self.name}: it can't be simulated; the local runner can")

    @classmethod
    @abstractmethod
    def capabilities(cls) -> Mapping[Capability, str]:
        """Return what it can do: "yes", "no", or "yes" and what is missing.  The default is "no"."""


# Names that other systems' users know a runner by.
_ALIASES = {
    "directrunner": "local",
    "bundlebaseddirectrunner": "local",
    "fnapirunner": "local",
    "prismrunner": "local",
    "localstreamingrunner": "local",
    "sparkbatchrunner": "spark-batch",
    "sparkrunner": "spark",
    "sparkmicrobatchrunner": "spark-microbatch",
}

# Our own, which are found without looking through all that is installed; that takes longer
# than a small pipeline.
OURS = {
    "local": "penstock.runners.local:LocalStreamingRunner",
    "spark": "penstock.runners.spark:SparkRunner",
    "spark-batch": "penstock.runners.spark:SparkBatchRunner",
    "spark-microbatch": "penstock.runners.spark:SparkMicroBatchRunner",
}


@lru_cache(maxsize=1)
def installed_runners() -> dict[str, EntryPoint]:
    """The runners that are installed, by name."""
    # Not needed before a pipeline is made, and slow to import.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def create_runner(runner: Runner | str | Callable[[], Runner]) -> Runner:
    """A runner from its name, its class, or itself.

    Raises `RunnerError` for a name that no installed package offers.

    >>> create_runner("DirectRunner").name
    'local'
    """
    if isinstance(runner, Runner):
        return runner
    if not isinstance(runner, str):
        made: Any = runner()
        if not isinstance(made, Runner):
            raise RunnerError(f"expected a runner or its name, got {runner!r}")
        return made
    names = (runner, runner.lower(), _ALIASES.get(runner.rsplit(".", 1)[-1].lower()))
    if ours := next((OURS[name] for name in names if name in OURS), None):
        module, _, attribute = ours.partition(":")
        return getattr(import_module(module), attribute)()  # type: ignore[no-any-return]
    known = installed_runners()
    name = next((name for name in names if name in known), None)
    if name is None:
        near = get_close_matches(runner.lower(), [*known, *_ALIASES], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise RunnerError(f"--runner={runner}: there is no such runner{hint} Installed: {', '.join(sorted(known))}")
    return known[name].load()()  # type: ignore[no-any-return]
