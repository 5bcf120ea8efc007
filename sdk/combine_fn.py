"""CombineFn: an aggregation that can be computed in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

import attrs

InT = TypeVar("InT")
AccT = TypeVar("AccT")
OutT = TypeVar("OutT")


@attrs.frozen
class InlineFold:
    """How a combiner is folded without a call for each element.

    Both are Python expressions that the fused stage pastes into its loop: `first` over
    `x` (the accumulator for the first value of a cell), `step` over `acc` and `x`.
    They must give exactly what `add_input` gives.  `merge`, if there is one, is an expression
    over two accumulators, `acc` and `x`, of at least one element each, and gives what
    `merge_accumulators` gives for them.

    >>> InlineFold(first="0 + x", step="acc + x").step
    'acc + x'
    """

    first: str
    step: str
    merge: str | None = None


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

    Accumulators may be changed in place and returned.  `retract_input` (the paper's
    *uncombine*, Dataflow Model section 2.3) is optional: a combiner that has none keeps
    its inputs when it is asked to retract, and recombines what is left of them.
    """

    # An expression form of the fold, for combiners that have one.
    inline_fold: ClassVar[InlineFold | None] = None
    # Whether `extract_output(accumulator)` is the accumulator itself.
    output_is_accumulator: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # What the class that is derived from said of its own fold no longer holds of one
        # that is written anew.
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "add_input" in own:
            if "inline_fold" not in own:
                cls.inline_fold = None
            if "retract_input" not in own:
                cls.retract_input = None
        if "merge_accumulators" in own and "inline_fold" not in own and cls.inline_fold is not None:
            cls.inline_fold = attrs.evolve(cls.inline_fold, merge=None)
        if "extract_output" in own and "output_is_accumulator" not in own:
            cls.output_is_accumulator = False

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each worker, before anything else."""

    def create_accumulator(self, *args: Any, **kwargs: Any) -> AccT:
        """The accumulator of no elements at all."""
        raise NotImplementedError(f"{type(self).__name__}.create_accumulator")

    def add_input(self, accumulator: AccT, element: InT, *args: Any, **kwargs: Any) -> AccT:
        """The accumulator with one more element."""
        raise NotImplementedError(f"{type(self).__name__}.add_input")

    def add_inputs(self, accumulator: AccT, elements: Iterable[InT], *args: Any, **kwargs: Any) -> AccT:
        """The accumulator with more elements."""
        for element in elements:
            accumulator = self.add_input(accumulator, element, *args, **kwargs)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[AccT], *args: Any, **kwargs: Any) -> AccT:
        """One accumulator for all that the given ones stand for."""
        raise NotImplementedError(f"{type(self).__name__}.merge_accumulators")

    def compact(self, accumulator: AccT, *args: Any, **kwargs: Any) -> AccT:
        """The same accumulator in a smaller form, before it travels."""
        return accumulator

    def extract_output(self, accumulator: AccT, *args: Any, **kwargs: Any) -> OutT:
        """The result."""
        raise NotImplementedError(f"{type(self).__name__}.extract_output")

    # A subclass that can take an input back defines
    # `retract_input(accumulator, element) -> accumulator`.
    retract_input: ClassVar[Callable[..., Any] | None] = None

    def retracts_exactly(self, element: InT) -> bool:
        """Whether `retract_input` gives exactly what there was before this element.

        For an element of which it isn't so, the inputs are kept.
        """
        return self.retract_input is not None

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each worker, when it is done."""

    def apply(self, elements: Iterable[InT], *args: Any, **kwargs: Any) -> OutT:
        """The result of a whole collection at once."""
        accumulator = self.add_inputs(self.create_accumulator(*args, **kwargs), elements, *args, **kwargs)
        return self.extract_output(accumulator, *args, **kwargs)

    @staticmethod
    def from_callable(fn: Callable[[Iterable[Any]], Any]) -> CombineFn[Any, Any, Any]:
        """A combiner from a function of an iterable, such as `sum` or `max`."""
        return CallableCombineFn(fn)

    @staticmethod
    def maybe_from_callable(fn: Any, has_arguments: bool = False) -> CombineFn[Any, Any, Any]:
        """`fn` itself if it is a combiner, else a combiner from the callable.

        `has_arguments` says that it is going to be called with further arguments.
        """
        if isinstance(fn, CombineFn):
            return fn
        if isinstance(fn, type) and issubclass(fn, CombineFn):
            raise TypeError(f"got the class {fn.__name__}; did you forget to call it: {fn.__name__}()?")
        if not callable(fn):
            raise TypeError(f"expected a CombineFn or a callable, got {fn!r}")
        from .builtin_combiners import BUILTIN_COMBINE_FNS

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

    # Inputs are kept until there are this many, then replaced by their result.
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
