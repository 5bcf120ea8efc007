"""What a grouping keeps of inputs that may be retracted (Dataflow Model, section 2.3).

Of inputs that the combiner can take back exactly, their accumulator and their number; of
others the inputs themselves, as a multiset, which are combined anew when a result is due.

Where windows merge, this is kept for each window that an input came with, not for the merged
one: when the input that joined two sessions is taken back, they part again.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from ...sdk.combine_fn import CombineFn
from ...stored import restores
from ...windowing import BoundedWindow
from .multiset import Multiset

Combiner = CombineFn[Any, Any, Any]


class SignedInputs:
    """The inputs of one key and window, net of what was retracted.

    >>> from penstock.sdk.builtin_combiners import SumCombineFn
    >>> inputs = SignedInputs()
    >>> inputs.add(SumCombineFn(), None, 5, None, 1), inputs.add(SumCombineFn(), None, 2, None, 1)
    (False, False)
    >>> inputs.add(SumCombineFn(), None, 5, None, -1), inputs.result(SumCombineFn())
    (False, 2)
    """

    __slots__ = ("accumulator", "count", "others", "stamps")

    def __init__(self) -> None:
        self.accumulator: Any = None
        # How many inputs the accumulator stands for.
        self.count = 0
        self.others: Multiset | None = None
        # What the timestamp combiner chooses from, if it is to choose.
        self.stamps: Multiset | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_signed_inputs, (self.accumulator, self.count, self.others, self.stamps))

    def add(self, fn: Combiner | None, window: BoundedWindow | None, value: Any, stamp: int | None, sign: int) -> bool:
        """Take in an input, or take it back; whether nothing is left of those that came with `window`."""
        if stamp is not None:
            if self.stamps is None:
                self.stamps = Multiset()
            self.stamps.add(stamp, sign)
        if fn is None or not fn.retracts_exactly(value):
            if self.others is None:
                self.others = Multiset()
            self.others.add(value, sign)
            return self.is_empty
        if self.accumulator is None:
            self.accumulator = fn.create_accumulator()
        if sign > 0:
            self.accumulator = fn.add_input(self.accumulator, value)
        else:
            assert fn.retract_input is not None
            self.accumulator = fn.retract_input(self.accumulator, value)
        self.count += sign
        return self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether everything that came was retracted."""
        return self.count == 0 and not self.others

    def result(self, fn: Combiner | None) -> Any:
        """The result of the inputs that are left."""
        others = list(self.others) if self.others is not None else []
        return others if fn is None else fn.extract_output(self.combined(fn, others))

    def combined(self, fn: Combiner, others: list[Any]) -> Any:
        """An accumulator of the inputs that are left; with others, one that is not used again."""
        if not self.count:
            return fn.add_inputs(fn.create_accumulator(), others)
        return fn.add_inputs(deepcopy(self.accumulator), others) if others else self.accumulator

    def times(self) -> list[int]:
        """What the timestamp combiner chooses from."""
        return list(self.stamps) if self.stamps is not None else []


class SignedWindows:
    """The inputs of a merged window, by the window that each came with."""

    __slots__ = ("by_window",)

    def __init__(self) -> None:
        self.by_window: dict[BoundedWindow, SignedInputs] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_signed_windows, (self.by_window,))

    def add(self, fn: Combiner | None, window: BoundedWindow, value: Any, stamp: int | None, sign: int) -> bool:
        """Take in an input, or take it back; whether nothing is left of those that came with `window`."""
        inputs = self.by_window.get(window)
        if inputs is None:
            inputs = self.by_window[window] = SignedInputs()
        is_gone = inputs.add(fn, window, value, stamp, sign)
        if is_gone:
            del self.by_window[window]
        return is_gone

    @property
    def is_empty(self) -> bool:
        """Whether everything that came was retracted."""
        return not self.by_window

    def result(self, fn: Combiner | None) -> Any:
        """The result of the inputs that are left."""
        parts = list(self.by_window.values())
        if len(parts) == 1:
            return parts[0].result(fn)
        others = [value for part in parts for value in part.others or ()]
        if fn is None:
            return others
        # Merging may change what it is given.
        accumulators = [deepcopy(part.accumulator) for part in parts if part.count]
        return fn.extract_output(fn.add_inputs(fn.merge_accumulators([fn.create_accumulator(), *accumulators]), others))

    def times(self) -> list[int]:
        """What the timestamp combiner chooses from."""
        return [time for part in self.by_window.values() for time in part.times()]

    def taken(self, windows: Iterable[BoundedWindow]) -> SignedWindows:
        """The inputs that came with these windows, taken out."""
        part = SignedWindows()
        part.by_window = {window: self.by_window.pop(window) for window in windows}
        return part

    @staticmethod
    def merged(parts: Iterable[SignedWindows]) -> SignedWindows:
        """All inputs of several windows that have become one."""
        whole = SignedWindows()
        for part in parts:
            whole.by_window |= part.by_window
        return whole


@restores("signed-inputs", 1)
def _signed_inputs(accumulator: Any, count: int, others: Multiset | None, stamps: Multiset | None) -> SignedInputs:
    restored = SignedInputs()
    restored.accumulator, restored.count, restored.others, restored.stamps = accumulator, count, others, stamps
    return restored


@restores("signed-windows", 1)
def _signed_windows(by_window: dict[BoundedWindow, SignedInputs]) -> SignedWindows:
    restored = SignedWindows()
    restored.by_window = by_window
    return restored
