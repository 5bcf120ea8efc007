"""CombiningValueStateSpec: the accumulator of a combiner.

>>> from penstock.sdk.userstate import DictStore
>>> total = CombiningValueStateSpec("total", sum).of(DictStore())
>>> total.read(), total.add(3), total.add(4), total.read()
(0, None, None, 7)
"""

from __future__ import annotations

from typing import Any

from ..coders.coder import Coder
from ..combine_fn import CombineFn
from .state_spec import AccumulatingRuntimeState, StateSpec


class CombiningValueRuntimeState(AccumulatingRuntimeState):
    """The accumulator of one key and window."""

    __slots__ = ()

    def read(self) -> Any:
        """The combiner's result; for what has had no inputs, that of an empty accumulator."""
        # A combiner may change an accumulator even to extract from it, and this one may be
        # part of a snapshot: so what is kept is encapsulated, and copied when it has to be.
        return self._spec.combine_fn.extract_output(self._accumulator().value)

    def add(self, value: Any) -> None:
        """Add an input."""
        held = self._accumulator()
        held.value = self._spec.combine_fn.add_input(held.value, value)

    def _accumulator(self) -> Accumulator:
        fn = self._spec.combine_fn
        return self._store.changing(self._namespace, self._cell, lambda: Accumulator(fn.create_accumulator()))
