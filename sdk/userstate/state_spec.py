"""StateSpec: the declaration of a state in a DoFn; and RuntimeState: the state in a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..coders.coder import Coder
from ..elements.defensive_copy import never_copied
from .state_ttl import StateTtl
from .store import StateColumn, StateStore

if TYPE_CHECKING:
    from .state_ttl import Ttl


@never_copied
class RuntimeState:
    """A state of one key and window, as an argument of a DoFn's method.

    It is valid during the call only.  There is one for each call, whose attributes the runner sets: a constructor would
    take longer than all else that a call costs.

    Attributes:
      spec, column, key: the runner's: the state's spec, its values in the window, and the key.
    """

    __slots__ = ("column", "key", "spec")

    spec: Any
    column: StateColumn
    key: Any

    def clear(self) -> None:
        """Remove the state's content."""
        self.column.remove(self.key)

    def prefetch(self) -> None:
        """Do nothing: state is always local.  Beam's."""

    def commit(self) -> None:
        """Do nothing: writes are visible immediately.  Beam's."""

    def finalize(self) -> None:
        """Do nothing.  Beam's."""


class AccumulatingRuntimeState(RuntimeState):
    """A state with an operation `add`."""

    __slots__ = ()

    def read(self) -> Iterable[Any]:
        """Return the content."""
        raise NotImplementedError

    def add(self, value: Any) -> None:
        """Add a value."""
        raise NotImplementedError


class StateSpec:
    """A state's name and kind.  The base class of the specs that a DoFn declares.

    Args:
      name: unique among the states of the DoFn.
      coder: Beam's, and optional: values aren't encoded.
      ttl: how long the state of a key is kept after it was last written: seconds in event time, or a `StateTtl`; None
        keeps it until it is cleared, or its window expires.

    Raises `TypeError` for a name that is no string, or a coder that is no `Coder`, and what `StateTtl` does.
    """

    runtime: ClassVar[type[RuntimeState]]

    def __init__(self, name: str, coder: Coder | None = None, *, ttl: Ttl = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: the name must be a str, got {name!r}")
        if coder is not None and not isinstance(coder, Coder):
            raise TypeError(f"{type(self).__name__}({name!r}): the coder must be a Coder, got {coder!r}")
        self.name = name
        self.coder = coder
        self.ttl = None if ttl is None else StateTtl.of(ttl)

    def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> Any:
        """Return the state of one key and window."""
        state = self.runtime()
        state.spec, state.column, state.key = self, store.column(namespace, self.name), key
        return state

    def for_worker(self) -> StateSpec:
        """Return the spec for one worker: itself, unless it needs a set-up."""
        return self

    def setup(self) -> None:
        """Prepare the spec.  Called once in each worker, before the state is used."""

    def teardown(self) -> None:
        """Release resources.  Called once in each worker, at its end."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
