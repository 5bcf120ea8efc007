"""Map, FlatMap, Filter, MapTuple, FlatMapTuple: ParDos of a function, and of an expression over columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ...sdk.columns.column_elements import Elements, Pairs, as_values, of_columns
from ...sdk.columns.expressions import Column, ColumnOperation, Projection, Selection
from ...sdk.dofn.dofn import (
    CallableDoFn,
    ColumnDoFn,
    DoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
)
from ...sdk.dofn.hints import hints_of_dofn
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A, B, K, KeptT, R, T
from .filled_collections import warn_of_filled
from .pardo import ParDo

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec, TypeGuard

    from typing_extensions import TypeIs

    from ...sdk.elements.element_wrappers import TaggedOutput
    from ...sdk.static_types import (  # noqa: F401 (in parameters of classes)
        Formatting,
        Function,
        FunctionOfItems,
        Gradual,
        Items,
        Lambda,
        NoLambda,
        OfPath,
        Power,
        Result,
        Same,
        Summation,
    )

    P = ParamSpec("P")
    Element = TypeVar("Element")
    Dict = TypeVar("Dict", bound=dict[Any, Any])
    Kept = TypeVar("Kept")
    Text = TypeVar("Text", int, str, bytes)
    X = TypeVar("X")
    Y = TypeVar("Y")

# Mypy takes it as true.
MYPY = False
if MYPY:
    from ...sdk.static_types import (
        PairWithDefault,
        PairWithDefaults,
        PairWithKeywords,
        WithArgumentAndDefault,
        WithArgumentAndDefaults,
        WithDefault,
        WithDefaults,
        WithKeywords,
        WithThreeDefaults,
    )


class _CallableParDo(ParDo[A, B], Generic[A, B, R, T]):
    """A ParDo around a plain function with results of type R, which messages show as T."""

    dofn: type[CallableDoFn] = FlatMapDoFn
    # Makes the operation on columns of an expression.
    operation: Callable[[Column], ColumnOperation] | None = None

    if MYPY:

        @overload
        def __init__(self) -> None: ...
        # No function has a `Result`.  By the first signature with as many arguments mypy says which one is wrong.
        @overload
        def __init__(self, fn: Callable[[A], T]) -> None: ...
        @overload
        def __init__(self, fn: Callable[[A, X], T], argument: X, /) -> None: ...
        @overload
        def __init__(self, fn: Callable[[A, X, Y], T], argument: X, second: Y, /) -> None: ...
        @overload
        def __init__(self, fn: WithKeywords[A, T], **kwargs: Any) -> None: ...
        @overload
        def __init__(self: Filter[Element, Kept], fn: Callable[[Element], TypeGuard[Kept]]) -> None: ...  # type: ignore[misc]
        @overload
        def __init__(self: Filter[Element, Kept], fn: Callable[[Element], TypeIs[Kept]]) -> None: ...  # type: ignore[misc]
        @overload
        def __init__(self, fn: Function[A, P, R], *args: P.args, **kwargs: P.kwargs) -> None: ...
        @overload
        def __init__(self, fn: WithKeywords[A, R], **kwargs: Any) -> None: ...
        @overload
        def __init__(self, fn: WithDefault[A, R], **kwargs: Any) -> None: ...
        @overload
        def __init__(self, fn: WithDefaults[A, R], **kwargs: Any) -> None: ...  # type: ignore[overload-cannot-match]
        @overload
        def __init__(self, fn: WithThreeDefaults[A, R], **kwargs: Any) -> None: ...  # type: ignore[overload-cannot-match]
        @overload
        def __init__(self, fn: WithArgumentAndDefault[A, X, R], argument: X, /, **kwargs: Any) -> None: ...
        @overload
        def __init__(self, fn: WithArgumentAndDefaults[A, X, R], argument: X, /, **kwargs: Any) -> None: ...
        # Of an overloaded constructor mypy tries only the first signature.
        @overload
        def __init__(self: Map[Any, Text], fn: type[Text], argument: str | int, /) -> None: ...  # type: ignore[misc]
        @overload
        def __init__(self: Map[Any, int], fn: type[int], *, base: int) -> None: ...  # type: ignore[misc]
        @overload
        def __init__(self: Map[str, tuple[str, str]], fn: OfPath | NoLambda) -> None: ...  # type: ignore[misc]
        # And of `max`.
        @overload
        def __init__(self: Map[Iterable[X], X], fn: Callable[..., Any], *, default: X) -> None: ...  # type: ignore[misc]
        @overload
        def __init__(self, fn: tuple[Column | tuple[Column, ...], ...]) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...  # type: ignore[misc]
    elif TYPE_CHECKING:
        # With another result Pyright keeps the parts of a type that it knows.

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(self: Map[Any, Any], fn: Gradual, *args: Any, **kwargs: Any) -> None: ...
        @overload
        def __init__(self: Map[Iterable[X], X], fn: Summation, *args: Any, **kwargs: Any) -> None: ...
        @overload
        def __init__(self: Map[Any, Dict], fn: type[Dict]) -> None: ...
        @overload
        def __init__(self: Map[Any, Any], fn: Power, argument: float, *args: Any) -> None: ...
        @overload
        def __init__(self: Map[object, str], fn: Formatting, *args: object, **kwargs: object) -> None: ...
        # `sorted` and the like.  Pyright doesn't know the parameter of the lambda.
        @overload
        def __init__(
            self: Map[Any, Y], fn: Callable[..., Y], *, key: Lambda | Callable[..., Any], **kwargs: Any
        ) -> None: ...
        @overload
        def __init__(
            self: FlatMap[Any, Y], fn: Callable[..., Iterable[Y]], *, key: Lambda | Callable[..., Any], **kwargs: Any
        ) -> None: ...
        @overload
        def __init__(self: Filter[Element, Kept], fn: Lambda | Callable[[Element], TypeGuard[Kept]]) -> None: ...
        @overload
        def __init__(self: Filter[Element, Kept], fn: Lambda | Callable[[Element], TypeIs[Kept]]) -> None: ...
        @overload
        def __init__(self, fn: Function[A, P, R | TaggedOutput], *args: P.args, **kwargs: P.kwargs) -> None: ...
        @overload
        def __init__(self: FlatMap[Iterable[X], X], fn: Callable[[Iterable[X]], Iterable[X]]) -> None: ...
        @overload
        def __init__(self, fn: tuple[Column | tuple[Column, ...], ...]) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    else:

        def __init__(self, fn, *args, **kwargs):
            self._apply_of(fn, *args, **kwargs)

    def _apply_of(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        """Be a ParDo of a function, or of an expression."""
        if isinstance(fn, Column):
            if self.operation is None or args or kwargs:
                raise TypeError(f"{type(self).__name__}: expected a function, got {fn!r}")
            ParDo.__init__(self, ColumnDoFn(self.operation(fn), fn.text))
            return
        if isinstance(fn, DoFn):
            raise TypeError(f"{type(self).__name__}: expected a function, got the DoFn {fn!r}; did you mean ParDo?")
        if isinstance(fn, PTransform) or not callable(fn):
            raise TypeError(f"{type(self).__name__}: expected a function, got {fn!r}")
        warn_of_filled(fn, type(self).__name__)
        dofn: Any = self.dofn(fn)
        ParDo.__init__(self, dofn, *args, **kwargs)


class Map(_CallableParDo[A, B, B, "Result"]):
    """One output for each element: the function's result, or the value of an expression of `col`.

    Returns a `PCollection[B]` for a function with results of type B.

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

    def _apply_of(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fn, tuple):
            super()._apply_of(fn, *args, **kwargs)
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


class FlatMap(_CallableParDo[A, B, Iterable[B] | None, "Iterable[Result] | None"]):
    """Any number of outputs for each element: the items of the function's result.

    Returns a `PCollection[B]` for a function that returns an iterable of elements of type B.

    >>> import penstock as beam
    >>> ["a b", "c"] | beam.FlatMap(str.split)
    ['a', 'b', 'c']
    """

    dofn = FlatMapDoFn

    if not TYPE_CHECKING:

        def __init__(self, fn=lambda x: x, *args, **kwargs):
            super().__init__(fn, *args, **kwargs)


class Filter(_CallableParDo[A, A, object, "Result"], Generic[A, KeptT]):
    """The elements for which the function returns true, or an expression of `col` is true.

    Returns a `PCollection[T]`, as its input is, or for a function that returns `TypeGuard[T]` or `TypeIs[T]`.

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

        def _takes(self, element: A, /) -> None: ...
        def _keeps(self) -> KeptT: ...
        @overload
        def _gives(self: Filter[A, Same], pcoll: PCollection[Element], /) -> PCollection[Element]: ...
        @overload
        def _gives(self, pcoll: PCollection[Any], /) -> PCollection[KeptT]: ...
        def _gives(self, pcoll: Any, /) -> Any: ...

    def get_type_hints(self) -> Any:
        """Return the types of its elements as Beam's `IOTypeHints`: those that the function takes are its outputs."""
        hints = super().get_type_hints()
        taken, _ = hints_of_dofn(self.fn)
        return hints if taken is None or hints.output_types else hints.with_output_types(taken)


class _TupleParDo(_CallableParDo["Items[A, B]", K, R, T], Generic[A, B, K, R, T]):
    """A ParDo of elements of type K around a function of an element's items."""

    if MYPY:

        @overload
        def __init__(self, fn: Callable[[A, B], T]) -> None: ...
        @overload
        def __init__(self, fn: Callable[Concatenate[A, B, P], R], *args: P.args, **kwargs: P.kwargs) -> None: ...
        @overload
        def __init__(self, fn: Callable[[Any, Any, Any], R]) -> None: ...
        @overload
        def __init__(self, fn: PairWithKeywords[A, B, R], **kwargs: Any) -> None: ...
        @overload
        def __init__(self, fn: PairWithDefault[R], *args: Any, **kwargs: Any) -> None: ...
        @overload
        def __init__(self, fn: PairWithDefaults[R], *args: Any, **kwargs: Any) -> None: ...  # type: ignore[overload-cannot-match]
        @overload
        def __init__(self, fn: Callable[[Any, Any, Any, Any], R], *args: Any, **kwargs: Any) -> None: ...
        @overload
        def __init__(  # type: ignore[overload-cannot-match]
            self, fn: Callable[Concatenate[Any, Any, Any, ...], R], *args: Any, **kwargs: Any
        ) -> None: ...
        @overload
        def __init__(self, fn: FunctionOfItems, *args: Any, **kwargs: Any) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    elif TYPE_CHECKING:

        def __init__(self, fn: Callable[..., R], *args: Any, **kwargs: Any) -> None: ...


class MapTuple(_TupleParDo[A, B, R, R, "Result"], Generic[A, B, R]):
    """Map, with the items of each element as the function's arguments.

    Returns a `PCollection[B]` for a function with results of type B.

    >>> import penstock as beam
    >>> [("a", 1)] | beam.MapTuple(lambda key, value: key * value)
    ['a']
    """

    dofn = MapTupleDoFn


class FlatMapTuple(_TupleParDo[A, B, R, Iterable[R] | None, "Iterable[Result] | None"], Generic[A, B, R]):
    """FlatMap, with the items of each element as the function's arguments.

    Returns a `PCollection[B]` for a function that returns an iterable of elements of type B.

    >>> import penstock as beam
    >>> [("a", 2)] | beam.FlatMapTuple(lambda key, n: [key] * n)
    ['a', 'a']
    """

    dofn = FlatMapTupleDoFn
