"""The registry of coders by type."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from ...triggers.pane import PaneInfo
from ...windowing.timestamp import Timestamp
from ...windowing.windows import GlobalWindow, IntervalWindow
from ..adapters import typehint_of
from ..errors import CoderClassError
from ..typehints.row_classes import declare_row_class
from .coder import Coder
from .container import IterableCoder, ListCoder, MapCoder, NullableCoder, TupleCoder
from .pickled import FastPrimitivesCoder
from .primitive import BooleanCoder, BytesCoder, FloatCoder, StrUtf8Coder, VarIntCoder
from .protobuf import coder_of_message
from .row import RowCoder
from .windowed import GlobalWindowCoder, IntervalWindowCoder, PaneInfoCoder, TimestampCoder

_BUILT_IN: dict[Any, type[Coder]] = {
    str: StrUtf8Coder,
    bytes: BytesCoder,
    bool: BooleanCoder,
    int: VarIntCoder,
    float: FloatCoder,
    Timestamp: TimestampCoder,
    IntervalWindow: IntervalWindowCoder,
    GlobalWindow: GlobalWindowCoder,
    PaneInfo: PaneInfoCoder,
}


class CoderRegistry:
    """Coders by type, with `FastPrimitivesCoder` as the default.

    >>> registry = CoderRegistry()
    >>> registry.get_coder(tuple[str, int])
    TupleCoder((StrUtf8Coder(), VarIntCoder()))
    """

    def __init__(self) -> None:
        self._registered: dict[Any, type[Coder]] = {}
        # Increased by every registration, which invalidates caches.
        self.version = 0
        self._deterministic: tuple[int, frozenset[type]] = 0, frozenset()

    def register_coder(self, typehint_type: Any, typehint_coder_class: type[Coder]) -> None:
        """Register a coder class for a type.  If it is deterministic, the type's values can be keys.

        Raises `CoderClassError` for other values than a coder class.
        """
        if not (isinstance(typehint_coder_class, type) and issubclass(typehint_coder_class, Coder)):
            raise CoderClassError(
                f"register_coder: {typehint_coder_class!r} is not a subclass of Coder; pass the class, not an instance"
            )
        self._registered[typehint_type] = typehint_coder_class
        declare_row_class(typehint_type, issubclass(typehint_coder_class, RowCoder))
        self.version += 1

    def registered(self) -> dict[Any, type[Coder]]:
        """Return the users' registrations, by type."""
        return dict(self._registered)

    def deterministic_types(self) -> frozenset[type]:
        """Return the types with a registered deterministic coder, which decides the equality of keys."""
        version, types = self._deterministic
        if version != self.version:
            kinds = [kind for kind in self._registered if isinstance(kind, type)]
            types = frozenset(kind for kind in kinds if self._is_deterministic(kind))
            self._deterministic = self.version, types
        return types

    def _is_deterministic(self, kind: type) -> bool:
        coder = self.registered_coder(kind)
        return coder is not None and coder.is_deterministic()

    def register_all(self, coders: Mapping[Any, type[Coder]]) -> None:
        """Replace all registrations, by those of the process that planned the work."""
        if self._registered != coders:
            self._registered = dict(coders)
            self.version += 1

    def register_row(self, typehint_type: Any) -> Any:
        """Register a `RowCoder` for a `NamedTuple`, a dataclass or an attrs class, and return it: a decorator."""
        self.register_coder(typehint_type, RowCoder)
        return typehint_type

    def get_coder(self, typehint: Any) -> Coder:
        """Return the coder for a type hint."""
        typehint = typehint_of(typehint)
        coder_class = self._registered.get(typehint) if _is_hashable(typehint) else None
        if coder_class is not None:
            return coder_class.from_type_hint(typehint, self)
        built_in = _BUILT_IN.get(typehint) if _is_hashable(typehint) else None
        if built_in is not None:
            return built_in.from_type_hint(typehint, self)
        origin, args = get_origin(typehint), get_args(typehint)
        return self._structural(origin, args) or coder_of_message(typehint) or FastPrimitivesCoder()

    def _structural(self, origin: Any, args: tuple[Any, ...]) -> Coder | None:
        """Return the coder for a composite hint."""
        if origin in (Union, types.UnionType):
            others = [arg for arg in args if arg is not type(None)]
            return NullableCoder(self.get_coder(others[0])) if len(others) == 1 < len(args) else None
        if origin is tuple and args and args[-1] is not Ellipsis and args != ((),):
            return TupleCoder(self.get_coder(arg) for arg in args)
        if origin is list:
            return ListCoder(self.get_coder(args[0]))
        if origin in (Iterable, Sequence):
            return IterableCoder(self.get_coder(args[0]))
        if origin is dict:
            return MapCoder(self.get_coder(args[0]), self.get_coder(args[1]))
        return None

    def verify_deterministic(self, key_coder: Coder, op_name: str, silent: bool = True) -> Coder:
        """Return a deterministic coder of the same keys.  Raises `InvalidKeyError` if there is none.

        Args:
          silent: has no effect.
        """
        return key_coder.as_deterministic_coder(op_name)

    def registered_coder(self, kind: type) -> Coder | None:
        """Return the coder that a user registered for exactly this type."""
        coder_class = self._registered.get(kind)
        return None if coder_class is None else coder_class.from_type_hint(kind, self)


def _is_hashable(typehint: Any) -> bool:
    try:
        hash(typehint)
    except TypeError:
        return False
    return True


registry = CoderRegistry()
