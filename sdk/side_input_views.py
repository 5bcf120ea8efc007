"""Views of a side input: the elements of one window as a value, an iterable, a list or a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from ..frozen import frozen
from .coders.coded_key import CodedMapping, coded, is_coded, plain
from .coders.key_encoding import CodedKey
from .errors import SideInputError
from .user_code.serialization import Serialized


class _NoDefault:
    def __repr__(self) -> str:
        return "no default"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Any = _NoDefault()


class PanesSeen(Enum):
    """The panes of a window whose elements a view shows."""

    # All of them; retractions remove what other panes replace.
    ALL = "all"
    # The latest one replaces those before it.
    LATEST = "latest"
    # The latest one of each key, where elements are pairs of a key and a value.
    LATEST_BY_KEY = "latest by key"


@frozen
class SingletonView:
    """The one element of the side input's window.

    Attributes:
      default: the value of a window without elements.
      make_default: a function that returns that value instead.
    """

    default: Any = NO_DEFAULT
    make_default: Serialized[Callable[[], Any]] | None = None

    def of(self, values: list[Any]) -> Any:
        """Return the view of a window with these values."""
        if len(values) == 1:
            return values[0]
        if not values and self.make_default is not None:
            return self.make_default.load()()
        if not values and self.default is not NO_DEFAULT:
            return self.default
        if not values:
            raise SideInputError(
                "AsSingleton: the side input has no element in this window; give AsSingleton a default_value"
            )
        raise SideInputError(
            f"AsSingleton: expected one element in this window, got {len(values)}, "
            f"among them {values[0]!r} and {values[1]!r}; did you mean AsList or AsIter?"
        )


@frozen
class IterableView:
    """All elements of the window, in any order."""

    def of(self, values: list[Any]) -> Iterable[Any]:
        """Return the view of a window with these values."""
        return values


@frozen
class ListView:
    """All elements of the window, as a list."""

    def of(self, values: list[Any]) -> list[Any]:
        """Return the view of a window with these values."""
        return values


@frozen
class DictView:
    """The window's pairs as a dictionary, with any one of several values of a key."""

    def of(self, values: list[Any]) -> Mapping[Any, Any]:
        """Return the view of a window with these values."""
        try:
            return CodedMapping(values) if any(is_coded(key) for key, _ in values) else dict(values)
        except (TypeError, ValueError) as error:
            raise SideInputError(f"AsDict: expected (key, value) pairs: {error}") from error


@frozen
class MultiMapView:
    """The window's pairs as a dictionary from key to the list of its values."""

    def of(self, values: list[Any]) -> Mapping[Any, list[Any]]:
        """Return the view of a window with these values."""
        groups: dict[Any, list[Any]] = {}
        try:
            for key, value in values:
                groups.setdefault(coded(key), []).append(value)
        except (TypeError, ValueError) as error:
            raise SideInputError(f"AsMultiMap: expected (key, value) pairs: {error}") from error
        if any(type(key) is CodedKey for key in groups):
            return CodedMapping((plain(key), values) for key, values in groups.items())
        return groups


@frozen
class ContentsView:
    """A view of the elements, or of a dictionary's items, that are in the window's one value.

    Attributes:
      name: of the view, for errors.
    """

    view: IterableView | ListView | DictView | MultiMapView
    name: str

    def of(self, values: list[Any]) -> Any:
        """Return the view of a window with these values."""
        content = values[-1] if values else ()
        try:
            return self.view.of(list(content.items() if isinstance(content, Mapping) else content))
        except TypeError as error:
            raise SideInputError(f"{self.name}: expected an iterable or a dictionary, got {content!r}") from error


View: TypeAlias = SingletonView | IterableView | ListView | DictView | MultiMapView | ContentsView
