"""Edge sampler: counts what passes the edges between steps, and samples the keys, while a page shows them.

A listener receives each bundle of a PCollection before its consumers do.  Without a page no listener is added, and
nothing is spent.  Sizes and keys are of samples, whose number is limited by elements and by time,
however small the bundles are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from ....sdk.elements.bundle import Bundle
from ..clock import Clock
from ..plan.fusion import Grouping, Keyed, Plan
from ..stages.traffic import MANY
from ..user_errors import shortened
from ..windows.combining import FoldedBundle
from .dataflow import Dataflow
from .traffic import DataflowTraffic, WorkerTraffic

# After so many microseconds the key of an element is sampled, or after as many elements as its size is.
_KEYED = 1_000_000

# Of the first elements one of each bundle is sampled for its key, so that the keys of a slow stream are known soon.
_FIRST = 100

# The golden ratio, whose multiples fill an interval evenly.
_GOLDEN = 0.6180339887498949

# Keys in a sketch.
_KEYS = 256


class HotKeys:
    """Counts of the most frequent keys among samples, after the Space-Saving sketch of Metwally et al. (2005).

    When twice the keys are counted, the less frequent half is dropped at once.  A new key begins with the greatest
    count that was dropped, so that no count is too low.

    >>> keys = HotKeys(2)
    >>> for key in "aabacdbe":
    ...     keys.add(key)
    >>> keys.total, sorted(keys.counts.items())
    (8, [('a', 3), ('b', 2), ('e', 2)])
    """

    def __init__(self, size: int = _KEYS) -> None:
        self._size = size
        self._dropped = 0
        self.total = 0
        self.counts: dict[str, int] = {}

    def add(self, key: str, count: int = 1) -> None:
        """Count a key."""
        self.total += count
        counts = self.counts
        counts[key] = counts.get(key, self._dropped) + count
        if len(counts) >= 2 * self._size:
            ordered = sorted(counts.items(), key=lambda entry: -entry[1])
            self._dropped = max(self._dropped, ordered[self._size][1])
            self.counts = dict(ordered[: self._size])


class _KeySamples:
    """The samples of the keys of a PCollection.

    Args:
      keys: counts them.

    Attributes:
      passed, due_at: the elements since the last sample, and the time in microseconds at which the next one is due.
    """

    __slots__ = ("due_at", "keys", "passed")

    def __init__(self, keys: HotKeys) -> None:
        self.keys = keys
        self.passed = self.due_at = 0


class EdgeSampler:
    """Counts of what passes some PCollections, and samples of the keys among them.

    Args:
      dataflow, plan: the steps that run, and the plan that they are of.
      produced: the PCollections that are outputs of the steps.
      traffic: where what passes the edges is counted, with that of the others of the worker.
      keys: by step, the most frequent keys.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        plan: Plan,
        produced: Collection[int],
        clock: Clock,
        traffic: WorkerTraffic,
        keys: dict[str, HotKeys],
    ) -> None:
        self.traffic = traffic
        self.keys = keys
        self._clock = clock
        self._dataflow = dataflow
        self._attached: list[tuple[int, Callable[[Bundle], None]]] = []
        self._samples = 0
        self._counting = DataflowTraffic(dataflow, produced, clock, traffic)
        for step in plan.steps:
            if isinstance(step, (Grouping, Keyed)) and step.transform.inputs[0] in produced:
                sketch = keys.setdefault(step.transform.label, HotKeys())
                self._listen(step.transform.inputs[0], partial(self._take_keys, _KeySamples(sketch)))

    def _listen(self, pcollection: int, receive: Callable[[Bundle], None]) -> None:
        self._dataflow.add_listener(pcollection, receive)
        self._attached.append((pcollection, receive))

    def detach(self) -> None:
        """Remove all listeners."""
        for pcollection, receive in self._attached:
            self._dataflow.remove_listener(pcollection, receive)
        self._attached = []
        self._counting.detach()

    def _take_keys(self, samples: _KeySamples, bundle: Bundle) -> None:
        if isinstance(bundle, FoldedBundle):
            return
        # As `EdgeTraffic.count`, it calls next to nothing for most bundles.
        n, now = len(bundle), self._clock.now
        samples.passed += n
        if not n or (samples.passed < MANY and now < samples.due_at and samples.keys.total >= _FIRST):
            return
        # Spread over bundles of any size, and of the same size, too.
        self._samples += 1
        at = int(self._samples * _GOLDEN % 1.0 * n)
        for value in bundle.part(at, at + 1).values:
            # Elements that are no pairs are an error of the step itself.
            if isinstance(value, (tuple, list)) and len(value) == 2:
                samples.keys.add(shortened(value[0]), samples.passed)
        samples.passed, samples.due_at = 0, now + _KEYED
