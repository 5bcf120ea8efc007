"""Inputs that may be retracted: what a grouping keeps of them, and which input a retraction takes back.

Of inputs that the combiner can retract exactly, a grouping keeps an accumulator and their number; of others the inputs
themselves, in a multiset, and combines them when a result is due (Dataflow Model, section 2.3).  Where windows merge,
it keeps this for each window that inputs came with instead of the merged one: when the input that joined two sessions
is retracted, they are two sessions again.

A retraction takes back an equal input, or one with the same encoding where values aren't equal to their copies.  NaN
isn't equal to itself, arrays can't be compared as a whole, and objects without `__eq__` are equal only to themselves:
behind a shuffle or a snapshot they are other objects, and can still be retracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from ....persistence import restores
from ....sdk.combine_fn import CombineFn
from ....sdk.errors import SerializationError
from ....windowing import BoundedWindow
from .combining import Fold

# Types whose values are equal to their copies, except for NaN.
_EQUAL_TO_COPIES = frozenset({int, str, bytes, bool, type(None), float})


def are_equal(value: Any, other: Any) -> bool:
    """Return whether one of two values can stand for the other.

    >>> are_equal([1], [1.0]), are_equal([1], [2])
    (True, False)
    """
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return find_alike(value, [other]) is not None


def find_alike(value: Any, values: Iterable[Any]) -> int | None:
    """Return the index of the first of these values with the same type and encoding; None if there is none.

    For a value that none of them is equal to.  If it is equal to its own copies they aren't searched, since the one
    to find would have been equal.

    >>> find_alike(("a", float("nan")), [("b", 1), ("a", float("nan"))])
    1
    """
    if type(value) in _EQUAL_TO_COPIES and value == value:
        return None
    # Most values are found by equality.
    from ..serialization.column_codec import decode_column, encode_column

    try:
        encoded = encode_column([value])
        if _is_equal(decode_column(encoded)[0], value):
            return None
        for index, other in enumerate(values):
            if type(other) is type(value) and encode_column([other]) == encoded:
                return index
    except SerializationError:
        # A value that can't be encoded hasn't left the process: it is the object that it was.
        pass
    return None


def _is_equal(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return False


class _NotANumber:
    """Key for every NaN: no two of them are equal, and yet one retracts another."""

    # There is one object, also after pickling.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_not_a_number, ())


_NAN = _NotANumber()


@restores("not-a-number", 1)
def _not_a_number() -> _NotANumber:
    return _NAN


class Multiset:
    """Values and their counts; a count may be negative for a while.

    >>> values = Multiset()
    >>> values.add("a", 1), values.add([1], 1), values.add("a", 1), values.add("a", -1)
    (None, None, None, None)
    >>> list(values)
    ['a', [1]]
    """

    __slots__ = ("_counts", "_unhashable")

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        # Values without a hash are searched for.
        self._unhashable: list[tuple[Any, int]] = []

    def add(self, value: Any, count: int) -> None:
        """Add `count` to the count of a value."""
        if type(value) is float and value != value:
            value = _NAN
        counts = self._counts
        try:
            known = counts.get(value)
        except TypeError:
            self._add_unhashable(value, count)
            return
        if known is None and count < 0:
            index = find_alike(value, counts)
            if index is not None:
                value = list(counts)[index]
        new = counts.get(value, 0) + count
        if new:
            counts[value] = new
        else:
            counts.pop(value, None)

    def _add_unhashable(self, value: Any, count: int) -> None:
        present = self._unhashable
        index = next((i for i, (other, _) in enumerate(present) if are_equal(other, value)), None)
        if index is None and count < 0:
            index = find_alike(value, [other for other, _ in present])
        if index is None:
            present.append((value, count))
            return
        other, known = present[index]
        if known + count:
            present[index] = (other, known + count)
        else:
            del present[index]

    def update(self, other: Multiset) -> None:
        """Add the counts of another multiset."""
        for value, count in [*other._counts.items(), *other._unhashable]:
            self.add(value, count)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_multiset, (self._counts, self._unhashable))

    def __iter__(self) -> Iterator[Any]:
        for value, count in [*self._counts.items(), *self._unhashable]:
            for _ in range(count):
                yield float("nan") if value is _NAN else value

    def __len__(self) -> int:
        """Return the number of values that iterating gives: those with a negative count are left out."""
        return sum(n for n in [*self._counts.values(), *(n for _, n in self._unhashable)] if n > 0)

    def __bool__(self) -> bool:
        return bool(self._counts or self._unhashable)


@restores("multiset", 1)
def _multiset(counts: dict[Any, int], unhashable: list[tuple[Any, int]]) -> Multiset:
    restored = Multiset()
    restored._counts, restored._unhashable = counts, unhashable
    return restored


Combiner = CombineFn[Any, Any, Any]


class SignedInputs:
    """The inputs of one key and window, net of what was retracted.

    >>> from penstock.sdk.combine_fn import SumCombineFn
    >>> inputs = SignedInputs()
    >>> inputs.add(SumCombineFn(), None, 5, None, 1), inputs.add(SumCombineFn(), None, 2, None, 1)
    (False, False)
    >>> inputs.add(SumCombineFn(), None, 5, None, -1), inputs.result(SumCombineFn())
    (False, 2)
    """

    __slots__ = ("accumulator", "count", "others", "stamps")

    def __init__(self) -> None:
        self.accumulator: Any = None
        # The number of inputs in the accumulator.
        self.count = 0
        self.others: Multiset | None = None
        # The timestamps that the timestamp combiner chooses from, if it does.
        self.stamps: Multiset | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_signed_inputs, (self.accumulator, self.count, self.others, self.stamps))

    def add(self, fn: Combiner | None, window: BoundedWindow | None, value: Any, stamp: int | None, sign: int) -> bool:
        """Add an input or retract it, and return whether nothing is left of those that came with `window`."""
        if stamp is not None:
            if self.stamps is None:
                self.stamps = Multiset()
            self.stamps.add(stamp, sign)
        if fn is None or not fn.retracts_exactly(value):
            if self.others is None:
                self.others = Multiset()
            self.others.add(value, sign)
            return self._is_gone(fn)
        if self.accumulator is None:
            self.accumulator = fn.create_accumulator()
        if sign > 0:
            self.accumulator = fn.add_input(self.accumulator, value)
        else:
            assert fn.retract_input is not None
            self.accumulator = fn.retract_input(self.accumulator, value)
        self.count += sign
        return self._is_gone(fn)

    def _is_gone(self, fn: Combiner | None) -> bool:
        """Return whether each input was retracted, and each retraction has had its input."""
        if self.count or self.others:
            return False
        # An input and a retraction that came before its own input are in the accumulator, too.
        if fn is None or self.accumulator is None:
            return True
        nothing = fn.create_accumulator()
        return _is_equal(self.accumulator, nothing) or find_alike(self.accumulator, [nothing]) is not None

    @property
    def has_inputs(self) -> bool:
        """Return whether any input is left; only retractions that came before their inputs may be."""
        return self.count > 0 or (self.others is not None and len(self.others) > 0)

    def result(self, fn: Combiner | None) -> Any:
        """Return the result of the inputs that are left."""
        others = list(self.others) if self.others is not None else []
        return others if fn is None else fn.extract_output(self.combined(fn, others))

    def combined(self, fn: Combiner, others: list[Any]) -> Any:
        """Return an accumulator of the inputs that are left; if there are others, one that may be changed."""
        if self.count <= 0:
            return fn.add_inputs(fn.create_accumulator(), others)
        return fn.add_inputs(deepcopy(self.accumulator), others) if others else self.accumulator

    def times(self) -> list[int]:
        """Return the timestamps that the timestamp combiner chooses from."""
        return list(self.stamps) if self.stamps is not None else []


class SignedWindows:
    """The inputs of a merged window, by the window that they came with."""

    __slots__ = ("by_window",)

    def __init__(self) -> None:
        self.by_window: dict[BoundedWindow, SignedInputs] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_signed_windows, (self.by_window,))

    def add(self, fn: Combiner | None, window: BoundedWindow, value: Any, stamp: int | None, sign: int) -> bool:
        """Add an input or retract it, and return whether no input is left of those that came with `window`."""
        inputs = self.by_window.get(window)
        if inputs is None:
            inputs = self.by_window[window] = SignedInputs()
        is_gone = inputs.add(fn, window, value, stamp, sign)
        if is_gone:
            del self.by_window[window]
        return is_gone

    @property
    def is_empty(self) -> bool:
        """Return whether all inputs were retracted, and each retraction has had its input."""
        return not self.by_window

    @property
    def has_inputs(self) -> bool:
        """Return whether any input is left; only retractions that came before their inputs may be."""
        return any(inputs.has_inputs for inputs in self.by_window.values())

    def result(self, fn: Combiner | None) -> Any:
        """Return the result of the inputs that are left."""
        parts = list(self.by_window.values())
        if len(parts) == 1:
            return parts[0].result(fn)
        others = [value for part in parts for value in part.others or ()]
        if fn is None:
            return others
        # Merging may change its arguments.
        accumulators = [deepcopy(part.accumulator) for part in parts if part.count > 0]
        return fn.extract_output(fn.add_inputs(fn.merge_accumulators([fn.create_accumulator(), *accumulators]), others))

    def times(self) -> list[int]:
        """Return the timestamps that the timestamp combiner chooses from."""
        return [time for part in self.by_window.values() for time in part.times()]

    def taken(self, windows: Iterable[BoundedWindow]) -> SignedWindows:
        """Remove and return the inputs that came with these windows."""
        part = SignedWindows()
        part.by_window = {window: self.by_window.pop(window) for window in windows}
        return part

    @staticmethod
    def merged(parts: Iterable[SignedWindows]) -> SignedWindows:
        """Merge the inputs of several windows."""
        whole = SignedWindows()
        for part in parts:
            whole.by_window |= part.by_window
        return whole


class SignedFold(Fold):
    """The fold of a grouping whose inputs may be retracted: its accumulators are those inputs, net of retractions."""

    retracted = True

    def nothing(self) -> Any:
        return SignedWindows() if self.operation.merging else SignedInputs()

    def is_empty(self, accumulator: Any) -> bool:
        return bool(accumulator.is_empty)

    def has_inputs(self, accumulator: Any) -> bool:
        return bool(accumulator.has_inputs)

    def merged(self, accumulators: list[Any]) -> Any:
        return SignedWindows.merged(accumulators)

    def result(self, accumulator: Any, is_empty: bool = False) -> Any:
        return accumulator.result(self.combine_fn)


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
