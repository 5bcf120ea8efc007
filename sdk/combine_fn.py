"""CombineFn: an aggregation computed in parts, and the combiners of sum, min, max, any, all and count.

`CombinePerKey(sum)` is `CombinePerKey(SumCombineFn())`. A plain callable buffers its inputs; the combiners of built-in
functions fold each input into one value.

>>> MinCombineFn().apply([3, 1, 2])
1
>>> BUILTIN_COMBINE_FNS[sum]().apply([1, 2, 3])
6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import chain
from numbers import Rational
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

from ..persistence import restores
from ..windowing.window_fn import overrides
from .columns.arrow_fold import ALL, ANY, COUNT, MAX, MIN, SUM, ArrowFolds
from .errors import InputError, PenstockError

if TYPE_CHECKING:
    # With defaults, so that `CombineFn` alone is a type.
    from typing_extensions import TypeVar

    InT = TypeVar("InT", contravariant=True, default=Any)
    AccT = TypeVar("AccT", default=Any)
    OutT = TypeVar("OutT", covariant=True, default=Any)
else:
    from typing import TypeVar

    InT, AccT, OutT = TypeVar("InT", contravariant=True), TypeVar("AccT"), TypeVar("OutT", covariant=True)


# What a class says about its methods, which doesn't hold for a subclass that overrides one of them.
_SAID_OF = {
    "add_inputs": ("add_input",),
    "arrow_fold": ("create_accumulator", "add_input", "add_inputs", "merge_accumulators", "extract_output"),
    "infer_output_type": ("extract_output",),
    "output_is_accumulator": ("extract_output",),
    "retract_input": ("add_input",),
}


class CombineFn(Generic[InT, AccT, OutT]):
    """An associative, commutative aggregation.

    >>> class Longest(CombineFn):
    ...     def create_accumulator(self):
    ...         return ""
    ...     def add_input(self, accumulator, element):
    ...         return max(accumulator, element, key=len)
    ...     def merge_accumulators(self, accumulators):
    ...         return max(accumulators, key=len)
    ...     def extract_output(self, accumulator):
    ...         return accumulator
    >>> Longest().apply(["a", "ccc", "bb"])
    'ccc'

    Accumulators may be changed in place and returned.  `retract_input` (the paper's *uncombine*, Dataflow Model section
    2.3) is optional: for a combiner without it, runners keep the inputs that may be retracted, and recombine the rest.
    """

    # The fold of columns, for combiners that have one.
    arrow_fold: ClassVar[ArrowFolds | None] = None
    # Whether `extract_output(accumulator)` is the accumulator itself.
    output_is_accumulator: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, methods in _SAID_OF.items():
            if any(overrides(cls, method, name) for method in methods):
                setattr(cls, name, vars(CombineFn)[name])

    if TYPE_CHECKING:
        # For the protocols of `static_types`.
        def _accepts(self) -> list[InT]: ...

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the combiner.  Called once in each worker, before the other methods."""

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show, by name."""
        return {}

    def create_accumulator(self, *args: Any, **kwargs: Any) -> AccT:
        """Return the accumulator of no elements."""
        raise NotImplementedError(f"{type(self).__name__}.create_accumulator")

    def add_input(self, accumulator: AccT, element: InT, *args: Any, **kwargs: Any) -> AccT:
        """Return the accumulator with one more element."""
        raise NotImplementedError(f"{type(self).__name__}.add_input")

    def add_inputs(self, accumulator: AccT, elements: Iterable[InT], *args: Any, **kwargs: Any) -> AccT:
        """Return the accumulator with more elements."""
        for element in elements:
            accumulator = self.add_input(accumulator, element, *args, **kwargs)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[AccT], *args: Any, **kwargs: Any) -> AccT:
        """Return one accumulator for the elements of all given accumulators."""
        raise NotImplementedError(f"{type(self).__name__}.merge_accumulators")

    def compact(self, accumulator: AccT, *args: Any, **kwargs: Any) -> AccT:
        """Return an equivalent smaller accumulator, before it is sent."""
        return accumulator

    def extract_output(self, accumulator: AccT, *args: Any, **kwargs: Any) -> OutT:
        """Return the result."""
        raise NotImplementedError(f"{type(self).__name__}.extract_output")

    # A subclass that can retract an input defines `retract_input(accumulator, element) -> accumulator`.
    retract_input: ClassVar[Callable[..., Any] | None] = None

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the type of a result for values of a type; `Any` if it is unknown.  A declared type counts instead."""
        return Any

    def retracts_exactly(self, element: InT) -> bool:
        """Return whether `retract_input` restores exactly the accumulator without this element.

        For other elements, the inputs are kept.
        """
        return self.retract_input is not None

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        """Release resources.  Called once in each worker, after the other methods."""

    def apply(self, elements: Iterable[InT], *args: Any, **kwargs: Any) -> OutT:
        """Return the result for a whole collection."""
        accumulator = self.add_inputs(self.create_accumulator(*args, **kwargs), elements, *args, **kwargs)
        return self.extract_output(accumulator, *args, **kwargs)

    @staticmethod
    def from_callable(fn: Callable[[Iterable[Any]], Any]) -> CombineFn[Any, Any, Any]:
        """Return a combiner from a function of an iterable, such as `sum` or `max`."""
        return CallableCombineFn(fn)

    @staticmethod
    def maybe_from_callable(fn: Any, has_arguments: bool = False) -> CombineFn[Any, Any, Any]:
        """Return `fn` itself if it is a combiner, else a combiner from the callable.

        `has_arguments` tells that it will be called with further arguments.
        """
        if isinstance(fn, CombineFn):
            return fn
        if isinstance(fn, type) and issubclass(fn, CombineFn):
            raise InputError(f"got the class {fn.__name__}; did you forget to call it: {fn.__name__}()?")
        if not callable(fn):
            raise TypeError(f"expected a CombineFn or a callable, got {fn!r}")
        try:
            built_in = BUILTIN_COMBINE_FNS.get(fn)
        except TypeError:  # a callable without a hash
            built_in = None
        return CallableCombineFn(fn) if built_in is None or has_arguments else built_in()


class CallableCombineFn(CombineFn[Any, list[Any], Any]):
    """A combiner from a function of an iterable.

    The function must be associative and commutative, and accept its own results as
    inputs: a partial result stands for the inputs that it was made of.  `sum`, `min`
    and `max` qualify.

    >>> CallableCombineFn(sum).apply([1, 2, 3])
    6
    """

    # Number of buffered inputs that are replaced by their result.
    BUFFER = 128

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def create_accumulator(self, *args: Any, **kwargs: Any) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any, *args: Any, **kwargs: Any) -> list[Any]:
        accumulator.append(element)
        if len(accumulator) > self.BUFFER:
            return [self.fn(accumulator, *args, **kwargs)]
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]], *args: Any, **kwargs: Any) -> list[Any]:
        merged: list[Any] = []
        for accumulator in accumulators:
            merged.extend(accumulator)
            if len(merged) > self.BUFFER:
                merged = [self.fn(merged, *args, **kwargs)]
        return merged

    def compact(self, accumulator: list[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return accumulator if len(accumulator) <= 1 else [self.fn(accumulator, *args, **kwargs)]

    def extract_output(self, accumulator: list[Any], *args: Any, **kwargs: Any) -> Any:
        return self.fn(accumulator, *args, **kwargs)

    def __repr__(self) -> str:
        return f"CombineFn({getattr(self.fn, '__name__', self.fn)!s})"


def retracts_exactly(element: Any) -> bool:
    """Return whether subtracting `element` from a sum restores the sum before it.

    True for whole numbers and fractions.  A sum of floats or Decimals is rounded, so subtraction leaves a rounding
    error.

    >>> retracts_exactly(1), retracts_exactly(0.1)
    (True, False)
    """
    return type(element) is int or isinstance(element, Rational)


def inexact_retraction(combiner: CombineFn[Any, Any, Any], element: Any) -> PenstockError:
    """Return the error of a combiner for an element that it can't subtract exactly."""
    return PenstockError(
        f"{type(combiner).__name__} was asked to retract {element!r}: subtracting a {type(element).__name__} from a "
        f"sum is not exact; ask retracts_exactly() first, and recombine the inputs that are left"
    )


class SumCombineFn(CombineFn[Any, Any, Any]):
    """The sum of the elements: numbers, or other values that can be added to 0.

    >>> SumCombineFn().apply([1, 2, 3])
    6
    """

    arrow_fold = SUM
    output_is_accumulator = True

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    # From Python 3.12 on, the built-in sum compensates for the rounding of floats.  A sum must not depend on whether
    # its elements are added one by one or as a bundle.
    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        return reduce(add, elements, accumulator)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return reduce(add, accumulators, 0)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether `retract_input` accepts `element`: see the function of this name.

        It holds for a sum only while it holds for every element in it.
        """
        return retracts_exactly(element)

    def retract_input(self, accumulator: Any, element: Any) -> Any:
        """Return the sum without `element`.  Raises `PenstockError` if it would be inexact."""
        if not retracts_exactly(element):
            raise inexact_retraction(self, element)
        return accumulator - element


class CountCombineFn(CombineFn[Any, int, int]):
    """The number of elements.

    >>> CountCombineFn().apply(["a", "b", "a"])
    3
    """

    arrow_fold = COUNT
    output_is_accumulator = True

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: Any) -> int:
        return accumulator + 1

    def add_inputs(self, accumulator: int, elements: Iterable[Any]) -> int:
        if isinstance(elements, (list, tuple)):
            return accumulator + len(elements)
        return accumulator + sum(1 for _ in elements)

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator

    def retract_input(self, accumulator: int, element: Any) -> int:
        """Return the count less one."""
        return accumulator - 1


class _Nothing:
    """Minimum and maximum of no elements: every element is less, and greater, than it."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return True

    # Unpickled as the same object in every process.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_nothing, ())

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@restores("nothing", 1)
def _nothing() -> _Nothing:
    return NOTHING


class _ExtremeCombineFn(CombineFn[Any, Any, Any]):
    """Base class of `MinCombineFn` and `MaxCombineFn`, which fold by a built-in function."""

    output_is_accumulator = True
    _extreme: Callable[..., Any]

    def create_accumulator(self) -> Any:
        return NOTHING

    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        if accumulator is NOTHING:
            return self._extreme(elements, default=NOTHING)
        return self._extreme(chain((accumulator,), elements))

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self._extreme((a for a in accumulators if a is not NOTHING), default=NOTHING)

    def extract_output(self, accumulator: Any) -> Any:
        if accumulator is NOTHING:
            name = self._extreme.__name__
            raise ValueError(
                f"{name}() of no elements at all; where a collection or a window may be empty, use "
                f"CombineGlobally({name}).without_defaults(), which has no output for it"
            )
        return accumulator


class MinCombineFn(_ExtremeCombineFn):
    """The least element; the first one of several equal elements.

    As of `min(())`, the result for no elements is a ValueError.

    >>> MinCombineFn().apply([3, 1, 2])
    1
    """

    add_inputs = _ExtremeCombineFn.add_inputs
    arrow_fold = MIN
    _extreme = staticmethod(min)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is NOTHING or element < accumulator else accumulator


class MaxCombineFn(_ExtremeCombineFn):
    """The greatest element; the first one of several equal elements.

    As of `max(())`, the result for no elements is a ValueError.

    >>> MaxCombineFn().apply([3, 1, 2])
    3
    """

    add_inputs = _ExtremeCombineFn.add_inputs
    arrow_fold = MAX
    _extreme = staticmethod(max)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is NOTHING or element > accumulator else accumulator


class AnyCombineFn(CombineFn[Any, bool, bool]):
    """Whether any element is true; of no elements, False.

    >>> AnyCombineFn().apply([0, "", 1])
    True
    """

    arrow_fold = ANY
    output_is_accumulator = True

    def create_accumulator(self) -> bool:
        return False

    def add_input(self, accumulator: bool, element: Any) -> bool:
        return accumulator or bool(element)

    def add_inputs(self, accumulator: bool, elements: Iterable[Any]) -> bool:
        return accumulator or any(elements)

    def merge_accumulators(self, accumulators: Iterable[bool]) -> bool:
        return any(accumulators)

    def extract_output(self, accumulator: bool) -> bool:
        return accumulator


class AllCombineFn(CombineFn[Any, bool, bool]):
    """Whether all elements are true; of no elements, True.

    >>> AllCombineFn().apply([1, "a", 0])
    False
    """

    arrow_fold = ALL
    output_is_accumulator = True

    def create_accumulator(self) -> bool:
        return True

    def add_input(self, accumulator: bool, element: Any) -> bool:
        return accumulator and bool(element)

    def add_inputs(self, accumulator: bool, elements: Iterable[Any]) -> bool:
        return accumulator and all(elements)

    def merge_accumulators(self, accumulators: Iterable[bool]) -> bool:
        return all(accumulators)

    def extract_output(self, accumulator: bool) -> bool:
        return accumulator


# The combiners of built-in functions that are given without further arguments.
BUILTIN_COMBINE_FNS: dict[Callable[..., Any], Callable[[], CombineFn[Any, Any, Any]]] = {
    sum: SumCombineFn,
    min: MinCombineFn,
    max: MaxCombineFn,
    any: AnyCombineFn,
    all: AllCombineFn,
}
