"""Types for type checkers: what generic transforms make of the left operand of `|`, and what is known behind a label.

Pyright infers a generic `expand` of a PCollection of a type variable only if it is called.  So these transforms have a
`__ror__` of one of these types, for PCollections and for other iterables.  No module imports this one at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Never, Protocol, TypeAlias, TypeVar, overload

from .pvalue import PCollection
from .static_types import OfElements, OfInput, Result, Unlike

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R")
V_contra = TypeVar("V_contra", contravariant=True)


class Keeps(Protocol):
    """Elements of type T to elements of type T."""

    @overload
    def __call__(self, left: PCollection[T], /) -> PCollection[T]: ...
    @overload
    def __call__(self, left: Iterable[T], /) -> list[T]: ...


class KeepsPairs(Protocol):
    """Pairs to pairs of the same type."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V]], /) -> PCollection[tuple[K, V]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[tuple[V, V]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V]], /) -> list[tuple[K, V]]: ...


class MakesLists(Protocol):
    """Elements of type T to `list[T]`."""

    @overload
    def __call__(self, left: PCollection[T], /) -> PCollection[list[T]]: ...
    @overload
    def __call__(self, left: Iterable[T], /) -> list[list[T]]: ...


class MakesListsPerKey(Protocol):
    """Pairs to pairs of a key and a list of values."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V]], /) -> PCollection[tuple[K, list[V]]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[tuple[V, list[V]]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V]], /) -> list[tuple[K, list[V]]]: ...


class MakesSets(Protocol):
    """Elements of type T to `set[T]`."""

    @overload
    def __call__(self, left: PCollection[T], /) -> PCollection[set[T]]: ...
    @overload
    def __call__(self, left: Iterable[T], /) -> list[set[T]]: ...


class MakesDicts(Protocol):
    """Pairs to dicts."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V]], /) -> PCollection[dict[K, V]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[dict[V, V]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V]], /) -> list[dict[K, V]]: ...


class Groups(Protocol):
    """Pairs to pairs of a key and its values."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V]], /) -> PCollection[tuple[K, Iterable[V]]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[tuple[V, Iterable[V]]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V]], /) -> list[tuple[K, Iterable[V]]]: ...


class TakesKeys(Protocol):
    """Pairs to their keys."""

    @overload
    def __call__(self, left: PCollection[tuple[K, object]], /) -> PCollection[K]: ...
    @overload
    def __call__(self, left: OfElements[tuple[K, ...]], /) -> PCollection[K]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, object]], /) -> list[K]: ...


class TakesValues(Protocol):
    """Pairs to their values."""

    @overload
    def __call__(self, left: PCollection[tuple[object, V]], /) -> PCollection[V]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[V]: ...
    @overload
    def __call__(self, left: Iterable[tuple[object, V]], /) -> list[V]: ...


class Swaps(Protocol):
    """Pairs to pairs with their items swapped."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V]], /) -> PCollection[tuple[V, K]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[V, ...]], /) -> PCollection[tuple[V, V]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V]], /) -> list[tuple[V, K]]: ...


class CountsElements(Protocol):
    """Elements of type T to pairs of an element and a number."""

    @overload
    def __call__(self, left: PCollection[T], /) -> PCollection[tuple[T, int]]: ...
    @overload
    def __call__(self, left: Iterable[T], /) -> list[tuple[T, int]]: ...


class CombinesPerKey(Protocol[V_contra, R]):
    """Pairs of a key and a value to pairs of a key and a result of type R."""

    @overload
    def __call__(self, left: PCollection[tuple[K, V_contra]], /) -> PCollection[tuple[K, R]]: ...
    @overload
    def __call__(self, left: OfElements[tuple[K, ...]], /) -> PCollection[tuple[K, R]]: ...
    @overload
    def __call__(self, left: Iterable[tuple[K, V_contra]], /) -> list[tuple[K, R]]: ...


class CombinesGlobally(Protocol[V_contra, R]):
    """Elements to a result of type R."""

    @overload
    def __call__(self, left: PCollection[V_contra], /) -> PCollection[R]: ...
    @overload
    def __call__(self, left: Iterable[V_contra], /) -> list[R]: ...


# Transforms of which mypy knows little behind a label: it infers `"label" >> transform` without the left side of `|`.
OfAnyToAny = TypeVar("OfAnyToAny", bound=OfInput[PCollection[Unlike], PCollection[Unlike]])
OfAny = TypeVar("OfAny", bound=OfInput[PCollection[Unlike], Any])
OfAnyKeys = TypeVar("OfAnyKeys", bound=OfInput[PCollection[tuple[Unlike, Any]], Any])
OfAnyValues = TypeVar("OfAnyValues", bound=OfInput[PCollection[tuple[Any, Unlike]], Any])
# Elements of a generic transform that mypy knows nothing of.
NeverKnown: TypeAlias = (
    Iterable[tuple[Never, object] | tuple[object, Never]]
    | Mapping[Any, Never]
    | tuple[Never, object]
    | tuple[object, Iterable[Never]]
    | tuple[Never, object, object]
)
ToUnknown = TypeVar(
    "ToUnknown",
    bound=OfInput[PCollection[Never], PCollection[NeverKnown]]
    | OfInput[PCollection[Result], PCollection[NeverKnown]]
    | OfInput[PCollection[tuple[Never, Any]], PCollection[NeverKnown]]
    | OfInput[PCollection[tuple[Any, Never]], PCollection[NeverKnown]]
    | OfInput[PCollection[Iterable[Never]], PCollection[NeverKnown]]
    | OfInput[PCollection[list[Never]], PCollection[NeverKnown]]
    | OfInput[PCollection[Sequence[Never]], PCollection[NeverKnown]],
)
ToPairs = TypeVar(
    "ToPairs",
    bound=OfInput[PCollection[Never], PCollection[tuple[Never, Never]]]
    | OfInput[PCollection[tuple[Never, Never]], PCollection[tuple[Never, Never]]],
)
