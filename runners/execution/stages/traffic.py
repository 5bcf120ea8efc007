"""Traffic on the edges of the graph: the elements that pass, and their bytes, while a page shows them.

Between two steps every bundle is counted.  Within a fused stage generated code passes elements on one by one.  There
some bundles go through a function that also counts between its operations (`codegen.py`), and stand for the others.
The size of an element is that of its pickle, and known of samples.

>>> edge = EdgeTraffic()
>>> edge.count(Bundle(["a", "b"]), now=0)
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
_MANY, _SELDOM = 8_192, 1_000_000

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


class Pending:
    """Elements that have passed since the last sample.

    Args:
      seldom: the microseconds after which a sample is due.
      eager: for so many calls a sample is always due.

    Attributes:
      taken: the number of elements that the last sample stands for.
    """

    __slots__ = ("_eager", "_elements", "_seldom", "_since", "taken")

    def __init__(self, seldom: int, eager: int) -> None:
        self._seldom = seldom
        self._eager = eager
        self._elements = self.taken = 0
        self._since = 0

    def is_due(self, elements: int, now: int) -> bool:
        """Add elements.  Returns True if a sample is due: after so many elements, or after a time, and at first."""
        self._elements += elements
        if self._eager:
            self._eager -= 1
        elif self._elements < _MANY and now - self._since < self._seldom:
            return False
        self.taken, self._elements, self._since = self._elements, 0, now
        return True


class EdgeTraffic:
    """The elements that have passed an edge, and the average size of one in bytes.

    Attributes:
      elements: their number, which is a fraction where it is estimated.
    """

    __slots__ = ("_pending", "_size", "elements")

    def __init__(self) -> None:
        self.elements = 0.0
        self._size = 0.0
        self._pending = Pending(_SELDOM, 1)

    def count(self, bundle: Bundle, now: int) -> None:
        """Count the elements of a bundle; `now` is in microseconds."""
        n = len(bundle)
        self.elements += n
        if n and self._pending.is_due(n, now):
            self._add(size_of_bundle(bundle))

    def measure(self, elements: int, sample: Any, now: int) -> None:
        """Measure a sample of some elements, if one is due: one of them, or their bundle."""
        if self._pending.is_due(elements, now):
            self._add(size_of_bundle(sample) if isinstance(sample, Bundle) else _size_of(sample))

    def _add(self, size: float) -> None:
        # Later samples have more weight.
        self._size = size if not self._size else self._size + (size - self._size) / 8

    def traffic(self, estimates: Sequence[str]) -> Traffic:
        """Return what has passed."""
        return Traffic(round(self.elements), round(self.elements * self._size), estimates)


class StageTraffic:
    """The traffic between the operations of a fused stage, estimated from some of its bundles.

    The elements that enter the stage are known, and so are those that an operation has left at the end of a slice of
    time, and those that come back to it later.  From samples it is known how many elements an operation outputs for
    each that it processes.  All subtasks of a worker are counted together: those of a job with many have few samples
    each, and the page shows their sum.

    Args:
      stage: the stage.
      clock: processing time.
    """

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._clock = clock
        self._pcollections = [transform.inputs[0] for transform in stage.operations[1:]]
        self._edges = [EdgeTraffic() for _ in self._pcollections]
        length = len(stage.operations)
        # All that follow are by the place of an operation.  Elements that have entered there, and of those, the ones of
        # sampled bundles.
        self._entered = [0] * length
        self._sampled = [0] * length
        # Those that have come, less those that were left, since the last call of `traffic`.
        self._come = [0] * length
        # Of recent samples: elements that the operation has processed, and its outputs.
        self._processed = [0.0] * length
        self._output = [0.0] * length
        # Where the sampled bundle has entered, and how many elements each operation has processed of it.
        self._begun = 0
        self._passed = [0] * length

    def begin(self, executor: StageExecutor, place: int, elements: int) -> None:
        """Note that elements enter a subtask's copy at the operation of this place; they are sampled if it is time."""
        self._entered[place] += elements
        self._come[place] += elements
        if self._sampled[place] <= _FIRST + self._entered[place] // _SHARE:
            self._sampled[place] += elements
            self._begun, self._passed = place, [0] * len(self._come)
            executor.passed = self._take

    def end(self, executor: StageExecutor) -> None:
        """Note what the copy has left of them."""
        for at, left in executor.left:
            self._come[at] -= len(left)
        if executor.passed is None:
            return
        executor.passed = None
        reached = list(self._passed)
        for at, left in executor.left:
            reached[at] += len(left)
        for place in range(self._begun, len(reached) - 1):
            self._processed[place] += self._passed[place]
            self._output[place] += reached[place + 1]
            if self._processed[place] >= _MEMORY:
                self._processed[place] /= 2
                self._output[place] /= 2

    def _take(self, place: int, elements: int, sample: Any) -> None:
        self._passed[place] += elements
        if elements and place:
            self._edges[place - 1].measure(elements, sample, self._clock.now)

    def traffic(self) -> dict[int, Traffic]:
        """Return what has passed, by PCollection."""
        output = 0.0
        for place, edge in enumerate(self._edges):
            processed = max(0.0, output + self._come[place])
            output = processed * self._output[place] / self._processed[place] if self._processed[place] else 0.0
            edge.elements += output
        self._come = [0] * len(self._come)
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
