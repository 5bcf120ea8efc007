"""Traffic on the edges of the graph: the elements that pass, and their bytes, while a page shows them.

Between two steps every bundle is counted.  Within a fused stage generated code passes elements on one by one.  There
some bundles go through a kernel that also counts between its operations, and are a sample of all.
The size of an element is that of its pickle, and known of samples.

What is done for each bundle finds the processor's caches filled by the steps' own code, and takes several times as long
as in a loop of its own.  So it calls next to nothing.

>>> edge = EdgeTraffic()
>>> edge.count(Clock(), Bundle(["a", "b"]))
>>> edge.traffic(BYTES)
Traffic(elements=2, size=32, estimates=('bytes',))
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....sdk.elements.bundle import Bundle
from ..clock import Clock
from ..plan.fusion import Stage
from .executor import StageExecutor

# After so many elements one is sampled for its size, or after so many microseconds.
MANY, _SELDOM = 8_192, 1_000_000

# Of so many elements of a fused stage one is counted between the operations; the first ones all are.
_SHARE, _FIRST = 256, 256

# The number of counted elements beyond which the older ones lose half of their weight.
_MEMORY = 8_192

# What of the traffic is estimated.
BYTES, ALL = ("bytes",), ("elements", "bytes")


class Traffic(NamedTuple):
    """What has passed a PCollection: elements, and bytes.

    Attributes:
      estimates: which of them are estimated from samples: "elements", "bytes", both, or none.
    """

    elements: int
    size: int
    estimates: Sequence[str] = ()

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum.

        >>> Traffic(2, 20).plus(Traffic(1, 12, BYTES))
        Traffic(elements=3, size=32, estimates=('bytes',))
        """
        estimates = max(self.estimates, other.estimates, key=len)
        return Traffic(self.elements + other.elements, self.size + other.size, estimates)


class EdgeTraffic:
    """The elements that have passed an edge, and the average size of one in bytes.

    Attributes:
      elements: their number, which is a fraction where it is estimated.
    """

    __slots__ = ("_due_at", "_passed", "_size", "elements")

    def __init__(self) -> None:
        self.elements = 0.0
        self._size = 0.0
        # Elements since the last sample, and the time at which the next one is due.
        self._passed, self._due_at = 0, 0

    def count(self, clock: Clock, bundle: Bundle) -> None:
        """Count the elements of a bundle."""
        n = len(bundle)
        self.elements += n
        self._passed += n
        if n and (self._passed >= MANY or clock.now >= self._due_at):
            self._add(size_of_bundle(bundle), clock.now)

    def measure(self, elements: int, sample: Any, now: int) -> None:
        """Measure a sample of some elements, if one is due: one of them, or their bundle.  `now` is in microseconds."""
        self._passed += elements
        if self._passed >= MANY or now >= self._due_at:
            self._add(size_of_bundle(sample) if isinstance(sample, Bundle) else _size_of(sample), now)

    def _add(self, size: float, now: int) -> None:
        self._passed, self._due_at = 0, now + _SELDOM
        # Later samples have more weight.
        self._size = size if not self._size else self._size + (size - self._size) / 8

    def traffic(self, estimates: Sequence[str]) -> Traffic:
        """Return what has passed."""
        return Traffic(round(self.elements), round(self.elements * self._size), estimates)


class StageTraffic:
    """The traffic between the operations of a fused stage, estimated from some of its bundles.

    The elements that enter the stage are known, and so are restrictions that come back to an operation.  From samples
    it is known how many elements an operation outputs for each that it processes.  All subtasks of a worker are counted
    together: those of a job with many have few samples each, and the page shows their sum.

    Args:
      stage: the stage.
      clock: processing time.

    Attributes:
      entered: by the index of an operation, the elements that have entered the stage there.  The stage counts them.
      due: of those, how many are to have entered when a bundle is sampled.
    """

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._clock = clock
        self._pcollections = [transform.inputs[0] for transform in stage.operations[1:]]
        self._edges = [EdgeTraffic() for _ in self._pcollections]
        length = len(stage.operations)
        # All are by the index of an operation.
        self.entered = [0] * length
        self.due = [0] * length
        # Of the elements that have entered there, those of sampled bundles, and how many there were at the last call of
        # `traffic`.
        self._sampled = [0] * length
        self._told = [0] * length
        # Of recent samples: the elements that the operation has processed, and its outputs.
        self._processed = [0.0] * length
        self._output = [0.0] * length
        # Where the sampled bundle has entered, and how many elements each operation has processed of it.
        self._begun = 0
        self._passed = [0] * length

    def sample(self, executor: StageExecutor, index: int, elements: int) -> None:
        """Sample the elements that enter a subtask's copy next, at the operation of this index, until `sampled`."""
        self._sampled[index] += elements
        self.due[index] = max(0, self._sampled[index] - _FIRST) * _SHARE
        self._begun, self._passed = index, [0] * len(self.entered)
        executor.passed = self._take

    def sampled(self, executor: StageExecutor) -> None:
        """Note what the copy has passed on of them."""
        executor.passed = None
        reached = list(self._passed)
        for index in range(self._begun, len(reached) - 1):
            self._processed[index] += self._passed[index]
            self._output[index] += reached[index + 1]
            if self._processed[index] >= _MEMORY:
                self._processed[index] /= 2
                self._output[index] /= 2

    def _take(self, index: int, elements: int, sample: Any) -> None:
        self._passed[index] += elements
        if elements and index:
            self._edges[index - 1].measure(elements, sample, self._clock.now)

    def traffic(self) -> dict[int, Traffic]:
        """Return what has passed, by PCollection."""
        output = 0.0
        for index, edge in enumerate(self._edges):
            come = self.entered[index]
            processed = max(0.0, output + come - self._told[index])
            self._told[index] = come
            output = processed * self._output[index] / self._processed[index] if self._processed[index] else 0.0
            edge.elements += output
        return {i: edge.traffic(ALL) for i, edge in zip(self._pcollections, self._edges, strict=True)}


def size_of_bundle(bundle: Bundle) -> float:
    """Return the size of an element of a bundle, in bytes: that of its pickle, or of its part of the columns."""
    records = getattr(bundle, "records", None)
    if records is not None and hasattr(records, "nbytes"):
        return float(records.nbytes) / len(bundle)
    return _size_of(bundle.part(0, 1).values[0])


def _size_of(element: Any) -> float:
    """Return the pickled size of an element in bytes; 0 for one that can't be pickled."""
    try:
        return float(len(pickle.dumps(element, protocol=5)))
    except Exception:  # any error of user code's __reduce__
        return 0.0
