"""Map, FlatMap, Filter, MapTuple, FlatMapTuple: ParDos of a function, and of an expression over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..sdk.columns.column_bundle import Elements, Pairs, as_values, of_columns
from ..sdk.columns.expressions import Column, ColumnOperation, Projection, Selection
from ..sdk.dofn.dofn import (
    CallableDoFn,
    ColumnDoFn,
    DoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
)
from ..sdk.dofn.hints import hints_of_dofn
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.type_variables import A, B
from .filled_collections import warn_of_filled
from .pardo import ParDo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ParamSpec

    from ..sdk.elements.element_wrappers import TaggedOutput
    from ..sdk.static_types import Function

    P = ParamSpec("P")
    T = TypeVar("T")


class _CallableParDo(ParDo[A, B]):
    """A ParDo around a plain function."""

    dofn: type[CallableDoFn] = FlatMapDoFn
    # Makes the operation on columns of an expression.
    operation: Callable[[Column], ColumnOperation] | None = None

    def __init__(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(fn, Column):
            if self.operation is None or args or kwargs:
                raise TypeError(f"{type(self).__name__}: expected a function, got {fn!r}")
            super().__init__(ColumnDoFn(self.operation(fn), fn.text))
            return
        if isinstance(fn, DoFn):
            raise TypeError(f"{type(self).__name__}: expected a function, got the DoFn {fn!r}; did you mean ParDo?")
        if isinstance(fn, PTransform) or not callable(fn):
            raise TypeError(f"{type(self).__name__}: expected a function, got {fn!r}")
        warn_of_filled(fn, type(self).__name__)
        dofn: Any = self.dofn(fn)
        super().__init__(dofn, *args, **kwargs)


class Map(_CallableParDo[A, B]):
    """One output for each element: the function's result, or the value of an expression of `col`.

    A tuple of expressions gives tuples: `Map((col("user"), col("value")))` pairs of a key and a value, and
    `Map((col("user"), (col("price"), col("quantity"))))` pairs whose values are tuples.

    >>> import penstock as beam
    >>> [1, 2] | beam.Map(lambda x, y: x * y, 10)
    [10, 20]
    >>> [beam.Row(price=3, quantity=2)] | beam.Map(beam.col("price") * beam.col("quantity"))
    [6]
    """

    dofn = MapDoFn
    operation = staticmethod(lambda column: Projection((("value", column),), as_values))

    def __init__(self, fn: Function[A, P, B | TaggedOutput], *args: P.args, **kwargs: P.kwargs) -> None:
        self._apply_of(fn, *args, **kwargs)

    def _apply_of(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fn, tuple):
            super().__init__(fn, *args, **kwargs)
            return
        if args or kwargs:
            raise TypeError(f"Map: expected a function before further arguments, got {fn!r}")
        fields: list[tuple[str, Column]] = []
        makers = [_tuples(item, fields) for item in fn]
        elements: Elements = of_columns
        if len(makers) == 2:
            first = fn[0]
            elements = Pairs(len(first) if isinstance(first, tuple) else 1, *makers)
        elif of_columns in makers:
            raise TypeError(f"Map: only pairs may have tuples of expressions as their items, got {fn!r}")
        label = ", ".join(column.text for _, column in fields)
        ParDo.__init__(self, ColumnDoFn(Projection(tuple(fields), elements), label))


def _tuples(item: Any, fields: list[tuple[str, Column]]) -> Elements:
    """Add the expressions of a pair's item to the fields; return what makes the item of its columns."""
    columns = item if isinstance(item, tuple) else (item,)
    for column in columns:
        if not isinstance(column, Column):
            raise TypeError(f"Map: expected an expression of col, got {column!r}")
        fields.append((f"field{len(fields)}", column))
    return of_columns if isinstance(item, tuple) else as_values


class FlatMap(_CallableParDo[A, B]):
    """Any number of outputs for each element: the items of the function's result.

    >>> import penstock as beam
    >>> ["a b", "c"] | beam.FlatMap(str.split)
    ['a', 'b', 'c']
    """

    dofn = FlatMapDoFn

    def __init__(
        self,
        fn: Function[A, P, Iterable[B | TaggedOutput] | None] = lambda x: x,  # type: ignore[assignment]
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        super().__init__(fn, *args, **kwargs)


class Filter(_CallableParDo[A, A]):
    """The elements for which the function returns true, or an expression of `col` is true.

    >>> import penstock as beam
    >>> [1, 2, 3] | beam.Filter(lambda x: x != 2)
    [1, 3]
    >>> [beam.Row(age=3), beam.Row(age=36)] | beam.Filter(beam.col("age") >= 18)
    [Row(age=36)]
    """

    dofn = FilterDoFn
    operation = Selection

    if TYPE_CHECKING:
        _unwraps: None  # type: ignore[assignment]

        def __init__(self, fn: Function[A, P, object], *args: P.args, **kwargs: P.kwargs) -> None: ...
        def _takes(self, element: A, /) -> None: ...
        def _gives(self, pcoll: PCollection[T], /) -> PCollection[T]: ...

    def get_type_hints(self) -> Any:
        """Return the types of its elements as Beam's `IOTypeHints`: those that the function takes are its outputs."""
        hints = super().get_type_hints()
        taken, _ = hints_of_dofn(self.fn)
        return hints if taken is None or hints.output_types else hints.with_output_types(taken)


class MapTuple(_CallableParDo[Any, B]):
    """Map, with the items of each element as the function's arguments.

    >>> import penstock as beam
    >>> [("a", 1)] | beam.MapTuple(lambda key, value: key * value)
    ['a']
    """

    dofn = MapTupleDoFn

    if TYPE_CHECKING:

        def __init__(self, fn: Callable[..., B | TaggedOutput], *args: Any, **kwargs: Any) -> None: ...


class FlatMapTuple(_CallableParDo[Any, B]):
    """FlatMap, with the items of each element as the function's arguments.

    >>> import penstock as beam
    >>> [("a", 2)] | beam.FlatMapTuple(lambda key, n: [key] * n)
    ['a', 'a']
    """

    dofn = FlatMapTupleDoFn

    if TYPE_CHECKING:

        def __init__(self, fn: Callable[..., Iterable[B | TaggedOutput] | None], *args: Any, **kwargs: Any) -> None: ...
