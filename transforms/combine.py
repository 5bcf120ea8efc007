"""CombinePerKey, CombineGlobally, CombineValues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, Self, Tuple, TypeVar, overload  # noqa: UP035

from ..sdk.columns.column_elements import Pairs, as_nones
from ..sdk.columns.expressions import Rearrangement
from ..sdk.combine_fn import CombineFn
from ..sdk.dofn.arrangement import SECOND, WHOLE, ArrangementDoFn, Constant
from ..sdk.dofn.dofn import DoFn
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.side_inputs import AsList, AsSideInput, AsSingleton, SingletonOrMade
from ..sdk.type_variables import CombinerT_co
from ..sdk.typehints import declared_hints, hints_of_callable, pair_of, value_type
from ..sdk.user_code.serialization import Serialized
from ..sdk.user_code.signatures import label_of
from ..triggers import DefaultTrigger
from ..windowing import GlobalWindows
from .assign_windows import WindowInto
from .create import Create
from .flatten import Flatten
from .group_by_key import GroupByKey, add_grouping, pair_types
from .hot_key_fanout import WithHotKeyFanout, checked_fanout
from .par_do.map_and_filter import FlatMap, Map
from .par_do.pardo import ParDo

if TYPE_CHECKING:
    from ..sdk.static_types import Applicable, Combiner, Fold, FunctionOfList, GenericCombiner

    A = TypeVar("A")
    B = TypeVar("B")
    K = TypeVar("K")
    V = TypeVar("V")
    R = TypeVar("R")
    T = TypeVar("T")


# Mypy takes it as true.
MYPY = False


class _Combining(PTransform, Generic[CombinerT_co]):
    """Base class of transforms with a combiner and its further arguments."""

    def __init__(self, fn: CombinerT_co, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.combine_fn = CombineFn.maybe_from_callable(fn, bool(args or kwargs))
        given: Any = fn
        self.fn_label = label_of(given) if not isinstance(fn, CombineFn) else type(fn).__name__
        self.args = args
        self.kwargs = kwargs


class CombinePerKey(_Combining[CombinerT_co]):
    """(key, value) pairs to (key, combined value), for each key and window.

    Returns a `PCollection[tuple[K, R]]` for pairs with keys of type K, and a combiner with results of type R.

    `fn` is a `CombineFn`, or a function of an iterable that is associative, such as `sum`.
    Further arguments are passed to it.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2), ("a", 3)] | beam.CombinePerKey(sum)
    [('a', 4), ('b', 2)]
    """

    if TYPE_CHECKING and not MYPY:
        _declares: None

        @overload  # type: ignore[override]
        def __ror__(
            self: CombinePerKey[Combiner[V, R]], left: PCollection[tuple[K, V]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(self: CombinePerKey[Fold], left: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]: ...
        @overload
        def __ror__(
            self: CombinePerKey[FunctionOfList[V, R]], left: PCollection[tuple[K, V]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(self: CombinePerKey[type[R]], left: PCollection[tuple[K, Any]]) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(
            self: CombinePerKey[FunctionOfList[Any, R]], left: PCollection[tuple[K, Any]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(self: Applicable[PCollection[A], PCollection[B]], left: Iterable[A]) -> list[B]: ...
        def __ror__(self, left: Any) -> Any: ...

    late_tag: str | None = None

    def default_label(self) -> str:
        return f"{type(self).__name__}({self.fn_label})"

    def with_hot_key_fanout(self, fanout: int | Callable[[Any], int] | None) -> Self:
        """Return the transform in two steps, so that a hot key is combined in parallel.

        Inputs that may be retracted, and combiners that take side inputs, are combined in one step.

        Args:
          fanout: the number of parts of a key's values, or a function from the key to that number.  0, 1 and None mean
            no fanout.
        """
        if fanout is None:
            return self
        fn = None if self._takes_side_inputs else _curried(self.combine_fn, self.args, self.kwargs)
        with_fanout: Any = WithHotKeyFanout(self, fn, fanout, self.late_tag, self.label)
        return with_fanout  # type: ignore[no-any-return]

    @property
    def _takes_side_inputs(self) -> bool:
        return any(isinstance(value, AsSideInput) for value in (*self.args, *self.kwargs.values()))

    def with_late_data(self, tag: str = "late") -> PTransform[Any, Any]:
        """Return the transform with a second output: the elements that arrived after their window had expired."""
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, late_tag=tag)
        return changed

    @overload
    def expand(self: CombinePerKey[Combiner[V, R]], pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(self: CombinePerKey[Fold], pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]: ...
    @overload
    def expand(
        self: CombinePerKey[FunctionOfList[V, R]], pcoll: PCollection[tuple[K, V]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(self: CombinePerKey[type[R]], pcoll: PCollection[tuple[K, Any]]) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(
        self: CombinePerKey[FunctionOfList[Any, R]], pcoll: PCollection[tuple[K, Any]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(
        self: CombinePerKey[GenericCombiner[Never, R]], pcoll: PCollection[tuple[K, Any]]
    ) -> PCollection[tuple[K, R]]: ...
    def expand(self, pcoll: Any) -> Any:
        key, combined = pair_types(pcoll)
        value = self.output_type(combined)
        hint = Tuple[key, value]  # type: ignore[valid-type]  # noqa: UP006
        if self._takes_side_inputs:
            # Side inputs are available only after the shuffle.
            combine = CombineValues(self.combine_fn, *self.args, **self.kwargs)
            return pcoll | "Group" >> GroupByKey() | "Combine" >> combine
        label = pcoll.pipeline.full_label
        fn = Serialized(_curried(self.combine_fn, self.args, self.kwargs), label)
        return add_grouping(pcoll, fn, hint, self.late_tag)

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        value = declared_hints(self.combine_fn)[0]
        return pair_of(Any, value) if accepted is None and value is not None else accepted, produced

    def output_type(self, input_type: Any) -> Any:
        """Return the type of a combined value for values of a type; `Any` if unknown."""
        declared = declared_hints(self.combine_fn)[1]
        if declared is not None:
            return declared
        inferred = self.combine_fn.infer_output_type(input_type) if _tells_its_type(self.combine_fn) else Any
        if inferred is not Any:
            return inferred
        produced = hints_of_callable(self.combine_fn.extract_output, skip_self=False)[1]
        return Any if produced is None or not isinstance(produced, type) else produced


def _tells_its_type(fn: CombineFn[Any, Any, Any]) -> bool:
    """Return whether a combiner's `infer_output_type` is of its `extract_output`, which a subclass may replace."""
    defined = next(vars(kind) for kind in type(fn).__mro__ if {"infer_output_type", "extract_output"} & set(vars(kind)))
    return "infer_output_type" in defined


class CombineGlobally(_Combining[CombinerT_co]):
    """All values of each window, combined to one.

    Returns a `PCollection[R]` for a combiner with results of type R.

    In the global window the output for an empty input is the result of `fn` for no elements.  Other windows need
    `without_defaults()` or `as_singleton_view()`, since there are endlessly many empty windows.

    >>> import penstock as beam
    >>> [1, 2, 3] | beam.CombineGlobally(sum)
    [6]
    """

    if TYPE_CHECKING and not MYPY:
        _declares: None

        @overload
        def __ror__(self: CombineGlobally[Combiner[V, R]], left: PCollection[V]) -> PCollection[R]: ...
        @overload
        def __ror__(self: CombineGlobally[Fold], left: PCollection[T]) -> PCollection[T]: ...
        @overload
        def __ror__(self: CombineGlobally[FunctionOfList[V, R]], left: PCollection[V]) -> PCollection[R]: ...
        @overload
        def __ror__(self: CombineGlobally[type[R]], left: PCollection[Any]) -> PCollection[R]: ...
        @overload
        def __ror__(self: CombineGlobally[FunctionOfList[Any, R]], left: PCollection[Any]) -> PCollection[R]: ...
        @overload
        def __ror__(self: Applicable[PCollection[A], PCollection[B]], left: Iterable[A]) -> list[B]: ...
        def __ror__(self, left: Any) -> Any: ...

    has_defaults = True
    as_view = False
    fanout: int | None = None

    def default_label(self) -> str:
        return f"CombineGlobally({self.fn_label})"

    def _changed(self, **changes: Any) -> Self:
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, **changes)
        return changed

    def with_defaults(self, has_defaults: bool = True) -> Self:
        """Return the transform with or without an output for an empty input."""
        return self._changed(has_defaults=has_defaults)

    def without_defaults(self) -> Self:
        """Return the transform without an output for an empty input."""
        return self.with_defaults(False)

    def as_singleton_view(self) -> PTransform[Any, Any]:
        """Return the transform with its result as an `AsSingleton` side input, defaults included."""
        return self._changed(as_view=True)

    def with_fanout(self, fanout: int | None) -> Self:
        """Return the transform in two steps, with `fanout` parts in the first; 0, 1 and None mean no fanout."""
        return self._changed(fanout=None if fanout is None else checked_fanout(fanout, "with_fanout: the fanout"))

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        return declared_hints(self.combine_fn)[0] if accepted is None else accepted, produced

    @overload
    def expand(self: CombineGlobally[Combiner[V, R]], pcoll: PCollection[V]) -> PCollection[R]: ...
    @overload
    def expand(self: CombineGlobally[Fold], pcoll: PCollection[T]) -> PCollection[T]: ...
    @overload
    def expand(self: CombineGlobally[FunctionOfList[V, R]], pcoll: PCollection[V]) -> PCollection[R]: ...
    @overload
    def expand(self: CombineGlobally[type[R]], pcoll: PCollection[Any]) -> PCollection[R]: ...
    @overload
    def expand(self: CombineGlobally[FunctionOfList[Any, R]], pcoll: PCollection[Any]) -> PCollection[R]: ...
    @overload
    def expand(self: CombineGlobally[GenericCombiner[Never, R]], pcoll: PCollection[Any]) -> PCollection[R]: ...
    def expand(self, pcoll: Any) -> Any:
        label = pcoll.pipeline.full_label
        if self.has_defaults and not self.as_view and not isinstance(pcoll.windowing.window_fn, GlobalWindows):
            raise ValueError(
                f"{label}: its input is windowed by {pcoll.windowing.window_fn!r}, and a default for every empty "
                "window would be endlessly many; use without_defaults() or as_singleton_view()"
            )
        combine: CombinePerKey[Any] = CombinePerKey(self.combine_fn, *self.args, **self.kwargs)
        if self.fanout is not None:
            combine = combine.with_hot_key_fanout(self.fanout)
        key_with_void = ParDo(_key_with_void()).with_output_types(pair_of(None, pcoll.hint))
        by_key = pcoll | "KeyWithVoid" >> key_with_void | "CombinePerKey" >> combine
        combined = by_key | "UnKey" >> ParDo(_un_key()).with_output_types(value_type(by_key.hint))
        if self.as_view:
            if not self.has_defaults:
                return AsSingleton(combined)
            of_nothing = partial(_of_nothing, self.combine_fn, *self.args, **self.kwargs)
            return SingletonOrMade(combined, Serialized(of_nothing, label))
        if not self.has_defaults:
            return combined
        # The result for no elements is computed only if there are none, since it may be an error, as of min and max.
        once = pcoll.pipeline | "DoOnce" >> Create([None])
        if isinstance(pcoll.windowing.trigger, DefaultTrigger):
            result = Map(_result_or_default, AsList(combined), self.combine_fn, *self.args, **self.kwargs)
            return once | "InjectDefault" >> result.with_output_types(combined.hint)
        # All panes are outputs.  The default is an output if there are no panes at the end.
        of_no_panes = FlatMap(_default_of_nothing, AsList(combined), self.combine_fn, *self.args, **self.kwargs)
        default = of_no_panes.with_output_types(combined.hint)
        defaults = once | "InjectDefault" >> default | "AsWindowed" >> WindowInto(combined.windowing.window_fn)
        return (combined, defaults) | Flatten()


def _key_with_void() -> DoFn:
    dofn = ArrangementDoFn((Constant(None), WHOLE), "KeyWithVoid")
    dofn.column_operation = Rearrangement(lambda batch, of: (batch, Pairs(0, as_nones, of)), of_pairs=False)
    return dofn


def _un_key() -> DoFn:
    dofn = ArrangementDoFn(SECOND, "UnKey")
    dofn.column_operation = Rearrangement(lambda batch, of: (of.values_of(batch), of.values))
    return dofn


def _result_or_default(_: None, results: list[Any], fn: CombineFn[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
    return results[0] if results else _of_nothing(fn, *args, **kwargs)


def _default_of_nothing(_: None, results: list[Any], fn: CombineFn[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
    return () if results else (_of_nothing(fn, *args, **kwargs),)


def _of_nothing(fn: CombineFn[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
    fn.setup(*args, **kwargs)
    try:
        return fn.apply((), *args, **kwargs)
    finally:
        fn.teardown(*args, **kwargs)


class CombineValues(_Combining[CombinerT_co]):
    """(key, iterable of values) to (key, combined value), without grouping.

    Returns a `PCollection[tuple[K, R]]` for keys of type K, and a combiner with results of type R.

    >>> import penstock as beam
    >>> [("a", [1, 2])] | beam.CombineValues(sum)
    [('a', 3)]
    """

    if TYPE_CHECKING and not MYPY:
        _declares: None

        @overload  # type: ignore[override]
        def __ror__(
            self: CombineValues[Combiner[V, R]], left: PCollection[tuple[K, Iterable[V]]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(
            self: CombineValues[Fold], left: PCollection[tuple[K, Iterable[T]]]
        ) -> PCollection[tuple[K, T]]: ...
        @overload
        def __ror__(
            self: CombineValues[FunctionOfList[V, R]], left: PCollection[tuple[K, Iterable[V]]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(
            self: CombineValues[type[R]], left: PCollection[tuple[K, Iterable[Any]]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(
            self: CombineValues[FunctionOfList[Any, R]], left: PCollection[tuple[K, Iterable[Any]]]
        ) -> PCollection[tuple[K, R]]: ...
        @overload
        def __ror__(self: Applicable[PCollection[A], PCollection[B]], left: Iterable[A]) -> list[B]: ...
        def __ror__(self, left: Any) -> Any: ...

    def default_label(self) -> str:
        return f"CombineValues({self.fn_label})"

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        value = declared_hints(self.combine_fn)[0]
        values = Iterable[value]  # type: ignore[valid-type]
        return pair_of(Any, values) if accepted is None and value is not None else accepted, produced

    @overload
    def expand(
        self: CombineValues[Combiner[V, R]], pcoll: PCollection[tuple[K, Iterable[V]]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(self: CombineValues[Fold], pcoll: PCollection[tuple[K, Iterable[T]]]) -> PCollection[tuple[K, T]]: ...
    @overload
    def expand(
        self: CombineValues[FunctionOfList[V, R]], pcoll: PCollection[tuple[K, Iterable[V]]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(
        self: CombineValues[type[R]], pcoll: PCollection[tuple[K, Iterable[Any]]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(
        self: CombineValues[FunctionOfList[Any, R]], pcoll: PCollection[tuple[K, Iterable[Any]]]
    ) -> PCollection[tuple[K, R]]: ...
    @overload
    def expand(
        self: CombineValues[GenericCombiner[Never, R]], pcoll: PCollection[tuple[K, Iterable[Any]]]
    ) -> PCollection[tuple[K, R]]: ...
    def expand(self, pcoll: Any) -> Any:
        if any(isinstance(value, AsSideInput) for value in (*self.args, *self.kwargs.values())):
            combine = ParDo(_CombineValues(self.combine_fn), *self.args, **self.kwargs)
        else:
            combine = ParDo(_CombineValues(_curried(self.combine_fn, self.args, self.kwargs)))
        return pcoll | "Apply" >> combine


class _CombineValues(DoFn):
    def __init__(self, fn: CombineFn[Any, Any, Any]) -> None:
        self.fn = fn

    def setup(self) -> None:
        self.fn.setup()

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        key, values = element
        return ((key, self.fn.apply(values, *args, **kwargs)),)

    def teardown(self) -> None:
        self.fn.teardown()


class CurriedCombineFn(CombineFn[Any, Any, Any]):
    """A combiner whose further arguments are already given."""

    def __init__(self, fn: CombineFn[Any, Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        if fn.retract_input is not None:
            self.retract_input = self._retract_input  # type: ignore[misc]

    def setup(self) -> None:
        self.fn.setup(*self.args, **self.kwargs)

    def create_accumulator(self) -> Any:
        return self.fn.create_accumulator(*self.args, **self.kwargs)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return self.fn.add_input(accumulator, element, *self.args, **self.kwargs)

    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        return self.fn.add_inputs(accumulator, elements, *self.args, **self.kwargs)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self.fn.merge_accumulators(accumulators, *self.args, **self.kwargs)

    def compact(self, accumulator: Any) -> Any:
        return self.fn.compact(accumulator, *self.args, **self.kwargs)

    def extract_output(self, accumulator: Any) -> Any:
        return self.fn.extract_output(accumulator, *self.args, **self.kwargs)

    def infer_output_type(self, input_type: Any) -> Any:
        return self.fn.infer_output_type(input_type)

    def _retract_input(self, accumulator: Any, element: Any) -> Any:
        assert self.fn.retract_input is not None
        return self.fn.retract_input(accumulator, element, *self.args, **self.kwargs)

    def retracts_exactly(self, element: Any) -> bool:
        return self.fn.retracts_exactly(element)

    def teardown(self) -> None:
        self.fn.teardown(*self.args, **self.kwargs)


def _curried(fn: CombineFn[Any, Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CombineFn[Any, Any, Any]:
    return CurriedCombineFn(fn, args, kwargs) if args or kwargs else fn
