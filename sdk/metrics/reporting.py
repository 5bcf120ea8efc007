"""Reports of counters, distributions, gauges, sets, tries and histograms by user code.

A runner puts a `MetricsContainer` in scope around the calls of user code, and merges the containers of committed work.
Without a container in scope reports are ignored, so that a `DoFn` can be called on its own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ...frozen import frozen
from ..redaction import logger_of
from ..user_code.step_slot import StepSlot, here
from ..user_code.thread_stack import stack_of_thread
from .bounded_trie import BoundedTrieData
from .string_set import StringSetData

if TYPE_CHECKING:
    from .histogram import BucketType

_logger = logger_of(__name__)


class MetricName(NamedTuple):
    """A metric's namespace, usually that of the reporting class, and its name.

    A named tuple, whose hash is fast: each report looks up its metric.

    >>> from penstock.metrics import MetricName
    >>> MetricName("text", "words")
    MetricName(namespace='text', name='words')
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"MetricName(namespace={self.namespace}, name={self.name})"


# The wall clock may be set back, but the latest value of a gauge stays the latest.
_EPOCH = time.time() - time.monotonic()


def _seconds() -> float:
    return _EPOCH + time.monotonic()


class StepMetrics:
    """Metrics of one step: plain dictionaries from `MetricName`, so that reports are cheap."""

    __slots__ = ("counters", "data", "distributions", "gauges")

    def __init__(self) -> None:
        # The metrics of rarer kinds, by kind: objects with `combine` and `get_result`.
        self.data: dict[str, dict[MetricName, Any]] = defaultdict(dict)
        self.counters: dict[MetricName, int] = defaultdict(int)
        # [sum, count, min, max], changed in place
        self.distributions: dict[MetricName, list[Any]] = {}
        self.gauges: dict[MetricName, tuple[float, Any]] = {}

    def clear(self) -> None:
        """Forget all reports, in place."""
        for reports in (self.counters, self.distributions, self.gauges, self.data):
            reports.clear()


class MetricsContainer:
    """Metrics reported while it was in scope.  Containers can be pickled and merged.

    Args:
      clock: seconds since the epoch, for gauges.

    >>> container = MetricsContainer()
    >>> with scoped(container, "Parse"):
    ...     Metrics.counter("app", "lines").inc(2)
    >>> container.step("Parse").counters[MetricName("app", "lines")]
    2
    """

    def __init__(self, clock: Callable[[], float] = _seconds) -> None:
        self.clock = clock
        self.steps: dict[str, StepMetrics] = {}

    def step(self, label: str) -> StepMetrics:
        """Return the metrics of one step."""
        return self.steps.get(label) or self.steps.setdefault(label, StepMetrics())

    def merge(self, other: MetricsContainer) -> None:
        """Merge another container: counters are added, and of a gauge the latest value is kept."""
        for label, theirs in list(other.steps.items()):
            ours = self.step(label)
            for name, n in list(theirs.counters.items()):
                ours.counters[name] += n
            for name, cell in list(theirs.distributions.items()):
                mine = ours.distributions.get(name)
                ours.distributions[name] = list(cell) if mine is None else _merged_cells(mine, cell)
            for name, gauge in list(theirs.gauges.items()):
                current = ours.gauges.get(name)
                if current is None or gauge[0] >= current[0]:
                    ours.gauges[name] = gauge
            for kind, metrics in list(theirs.data.items()):
                for name, data in list(metrics.items()):
                    before = ours.data[kind].get(name)
                    ours.data[kind][name] = data.get_cumulative() if before is None else before.combine(data)


def _merged_cells(a: list[Any], b: list[Any]) -> list[Any]:
    return [a[0] + b[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])]


class ReportsByStep:
    """Metrics by the step that the thread is in which makes this.

    Attributes:
      container: receives the reports; it may be replaced at any time.
    """

    __slots__ = ("_slot", "container")

    def __init__(self, container: MetricsContainer) -> None:
        self.container = container
        self._slot = here.slot

    def _step(self) -> StepMetrics:
        return self.container.step(_label_in(self._slot))

    @property
    def counters(self) -> dict[MetricName, int]:
        return self._step().counters

    @property
    def distributions(self) -> dict[MetricName, list[Any]]:
        return self._step().distributions

    @property
    def gauges(self) -> dict[MetricName, tuple[float, Any]]:
        return self._step().gauges

    @property
    def data(self) -> dict[str, dict[MetricName, Any]]:
        return self._step().data


def _label_in(slot: StepSlot) -> str:
    """Return the label of the step that a thread is in; "" between steps.

    Of fused steps it is the one whose line calls this function.  A thread of user code reports for the pipeline's,
    which mostly waits for it: then it is the line of that one.
    """
    step = slot.step
    if step is None or isinstance(step, str):
        return step or ""
    if threading.get_ident() != slot.thread:
        for entry in reversed(stack_of_thread(slot.thread)):
            if entry.filename == step.code.co_filename and entry.lineno is not None:
                return step.label_at(entry.lineno)
        return step.label
    frame = sys._getframe(3)
    while frame.f_code is not step.code and frame.f_back is not None:
        frame = frame.f_back
    return step.label_at(frame.f_lineno) if frame.f_code is step.code else step.label


class _Scope(NamedTuple):
    """The target of reports: a part of a container, and the container's clock."""

    reports: StepMetrics | ReportsByStep
    clock: Callable[[], float]


# The scope of this thread, so that pipelines in several threads don't count for each other.  None if reports are
# ignored; the default is for a thread without a known scope.
_active: ContextVar[Any] = ContextVar("metrics", default=False)

# By thread, its innermost scope: for threads that user code starts.
_scopes: dict[int, _Scope] = {}

_is_warned = False


def _forget_other_threads() -> None:
    own = _scopes.get(threading.get_ident())
    _scopes.clear()
    if own is not None:
        _scopes[threading.get_ident()] = own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def _entered(scope: _Scope | None, seconds: dict[str, float] | None = None) -> Iterator[Any]:
    thread = threading.get_ident()
    before = _scopes.get(thread)
    token = _active.set(scope)
    if scope is None:
        _scopes.pop(thread, None)
    else:
        _scopes[thread] = scope
    try:
        with nullcontext() if seconds is None else here.slot.spending(seconds):
            yield scope and scope.reports
    finally:
        _active.reset(token)
        if before is None:
            _scopes.pop(thread, None)
        else:
            _scopes[thread] = before


def scoped(
    container: MetricsContainer | None, step: str = "", seconds: dict[str, float] | None = None
) -> AbstractContextManager[Any]:
    """Send this thread's reports to `container` within the block, under `step` or under the running step.

    The time of steps is added to `seconds`, by label, if they are given.

    Reports of threads that user code starts follow, while no other thread is in such a block.

    Without a step, the block is given the `ReportsByStep`.
    """
    if container is None:
        return _entered(None)
    reports = container.step(step) if step else ReportsByStep(container)
    return _entered(_Scope(reports, container.clock), seconds)


def report_apart(container: MetricsContainer, step: str) -> None:
    """Send the reports of this asyncio task to `container` until the task ends, whatever its thread counts for."""
    _active.set(_Scope(container.step(step), container.clock))


def merge_apart(container: MetricsContainer) -> None:
    """Merge reports that were made apart into the container in scope, if there is one."""
    scope = _active.get()
    if container.steps and isinstance(scope, _Scope) and isinstance(scope.reports, ReportsByStep):
        scope.reports.container.merge(container)


def _scope_of_starter() -> _Scope | None:
    """Return the scope of the thread that started this one, if it is known."""
    global _is_warned
    is_known = _active.get() is None
    if is_known or not _scopes or threading.current_thread() is threading.main_thread():
        return None
    try:
        (scope,) = _scopes.copy().values()
    except ValueError:
        if not _is_warned:
            _is_warned = True
            _logger.warning(
                "A metric was reported in the thread %r, which user code has started, while several pipelines run in "
                "this process: it is not counted. Start such a thread with contextvars.copy_context().run(...)",
                threading.current_thread().name,
            )
        return None
    return scope


@frozen
class Counter:
    """A whole number that can be increased and decreased.

    >>> import penstock as beam
    >>> words = beam.metrics.Metrics.counter("text", "words")
    >>> def counted(word):
    ...     words.inc()
    ...     return word
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["to", "be"]) | beam.Map(counted)
    >>> result = p.run()
    >>> [(c.key.metric.name, c.committed) for c in result.metrics().query()["counters"]]
    [('words', 2)]
    """

    metric_name: MetricName

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        scope = _active.get() or _scope_of_starter()
        if scope is not None:
            scope.reports.counters[self.metric_name] += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self.inc(-n)


@frozen
class Distribution:
    """Sum, count, minimum, maximum and mean of the reported values.

    >>> import penstock as beam
    >>> lengths = beam.metrics.Metrics.distribution("text", "lengths")
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["a", "four"]) | beam.Map(lambda word: lengths.update(len(word)))
    >>> (found,) = p.run().metrics().query()["distributions"]
    >>> found.committed.min, found.committed.max, found.committed.count
    (1, 4, 2)
    """

    metric_name: MetricName

    def update(self, value: float) -> None:
        """Add a value."""
        scope = _active.get() or _scope_of_starter()
        if scope is None:
            return
        distributions = scope.reports.distributions
        cell = distributions.get(self.metric_name)
        if cell is None:
            distributions[self.metric_name] = [value, 1, value, value]
            return
        cell[0] += value
        cell[1] += 1
        if value < cell[2]:
            cell[2] = value
        if value > cell[3]:
            cell[3] = value


@frozen
class Gauge:
    """The latest reported value.

    >>> import penstock as beam
    >>> latest = beam.metrics.Metrics.gauge("text", "latest length")
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["a", "four"]) | beam.Map(lambda word: latest.set(len(word)))
    >>> (found,) = p.run().metrics().query()["gauges"]
    >>> found.committed.value
    4
    """

    metric_name: MetricName

    def set(self, value: Any) -> None:
        """Replace the value."""
        scope = _active.get() or _scope_of_starter()
        if scope is not None:
            scope.reports.gauges[self.metric_name] = (scope.clock(), value)


def _reported(kind: str, name: MetricName, identity: Callable[[], Any]) -> Any:
    """Return the data of a metric in scope, made by `identity` for the first report; None if reports are ignored."""
    scope = _active.get() or _scope_of_starter()
    if scope is None:
        return None
    metrics = scope.reports.data[kind]
    return metrics.get(name) or metrics.setdefault(name, identity())


@frozen
class StringSet:
    """A set of texts, of at most a million characters.

    >>> import penstock as beam
    >>> seen = beam.metrics.Metrics.string_set("text", "first letters")
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["tea", "milk", "toast"]) | beam.Map(lambda word: seen.add(word[0]))
    >>> (found,) = p.run().metrics().query()["string_sets"]
    >>> sorted(found.committed)
    ['m', 't']
    """

    metric_name: MetricName

    def add(self, value: str) -> None:
        """Add a text."""
        data = _reported("string_sets", self.metric_name, StringSetData)
        if data is not None:
            data.add(value)


@frozen
class BoundedTrie:
    """A set of paths, of which the branches with the most are cut when there are more than a hundred.

    >>> import penstock as beam
    >>> files = beam.metrics.Metrics.bounded_trie("app", "files")
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["/data/a", "/data/b"]) | beam.Map(lambda path: files.add(path.split("/")[1:]))
    >>> (found,) = p.run().metrics().query()["bounded_tries"]
    >>> sorted(found.committed.flattened())
    [('data', 'a', False), ('data', 'b', False)]
    """

    metric_name: MetricName

    def add(self, value: Sequence[str]) -> None:
        """Add a path."""
        data = _reported("bounded_tries", self.metric_name, BoundedTrieData)
        if data is not None:
            data.add(tuple(value))


@frozen
class HistogramMetric:
    """Counts of the reported values by bucket.

    >>> import penstock as beam
    >>> from penstock.utils.histogram import LinearBucket
    >>> lengths = beam.metrics.Metrics.histogram("text", "lengths", LinearBucket(0, 10, 3))
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["a", "four", "a long sentence"]) | beam.Map(lambda text: lengths.update(len(text)))
    >>> (found,) = p.run().metrics().query()["histograms"]
    >>> found.committed
    HistogramResult(Total count: 3, P99: 20, P90: 17, P50: 8)
    """

    metric_name: MetricName
    bucket_type: BucketType

    def update(self, value: float) -> None:
        """Add a value."""
        from .histogram import HistogramData

        data = _reported("histograms", self.metric_name, lambda: HistogramData.identity_element(self.bucket_type))
        if data is not None:
            data.histogram.record(value)


class Metrics:
    """Factory of counters, distributions, gauges, string sets, bounded tries and histograms.

    A namespace is a string or a class, which stands for its module and name.

    >>> lines = Metrics.counter("app", "lines")
    >>> lines.inc()
    """

    @staticmethod
    def get_namespace(namespace: type | str) -> str:
        """Return the namespace's name.

        Raises `ValueError` if it is neither a class nor a string.

        >>> Metrics.get_namespace(Metrics)
        'penstock.sdk.metrics.reporting.Metrics'
        """
        if isinstance(namespace, type):
            return f"{namespace.__module__}.{namespace.__name__}"
        if isinstance(namespace, str):
            return namespace
        raise ValueError(f"a metric's namespace is a class or a string, not {namespace!r}")

    @staticmethod
    def counter(namespace: type | str, name: str) -> Counter:
        """Return a counter."""
        return Counter(_name(namespace, name))

    @staticmethod
    def distribution(namespace: type | str, name: str, process_wide: bool = False) -> Distribution:
        """Return a distribution.  `process_wide` is Beam's, and has no effect: all metrics are those of the run."""
        return Distribution(_name(namespace, name))

    @staticmethod
    def gauge(namespace: type | str, name: str, process_wide: bool = False) -> Gauge:
        """Return a gauge.  `process_wide` is Beam's, and has no effect: all metrics are those of the run."""
        return Gauge(_name(namespace, name))

    @staticmethod
    def string_set(namespace: type | str, name: str) -> StringSet:
        """Return a set of texts."""
        return StringSet(_name(namespace, name))

    @staticmethod
    def bounded_trie(namespace: type | str, name: str) -> BoundedTrie:
        """Return a set of paths, which are cut when there are too many."""
        return BoundedTrie(_name(namespace, name))

    @staticmethod
    def histogram(namespace: type | str, name: str, bucket_type: BucketType) -> HistogramMetric:
        """Return a histogram with some buckets, such as `LinearBucket(0, 10, num_buckets=20)`."""
        return HistogramMetric(_name(namespace, name), bucket_type)

    # The classes of metrics by Beam's names, for `isinstance`.
    DelegatingCounter = Counter
    DelegatingDistribution = Distribution
    DelegatingGauge = Gauge
    DelegatingStringSet = StringSet
    DelegatingBoundedTrie = BoundedTrie
    DelegatingHistogram = HistogramMetric


def _name(namespace: type | str, name: str) -> MetricName:
    if not namespace or not name:
        raise ValueError(f"a metric has a namespace and a name, got {namespace!r} and {name!r}")
    return MetricName(Metrics.get_namespace(namespace), name)


# Counts the elements and records of each step that were moved aside as dead letters.
DEAD_LETTERS = Metrics.counter("penstock", "dead_letters")
