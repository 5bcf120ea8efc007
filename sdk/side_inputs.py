"""Side inputs: PCollections as arguments of functions.

As in Beam, an element of the main input sees the side input's window that contains the end of its own window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .pvalue import PCollection
from .side_input_views import NO_DEFAULT, DictView, IterableView, ListView, MultiMapView, SingletonView, View
from .user_code.serialization import Serialized


class EmptySideInput:
    """Beam's: the value of a singleton whose window is empty."""


class AsSideInput:
    """A PCollection with a view for a function."""

    def __init__(self, pcoll: PCollection[Any]) -> None:
        if not isinstance(pcoll, PCollection):
            raise TypeError(f"{type(self).__name__}: expected a PCollection, got {pcoll!r}")
        self.pvalue = pcoll

    @property
    def view(self) -> View:
        """The view of the window's elements."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pvalue})"


class AsSingleton(AsSideInput):
    """The side input's only element, or `default_value` if it has none.

    More than one is a `SideInputError`.
    """

    def __init__(self, pcoll: PCollection[Any], default_value: Any = NO_DEFAULT) -> None:
        super().__init__(pcoll)
        self.default_value = default_value

    @property
    def view(self) -> View:
        return SingletonView(self.default_value)


class SingletonOrMade(AsSingleton):
    """The side input's only element, or the result of a function without arguments if it has none."""

    def __init__(self, pcoll: PCollection[Any], make_default: Serialized[Callable[[], Any]]) -> None:
        super().__init__(pcoll)
        self.make_default = make_default

    @property
    def view(self) -> View:
        return SingletonView(make_default=self.make_default)


class AsIter(AsSideInput):
    """The side input's elements, as an iterable."""

    @property
    def view(self) -> View:
        return IterableView()


class AsList(AsSideInput):
    """The side input's elements, as a list."""

    @property
    def view(self) -> View:
        return ListView()


class AsDict(AsSideInput):
    """The side input's pairs, as a dictionary.

    Keys are compared as in a `dict`: a float NaN is found only by the same object.
    """

    @property
    def view(self) -> View:
        return DictView()


class AsMultiMap(AsSideInput):
    """The side input's pairs, as a dictionary from key to all of its values.

    Keys are compared as in a `dict`: a float NaN is found only by the same object.
    """

    @property
    def view(self) -> View:
        return MultiMapView()
