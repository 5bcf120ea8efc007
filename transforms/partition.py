"""Partition: one PCollection as several, each element in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

from ..sdk.dofn import DoFn, label_of
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.tagged_output import TaggedOutput
from .pardo import ParDo


class PartitionFn:
    """Says which partition an element belongs to.

    >>> class ByLength(PartitionFn):
    ...     def partition_for(self, element, num_partitions):
    ...         return min(len(element), num_partitions) - 1
    >>> ByLength().partition_for("abc", 2)
    1
    """

    def default_label(self) -> str:
        """What a `Partition` by this is called that was given no label."""
        return type(self).__name__

    def partition_for(self, element: Any, num_partitions: int, *args: Any, **kwargs: Any) -> int:
        """The number of the element's partition: at least 0, less than `num_partitions`."""
        raise NotImplementedError(f"{type(self).__name__}.partition_for")


class Partition(PTransform):
    """The elements as `n` PCollections, in a tuple.

    Args:
      fn: called with an element, `n` and the further arguments, says which of them; or a
        `PartitionFn`.
      n: how many.

    Raises, when the pipeline runs, `ValueError` for an answer outside of 0 to `n - 1`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     even, odd = p | beam.Create([1, 2, 3]) | beam.Partition(lambda x, n: x % n, 2)
    ...     _ = odd | beam.combiners.Count.Globally() | beam.Map(print)
    2
    """

    def __init__(self, fn: PartitionFn | Callable[..., int], n: int, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        given: Any = fn
        if isinstance(given, type) and issubclass(given, PartitionFn):
            raise TypeError(f"got the class {given.__name__}; did you forget to call it: {given.__name__}()?")
        if not isinstance(given, PartitionFn) and not callable(given):
            raise TypeError(f"Partition: expected a function or a PartitionFn, got {fn!r}")
        if not _is_whole(n) or n < 1:
            raise ValueError(f"Partition: expected how many partitions there are, at least 1; got {n!r}")
        self.fn = fn
        self.n = int(n)
        self.args = args
        self.kwargs = kwargs

    def default_label(self) -> str:
        return f"Partition({self.fn.default_label() if isinstance(self.fn, PartitionFn) else label_of(self.fn)})"

    def expand(self, pcoll: PCollection[Any]) -> tuple[PCollection[Any], ...]:
        dofn = _PartitionDoFn(self.fn, self.n, pcoll.pipeline.full_label)
        tags = [str(i) for i in range(self.n)]
        outputs = pcoll | "Split" >> ParDo(dofn, *self.args, **self.kwargs).with_outputs(*tags)
        parts = tuple(outputs[tag] for tag in tags)
        for part in parts:
            part.element_type = pcoll.element_type
        return parts


class _PartitionDoFn(DoFn):
    def __init__(self, fn: PartitionFn | Callable[..., int], n: int, label: str) -> None:
        self.fn = fn
        self.n = n
        self.label = label

    def setup(self) -> None:
        self.partition_for = self.fn.partition_for if isinstance(self.fn, PartitionFn) else self.fn

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        index = self.partition_for(element, self.n, *args, **kwargs)
        # An exact int is by far the most common answer, and the quickest to know.
        if (type(index) is not int and not _is_whole(index)) or not 0 <= index < self.n:
            raise ValueError(
                f"{self.label}: the partition function gave {index!r}, expected an int from 0 to {self.n - 1}"
            )
        return (TaggedOutput(str(int(index)), element),)


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)
