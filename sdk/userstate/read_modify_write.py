"""ReadModifyWriteStateSpec: one value.

>>> from penstock.sdk.userstate import DictStore
>>> last = ReadModifyWriteStateSpec("last").of(DictStore())
>>> last.read(), last.write(7), last.read()
(None, None, 7)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, overload

from ..elements.defensive_copy import IMMUTABLE, defensive_copy
from ..type_variables import T
from .state_spec import RuntimeState, StateSpec
from .store import ATOMS

if TYPE_CHECKING:
    from ..static_types import CoderOf
    from .state_ttl import Ttl
    from .store import StateStore


class ReadModifyWriteRuntimeState(RuntimeState, Generic[T]):
    """One value of one key and window."""

    __slots__ = ()

    # Of values of an unknown type, `read` is so, too.
    @overload
    def read(self: ReadModifyWriteRuntimeState[Never]) -> Any: ...
    @overload
    def read(self) -> T | None: ...
    def read(self) -> Any:
        """Return the value, or None.  A change of it in place is no change of the state before it is written."""
        value = self.column.values.get(self.key)
        return value if type(value) in IMMUTABLE else defensive_copy(value)

    def write(self, value: T) -> None:
        """Replace the value."""
        column = self.column
        kind = type(value)
        # Most values are numbers or strings, for which comparisons take less time than a set.
        if kind is not int and kind is not float and kind is not str and kind not in ATOMS:
            value = defensive_copy(value)
            column.wrote(self.key, value)
        column.values[self.key] = value
        if column.is_tracked:
            column.touch(self.key)


class ReadModifyWriteStateSpec(StateSpec, Generic[T]):
    """One value: `read`, `write`, `clear`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import ReadModifyWriteStateSpec
    >>> class Change(beam.DoFn):
    ...     LAST = ReadModifyWriteStateSpec("last")
    ...     def process(self, pair, last=beam.DoFn.StateParam(LAST)):
    ...         yield pair[1] - (last.read() or 0)
    ...         last.write(pair[1])
    >>> [("a", 3), ("a", 5)] | beam.ParDo(Change())
    [3, 2]
    """

    runtime = ReadModifyWriteRuntimeState

    if TYPE_CHECKING:

        def __init__(self, name: str, coder: CoderOf[T] | None = None, *, ttl: Ttl = None) -> None: ...
        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> ReadModifyWriteRuntimeState[T]: ...
