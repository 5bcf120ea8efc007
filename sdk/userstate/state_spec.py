"""StateSpec: a state's name and kind, which a DoFn declares; and RuntimeState, what it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..coders.coder import Coder
from .store import StateStore


class RuntimeState:
    """A state, as a DoFn's method is given it: of one key and window.

    It is good for the one call that it was given to.
    """

    __slots__ = ("_cell", "_namespace", "_spec", "_store")

    def __init__(self, spec: Any, store: StateStore, namespace: Any, key: Any) -> None:
        self._spec = spec
        self._store = store
        self._namespace = namespace
        self._cell = (key, spec.name)

    def clear(self) -> None:
        """Have it as if nothing had ever been written."""
        self._store.remove(self._namespace, self._cell)

    def prefetch(self) -> None:
        """Beam's; nothing to do, for state is here already."""

    def commit(self) -> None:
        """Beam's; nothing to do, for what was written can be read at once."""

    def finalize(self) -> None:
        """Beam's; nothing to do."""


class AccumulatingRuntimeState(RuntimeState):
    """A state that things are added to."""

    __slots__ = ()

    def read(self) -> Iterable[Any]:
        """What is in it."""
        raise NotImplementedError

    def add(self, value: Any) -> None:
        """Add something."""
        raise NotImplementedError


class StateSpec:
    """A state's name and kind.  The base of those that a DoFn declares.

    Args:
      name: unique among the states of the DoFn.
      coder: Beam's; values stay what they are, so that it need not be given.

    Raises `TypeError` for a name that is no string and a coder that is none.
    """

    runtime: ClassVar[type[RuntimeState]]

    def __init__(self, name: str, coder: Coder | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: the name must be a str, got {name!r}")
        if coder is not None and not isinstance(coder, Coder):
            raise TypeError(f"{type(self).__name__}({name!r}): the coder must be a Coder, got {coder!r}")
        self.name = name
        self.coder = coder

    def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> Any:
        """The state of one key and window."""
        return self.runtime(self, store, namespace, key)

    def for_worker(self) -> StateSpec:
        """The spec for one worker alone: itself, unless it holds what has to be set up."""
        return self

    def setup(self) -> None:
        """Called once in each worker, before the state is used."""

    def teardown(self) -> None:
        """Called once in each worker, when it is done."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
