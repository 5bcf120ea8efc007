"""ArrangementDoFn: the parts of an element in another arrangement, such as its fields as a key and a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ...frozen import frozen
from .dofn import DoFn


@frozen
class Part:
    """A part of an element: the element itself, or an item or a field of a part.

    Attributes:
      path: the way to it, of indices of items and names of fields.
    """

    path: tuple[int | str, ...] = ()


@frozen
class Constant:
    """A value that doesn't depend on the element, and is never changed."""

    value: Any


@frozen
class Applied:
    """The result of a function of the element, which never is a `TimestampedValue` or the like."""

    fn: Callable[[Any], Any]


Term: TypeAlias = "Part | Constant | Applied | tuple[Term, ...]"

WHOLE, FIRST, SECOND = Part(), Part((0,)), Part((1,))


def arranged(term: Term, element: Any) -> Any:
    """Return the value of a term for an element.

    >>> arranged((SECOND, (Constant("a"), FIRST)), (1, 2))
    (2, ('a', 1))
    """
    if isinstance(term, tuple):
        return tuple(arranged(part, element) for part in term)
    if isinstance(term, Constant):
        return term.value
    if isinstance(term, Applied):
        return term.fn(element)
    for step in term.path:
        element = element[step] if isinstance(step, int) else getattr(element, step)
    return element


class ArrangementDoFn(DoFn):
    """One output for each element, whose parts are arranged as a term says; a stage does it without a call.

    Attributes:
      is_plain: True if an output is never a `TimestampedValue` or the like.

    >>> list(ArrangementDoFn((SECOND, FIRST), "KvSwap").process((1, 2)))
    [(2, 1)]
    """

    def __init__(self, term: Term, name: str) -> None:
        self.term = term
        self.name = name
        self.is_plain = isinstance(term, (tuple, Applied))

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return (arranged(self.term, element),)

    def default_label(self) -> str:
        return self.name
