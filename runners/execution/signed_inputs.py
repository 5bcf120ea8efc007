"""What a grouping keeps of inputs that may be retracted (Dataflow Model, section 2.3).

Of inputs that the combiner can take back exactly, their accumulator and their number; of
others the inputs themselves, as a multiset, which are combined anew when a result is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...sdk.combine_fn import CombineFn


class Multiset:
    """Values and how often each is there; a count may be below zero for a while.

    >>> values = Multiset()
    >>> values.add("a", 1), values.add([1], 1), values.add("a", 1), values.add("a", -1)
    (None, None, None, None)
    >>> list(values)
    ['a', [1]]
    """

    __slots__ = ("_counts", "_unhashable")

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        # Values without a hash, found by comparing.
        self._unhashable: list[tuple[Any, int]] = []

    def add(self, value: Any, count: int) -> None:
        """Have it there `count` times more."""
        try:
            new = self._counts.get(value, 0) + count
        except TypeError:
            self._add_unhashable(value, count)
            return
        if new:
            self._counts[value] = new
        else:
            del self._counts[value]

    def _add_unhashable(self, value: Any, count: int) -> None:
        for i, (other, n) in enumerate(self._unhashable):
            if other == value:
                if n + count:
                    self._unhashable[i] = (other, n + count)
                else:
                    del self._unhashable[i]
                return
        self._unhashable.append((value, count))

    def update(self, other: Multiset) -> None:
        """Add what another one holds."""
        for value, count in [*other._counts.items(), *other._unhashable]:
            self.add(value, count)

    def __iter__(self) -> Iterator[Any]:
        for value, count in [*self._counts.items(), *self._unhashable]:
            for _ in range(count):
                yield value

    def __len__(self) -> int:
        return sum(self._counts.values()) + sum(n for _, n in self._unhashable)


class SignedInputs:
    """The inputs of one key and window, net of what was retracted."""

    __slots__ = ("accumulator", "count", "others")

    def __init__(self) -> None:
        self.accumulator: Any = None
        # How many inputs the accumulator stands for.
        self.count = 0
        self.others: Multiset | None = None

    def add(self, fn: CombineFn[Any, Any, Any] | None, value: Any, sign: int) -> None:
        """Take in an input, or take it back."""
        if fn is None or not fn.retracts_exactly(value):
            if self.others is None:
                self.others = Multiset()
            self.others.add(value, sign)
            return
        if self.accumulator is None:
            self.accumulator = fn.create_accumulator()
        if sign > 0:
            self.accumulator = fn.add_input(self.accumulator, value)
        else:
            assert fn.retract_input is not None
            self.accumulator = fn.retract_input(self.accumulator, value)
        self.count += sign

    @property
    def is_empty(self) -> bool:
        """Whether everything that came was retracted."""
        return self.count == 0 and not self.others

    def result(self, fn: CombineFn[Any, Any, Any] | None) -> Any:
        """The result of the inputs that are left."""
        others = list(self.others) if self.others is not None else []
        if fn is None:
            return others
        accumulator = self.accumulator if self.accumulator is not None else fn.create_accumulator()
        if others:
            # The accumulator stays as it is: it is added to again.
            both = [accumulator, fn.add_inputs(fn.create_accumulator(), others)]
            accumulator = fn.merge_accumulators(both) if self.count else both[1]
        return fn.extract_output(accumulator)

    @staticmethod
    def merged(fn: CombineFn[Any, Any, Any] | None, parts: Iterable[SignedInputs]) -> SignedInputs:
        """All inputs of several windows that have become one."""
        whole = SignedInputs()
        accumulators = []
        for part in parts:
            whole.count += part.count
            if part.accumulator is not None:
                accumulators.append(part.accumulator)
            if part.others is not None:
                if whole.others is None:
                    whole.others = Multiset()
                whole.others.update(part.others)
        if accumulators and fn is not None:
            whole.accumulator = fn.merge_accumulators(accumulators)
        return whole
