"""Keys, Values, KvSwap and WithKeys: items of pairs, and pairs of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ...frozen import frozen
from ...sdk import typehints
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import Elements, Pairs, as_values
from ...sdk.columns.expressions import Column, ColumnOperation, OfFields, Projection, values_of_pairs
from ...sdk.dofn.arrangement import FIRST, SECOND, WHOLE, ArrangementDoFn, Constant, Term
from ...sdk.dofn.dofn import ColumnDoFn, DoFn, MapDoFn
from ...sdk.dofn.signature import check_signature
from ...sdk.elements.bundle import Bundle
from ...sdk.elements.defensive_copy import IMMUTABLE
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A, K
from ...sdk.user_code.signatures import label_of
from ..group_by_key import pair_types
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from typing import ParamSpec

    from ...sdk.elements.element_wrappers import TaggedOutput
    from ...sdk.static_results import Swaps, TakesKeys, TakesValues
    from ...sdk.static_types import ConstantKey, Function

    C = TypeVar("C", bound=ConstantKey)
    P = ParamSpec("P")
    T = TypeVar("T")
    V = TypeVar("V")

# Mypy takes it as true.
MYPY = False
if MYPY:
    from ...sdk.static_types import Result, WithKeywords


class _OfPairs(ParDo[Any, Any]):
    """A ParDo that arranges the items of a (key, value) pair."""

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        _unwraps: None  # type: ignore[assignment]

    term: Term

    def __init__(self, label: str | None = None) -> None:
        super().__init__(ArrangementDoFn(self.term, type(self).__name__))
        self.fn.column_operation = self.column_operation()
        self._label = label

    def column_operation(self) -> ColumnOperation | None:
        """Return what it does with columns, if it understands them."""
        return None

    def default_label(self) -> str:
        return type(self).__name__

    def expand(self, pcoll: PCollection[Any]) -> Any:
        # Raises if the elements can't be pairs.
        pair_types(pcoll)
        return super().expand(pcoll)


class Keys(_OfPairs):
    """The first item of each pair.

    Returns a `PCollection[K]` for pairs of K and V.

    Raises `TypeHintError` if the input's elements are known not to be pairs.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2)] | beam.Keys()
    ['a', 'b']
    """

    if TYPE_CHECKING:
        __ror__: TakesKeys  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[tuple[K, Any]]) -> PCollection[K]: ...

    term = FIRST

    def infer_output_type(self, input_type: Any) -> Any:
        return typehints.key_type(input_type)


class Values(_OfPairs):
    """The second item of each pair.

    Returns a `PCollection[V]` for pairs of K and V.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2)] | beam.Values()
    [1, 2]
    """

    if TYPE_CHECKING:
        __ror__: TakesValues  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[tuple[Any, V]]) -> PCollection[V]: ...

    term = SECOND

    def column_operation(self) -> ColumnOperation | None:
        return values_of_pairs()

    def infer_output_type(self, input_type: Any) -> Any:
        return typehints.value_type(input_type)


class KvSwap(_OfPairs):
    """Pairs with their items swapped.

    Returns a `PCollection[tuple[V, K]]` for pairs of K and V.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2)] | beam.KvSwap()
    [(1, 'a'), (2, 'b')]
    """

    if TYPE_CHECKING:
        __ror__: Swaps  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[V, K]]: ...

    term = (SECOND, FIRST)

    def infer_output_type(self, input_type: Any) -> Any:
        return typehints.pair_of(typehints.value_type(input_type), typehints.key_type(input_type))


@frozen(eq=False)
class Keying(OfFields):
    """Operation on columns: pairs of a key, of computed columns, and the element.

    Attributes:
      keys: the columns of the key.
      elements: makes the keys.
      is_needed: True if it has no other form.
    """

    keys: list[Column]
    elements: Elements
    is_needed: bool = True
    columns = property(lambda self: self.keys)

    def apply(self, bundle: ColumnBundle) -> Bundle:
        """Return the bundle after this operation.  Raises `ColumnError`."""
        fields = tuple((f"key{i}", column) for i, column in enumerate(self.keys))
        keys = Projection(fields, self.elements).apply(bundle)
        if not isinstance(keys, ColumnBundle):
            pairs = list(zip(keys.values, bundle.values, strict=True))
            return Bundle(pairs, keys.timestamps, keys.windows, keys.panes, keys.signs)
        names = [*keys.batch.schema.names, *bundle.batch.schema.names]
        batch = type(bundle.batch).from_arrays([*keys.batch.columns, *bundle.batch.columns], names)
        keyed = bundle.with_batch(batch, Pairs(len(fields), self.elements, bundle.elements))
        if not bundle.has_elements:
            return keyed
        return keyed.with_values(list(zip(keys.values, bundle.values, strict=True)))


class WithKeys(ParDo[A, Any], Generic[A, K]):
    """Pairs of a key and each value.  The key is a constant, or the result of a function or an expression of the value.

    Returns a `PCollection[tuple[K, T]]` for keys of type K and elements of type T.

    Further arguments, side inputs among them, are passed to the function.

    >>> import penstock as beam
    >>> ["apple", "fig"] | beam.WithKeys(len)
    [(5, 'apple'), (3, 'fig')]
    >>> ["apple", "fig"] | beam.WithKeys("fruit")
    [('fruit', 'apple'), ('fruit', 'fig')]
    >>> [beam.Row(name="fig", price=3)] | beam.WithKeys(beam.col("name"))
    [('fig', Row(name='fig', price=3))]
    """

    if TYPE_CHECKING:
        _unwraps: None  # type: ignore[assignment]

        def _takes(self, element: A, /) -> None: ...
        def _pairs(self) -> K: ...
        def _gives(self, pcoll: PCollection[T], /) -> PCollection[tuple[K, T]]: ...

    if MYPY:
        # As those of `Map`.
        @overload
        def __init__(self, k: Callable[[A], Result]) -> None: ...
        @overload
        def __init__(self, k: Function[A, P, K], *args: P.args, **kwargs: P.kwargs) -> None: ...
        # Mypy doesn't compare a function with the bound of a type variable.
        @overload
        def __init__(self, k: WithKeywords[A, K], **kwargs: Any) -> None: ...
        @overload
        def __init__(self: WithKeys[object, str], k: str) -> None: ...
        @overload
        def __init__(self: WithKeys[object, bytes], k: bytes) -> None: ...
        @overload
        def __init__(self: WithKeys[object, int], k: int) -> None: ...
        @overload
        def __init__(self: WithKeys[object, None], k: None) -> None: ...
        @overload
        def __init__(self: WithKeys[object, Any], k: ConstantKey) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    elif TYPE_CHECKING:

        @overload
        def __init__(self, k: Function[A, P, K | TaggedOutput], *args: P.args, **kwargs: P.kwargs) -> None: ...
        @overload
        def __init__(self: WithKeys[object, C], k: C) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    else:

        def __init__(self, k, *args, **kwargs):
            self._pair_by(k, *args, **kwargs)

    def _pair_by(self, k: Any, *args: Any, **kwargs: Any) -> None:
        if not callable(k) and (args or kwargs):
            kind = "an expression" if isinstance(k, Column) else "a constant"
            raise TypeError(f"WithKeys: the key {k!r} is {kind} and takes no arguments")
        dofn: Any = _pairing(k, bool(args or kwargs))
        ParDo.__init__(self, dofn, *args, **kwargs)
        self.key: Any = k

    def default_label(self) -> str:
        shown = self.key.text if isinstance(self.key, Column) else str(self.key)
        return f"WithKeys({label_of(self.key) if callable(self.key) else shown[:40]})"

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if callable(self.key):
            check_signature(MapDoFn(self.key), self.args, self.kwargs, pcoll.pipeline.full_label)
        return super().expand(pcoll)

    def infer_output_type(self, input_type: Any) -> Any:
        if isinstance(self.key, Column):
            return typehints.pair_of(Any, input_type)
        key = typehints.hints_of_callable(self.key)[1] if callable(self.key) else typehints.infer_type([self.key])
        return typehints.pair_of(Any if key is None else key, input_type)


def _pairing(k: Any, has_arguments: bool) -> DoFn:
    if isinstance(k, Column):
        return ColumnDoFn(Keying([k], as_values), f"WithKeys({k.text})")
    if not callable(k):
        if type(k) in IMMUTABLE:
            return ArrangementDoFn((Constant(k), WHOLE), "WithKeys")
        return MapDoFn(lambda v: (k, v))
    key: Callable[..., Any] = k
    if has_arguments:
        return MapDoFn(lambda v, *args, **kwargs: (key(v, *args, **kwargs), v))
    return MapDoFn(lambda v: (key(v), v))
