"""Folds of combiners: those of built-in combiners, which are known by their class, and those of all others.

The fold of a combiner of exactly a class below is an expression, which a stage's loop has in the place of a call.  A
subclass may override any method, and so its methods are called, as are those of users' combiners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....frozen import frozen
from ....sdk.combine_fn import (
    AllCombineFn,
    AnyCombineFn,
    CombineFn,
    CountCombineFn,
    MaxCombineFn,
    MinCombineFn,
    SumCombineFn,
)
from ....transforms.combiners.latest import LatestCombineFn
from ....transforms.combiners.mean import MeanCombineFn
from ....transforms.combiners.to_list import ToListCombineFn
from ....transforms.combiners.tuple_combine import SingleInputTupleCombineFn, TupleCombineFn
from .source import function

# A key without an accumulator; no accumulator is equal to it.
MISSING = object()

Combiner = CombineFn[Any, Any, Any]


@frozen
class FoldSource:
    """A fold as expressions, which `str.format` completes.

    Attributes:
      first: the accumulator of one input, `x`.
      step: the accumulator with one more input, over `acc` and `x`.
      merge: one accumulator of two, `acc` and `x`, of at least one input each.
      zero: True if `first` is `step` with 0 as the accumulator.
      in_place: True if the accumulator itself is changed by `step` and by `merge`, which return nothing.
    """

    first: str
    step: str
    merge: str
    zero: bool = False
    in_place: bool = False

    def of(self, expression: str, acc: str = "acc", x: str = "x") -> str:
        """Return one of the expressions, as an expression of the accumulator."""
        completed = expression.format(acc=acc, x=x)
        return f"{completed} or {acc}" if self.in_place and expression is not self.first else completed


_LISTS = FoldSource("[{x}]", "{acc}.append({x})", "{acc}.extend({x})", in_place=True)
_CALLED = FoldSource("add_input(create(), {x})", "add_input({acc}, {x})", "merged([{acc}, {x}])")
_LESS, _GREATER = "{x} if {x} < {acc} else {acc}", "{x} if {x} > {acc} else {acc}"
_LATER = "{acc} if {acc}[1] > {x}[1] else {x}"
_BUILT_IN: dict[type[Combiner], FoldSource] = {
    SumCombineFn: FoldSource("0 + {x}", "{acc} + {x}", "{acc} + {x}", zero=True),
    CountCombineFn: FoldSource("0 + 1", "{acc} + 1", "{acc} + {x}", zero=True),
    MinCombineFn: FoldSource("{x}", _LESS, _LESS),
    MaxCombineFn: FoldSource("{x}", _GREATER, _GREATER),
    AnyCombineFn: FoldSource("not not {x}", "{acc} or not not {x}", "{acc} or {x}"),
    AllCombineFn: FoldSource("not not {x}", "{acc} and not not {x}", "{acc} and {x}"),
    MeanCombineFn: FoldSource(
        "(0 + {x}, 1)", "({acc}[0] + {x}, {acc}[1] + 1)", "({acc}[0] + {x}[0], {acc}[1] + {x}[1])"
    ),
    LatestCombineFn: FoldSource("{x}", _LATER, _LATER),
    ToListCombineFn: _LISTS,
}


def _known(fn: Combiner | None) -> FoldSource | None:
    """Return the fold of a built-in combiner, or of lists; None for any other combiner."""
    if fn is None:
        return _LISTS
    if type(fn) not in (TupleCombineFn, SingleInputTupleCombineFn):
        return _BUILT_IN.get(type(fn))
    parts = [_known(part) for part in fn.combiners]  # type: ignore[attr-defined]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    of_input = "{{x}}[{k}]" if type(fn) is TupleCombineFn else "{{x}}"

    def together(expressions: list[str], x: str) -> str:
        items = [
            part.of(expression, f"{{acc}}[{k}]", x.format(k=k))
            for k, (part, expression) in enumerate(zip(known, expressions, strict=True))
        ]
        return "(" + "".join(f"({item}), " for item in items) + ")"

    return FoldSource(
        together([part.first for part in known], of_input),
        together([part.step for part in known], of_input),
        together([part.merge for part in known], "{{x}}[{k}]"),
    )


def fold_source(fn: Combiner | None, counts: bool = False) -> FoldSource:
    """Return the fold of a combiner; of lists for None.

    Args:
      counts: True if accumulators are pairs of the combiner's accumulator and the number of its inputs.

    >>> fold_source(SumCombineFn(), counts=True).of("{acc}")
    'acc'
    """
    source = _known(fn) or _CALLED
    if not counts:
        return source
    return FoldSource(
        f"({source.first}, 1)",
        f"({source.of(source.step, '{acc}[0]', '{x}')}, {{acc}}[1] + 1)",
        f"({source.of(source.merge, '{acc}[0]', '{x}[0]')}, {{acc}}[1] + {{x}}[1])",
    )


def names_of_combiner(fn: Combiner | None) -> Mapping[str, Any]:
    """Return the globals of a fold's expressions."""
    if fn is None or _known(fn) is not None:
        return {}
    return {
        "add_input": fn.add_input,
        "create": fn.create_accumulator,
        "merged": fn.merge_accumulators,
    }


@frozen
class FoldFunctions:
    """A fold as functions.

    Attributes:
      first: returns the accumulator of one input.
      add: returns an accumulator with one more input.
      merge: returns one accumulator of two, of at least one input each.
      calls: True if they call the combiner's methods, which may add several inputs faster at once.
    """

    first: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    calls: bool


def fold_functions(fn: Combiner | None, counts: bool = False) -> FoldFunctions:
    """Return the fold of a combiner as functions; arguments as for `fold_source`.

    >>> fold = fold_functions(SumCombineFn())
    >>> fold.first(1), fold.add(1, 2), fold.merge(3, 4)
    (1, 3, 7)
    """
    source = fold_source(fn, counts)

    def of(arguments: str, expression: str) -> Callable[..., Any]:
        return function(f"def run({arguments}): return {source.of(expression)}", {**names_of_combiner(fn)})

    calls = _known(fn) is None
    add = of("acc, x", source.step) if fn is None or counts or not calls else fn.add_input
    return FoldFunctions(of("x", source.first), add, of("acc, x", source.merge), calls)
