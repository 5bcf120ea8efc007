"""Partition: a PCollection split into several."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ...sdk.dofn.dofn import DoFn, DoFnParam
from ...sdk.elements.element_wrappers import TaggedOutput
from ...sdk.errors import InputError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A
from ...sdk.user_code.signatures import label_of, signature
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.static_types import Function

    T = TypeVar("T")
    P = ParamSpec("P")


class PartitionFn:
    """Base class of partition functions.

    >>> class ByLength(PartitionFn):
    ...     def partition_for(self, element, num_partitions):
    ...         return min(len(element), num_partitions) - 1
    >>> ByLength().partition_for("abc", 2)
    1
    """

    def default_label(self) -> str:
        """Return the default label of a `Partition` by this function."""
        return type(self).__name__

    def partition_for(self, element: Any, num_partitions: int, *args: Any, **kwargs: Any) -> int:
        """Return the number of the element's partition, from 0 to `num_partitions - 1`."""
        raise NotImplementedError(f"{type(self).__name__}.partition_for")


class Partition(PTransform, Generic[A]):
    """The elements split into a tuple of `n` PCollections.

    Returns a tuple of `n` times a `PCollection[T]`, as its input is.

    Args:
      fn: a function from an element, `n` and the further arguments to the number of a partition; or a `PartitionFn`.
      n: the number of partitions.

    Raises `ValueError`, while the pipeline runs, for a result outside of 0 to `n - 1`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     even, odd = p | beam.Create([1, 2, 3]) | beam.Partition(lambda x, n: x % n, 2)
    ...     _ = odd | beam.combiners.Count.Globally() | beam.Map(print)
    2
    """

    if TYPE_CHECKING:
        _expands: None  # type: ignore[assignment]

        def _takes(self, element: A, /) -> None: ...
        def _splits(self) -> None: ...
        def _gives(self, pcoll: PCollection[T], /) -> tuple[PCollection[T], ...]: ...

    @overload
    def __init__(self: Partition[object], fn: PartitionFn, n: int, *args: Any, **kwargs: Any) -> None: ...
    @overload
    def __init__(
        self, fn: Function[A, Concatenate[int, P], int], n: int, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...
    def __init__(self, fn: Any, n: int, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        given: Any = fn
        if isinstance(given, type) and issubclass(given, PartitionFn):
            raise InputError(f"got the class {given.__name__}; did you forget to call it: {given.__name__}()?")
        if not isinstance(given, PartitionFn) and not callable(given):
            raise TypeError(f"Partition: expected a function or a PartitionFn, got {fn!r}")
        if not _is_whole(n) or n < 1:
            raise ValueError(f"Partition: expected a number of partitions, at least 1; got {n!r}")
        self.fn = fn
        self.n = int(n)
        self.args = args
        self.kwargs = kwargs

    def default_label(self) -> str:
        return f"Partition({self.fn.default_label() if isinstance(self.fn, PartitionFn) else label_of(self.fn)})"

    def expand(self, pcoll: PCollection[A]) -> tuple[PCollection[A], ...]:
        dofn = _PartitionDoFn(self.fn, self.n, pcoll.pipeline.full_label)
        tags = [str(i) for i in range(self.n)]
        outputs = pcoll | "Split" >> ParDo(dofn, *self.args, **self.kwargs).with_outputs(*tags)
        parts = tuple(outputs[tag] for tag in tags)
        for part in parts:
            part.hint = pcoll.hint
        return parts


class _PartitionDoFn(DoFn):
    def __init__(self, fn: PartitionFn | Callable[..., int], n: int, label: str) -> None:
        self.fn = fn
        self.n = n
        self.label = label

    # A function with the user function's parameters except `n`, which is created in each worker.
    @cached_property
    def process(self) -> Any:
        n, label = self.n, self.label
        partition_for = self.fn.partition_for if isinstance(self.fn, PartitionFn) else self.fn

        def process(element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
            index = partition_for(element, n, *args, **kwargs)
            # An exact int is by far the most common result, and the fastest to check.
            if type(index) is not int and not _is_whole(index):
                raise ValueError(
                    f"{label}: PartitionFn yielded a '{type(index).__name__}' when it should only yield integers: "
                    f"{index!r}, expected an int from 0 to {n - 1}"
                )
            if not 0 <= index < n:
                raise ValueError(
                    f"{label}: the partition function returned {index!r}, expected an int from 0 to {n - 1}"
                )
            return (TaggedOutput(str(int(index)), element),)

        process.__qualname__ = label_of(partition_for)
        parameters = _parameters(partition_for)
        if parameters is not None:
            process.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return process

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process"}


def _parameters(partition_for: Callable[..., int]) -> list[inspect.Parameter] | None:
    """Return a partition function's parameters except the second, the number of partitions, or None if unknown."""
    try:
        parameters = list(signature(partition_for).parameters.values())
    except (TypeError, ValueError):  # a built-in
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(by_position) < 2 or any(isinstance(p.default, DoFnParam) for p in by_position[:2]):
        return None
    return [p for p in parameters if p is not by_position[1]]


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)
