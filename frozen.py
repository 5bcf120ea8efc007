"""Frozen classes of fields, as attrs builds them, in half of the time.

`attrs.frozen` compiles four methods of each class when it is imported: `__init__`, `__eq__`, `__hash__` and `__repr__`.
That took a third of `import penstock`, and of the start of workers.  Here all classes share the last three.

>>> @frozen
... class Interval:
...     start: int
...     end: int = 10
>>> Interval(5), Interval(5) == Interval(5, 10), len({Interval(5), Interval(5, 10)})
(Interval(start=5, end=10), True, 1)
"""

from __future__ import annotations

from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    # Type checkers know what this one adds to a class.
    from attrs import frozen as frozen
else:

    def frozen(cls=None, *, eq=True, repr=True, **settings):
        """Build a frozen class, with what `attrs.frozen` gives it.

        Args:
          cls: a class whose annotations are its fields, in order; None in `@frozen(eq=False)`.
          eq: compare and hash values by their fields, without those of `attrs.field(eq=False)`.
          repr: show values with their fields, without those of `attrs.field(repr=False)`.
          settings: others of `attrs.frozen`.

        Returns the class; without `cls` a decorator that does.
        """
        if cls is None:
            return lambda decorated: frozen(decorated, eq=eq, repr=repr, **settings)
        shared = {**(_BY_FIELDS if eq else {}), **({"__repr__": _repr} if repr else {})}
        for name, method in shared.items():
            if name not in vars(cls):
                setattr(cls, name, method)
        built = attrs.frozen(cls, eq=False, repr=False, **settings)
        fields = attrs.fields(built)
        built.__compared__ = _values_of([field.name for field in fields if field.eq])
        built.__hashed__ = _values_of(
            [field.name for field in fields if (field.eq if field.hash is None else field.hash)]
        )
        return built


def _values_of(names: list[str]) -> Any:
    """Return the function from a value to those of its fields."""
    return attrgetter(*names) if names else attrgetter("__class__")


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    fields = self.__compared__
    return fields(self) == fields(other)


def _hash(self: Any) -> int:
    return hash(self.__hashed__(self))


@recursive_repr()
def _repr(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in attrs.fields(type(self)) if field.repr)
    return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(fields)})"


_BY_FIELDS = {"__eq__": _eq, "__hash__": _hash}
