"""The loop of a stateful ParDo over the elements of a bundle, which is a kernel for each shape of bundle."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import attrs

from ....sdk.elements.bundle import Bundle, Shape, Windows
from ....sdk.user_code.step_slot import SLOW, here
from ....sdk.userstate.store import StateColumn
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from ..kernels.stateful import LoopDescription, loop_kernel
from ..stages.output_buffer import OutputRows
from .callbacks import KeyedTimers, TimerOwner


class LoopOwner(TimerOwner, Protocol):
    """The executor of the ParDo.

    Attributes:
      dropped: the number of late elements.
      is_overdue: True if a timer was set to a time that has passed.
      rows: its outputs.
    """

    dropped: int
    is_overdue: bool
    rows: OutputRows

    def enter(self, window: BoundedWindow) -> tuple[StateColumn, ...] | None:
        """Return the columns of a window's states, in the order of the parameters; None if the window has expired."""

    def check_keys(self, elements: list[Any]) -> None:
        """Raise an error if one of the elements has no valid key."""

    def fire_all(self) -> None:
        """Fire all due timers."""

    def emit_special(self, output: Any, micros: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        """Emit an output that is a TimestampedValue or the like."""


class ElementLoop:
    """The loops of one executor over the elements of bundles, by the shape of a bundle.

    Args:
      description: that of the loop, for bundles of any shape.
      by_bundle: by name, the arguments that may change from bundle to bundle.
    """

    def __init__(self, owner: LoopOwner, description: LoopDescription, by_bundle: dict[str, Any]) -> None:
        self._owner = owner
        self._description = description
        self._by_bundle = by_bundle
        self._by_shape: dict[Shape, Callable[..., None]] = {}
        # Whether so much is done for an element that the slot moves with it.  The first bundle's are noted, too.
        self._is_slow = True

    def run(self, bundle: Bundle) -> None:
        """Process a bundle.

        Raises `TypeError` or `ValueError` for an element that is no pair.
        """
        shape = bundle.shape
        run = self._by_shape.get(shape)
        if run is None:
            run = self._by_shape[shape] = self._kernel(shape)
        began, values = perf_counter(), bundle.values
        elements: Any = here.slot.noting(values) if self._is_slow else values
        run(values, elements, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)
        self._is_slow = perf_counter() - began > SLOW * len(values)

    def element_of(self, error: BaseException) -> Any:
        """Return the element that was processed when an error was raised; None if there was none."""
        codes = {run.__code__ for run in self._by_shape.values()}
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code not in codes:
            tb = tb.tb_next
        return None if tb is None else tb.tb_frame.f_locals.get("e")

    def _kernel(self, shape: Shape) -> Callable[..., None]:
        owner = self._owner
        names = {
            "KeyedTimers": KeyedTimers,
            "at": owner.rows.at,
            "check_keys": owner.check_keys,
            "enter": owner.enter,
            "fire_due": owner.fire_all,
            "flush": owner.rows.flush,
            "owner": owner,
            "special": owner.emit_special,
        }
        return loop_kernel(attrs.evolve(self._description, shape=shape), self._by_bundle, names)
