"""Accumulators merged, key by key: what most of the time behind a shuffle goes into.

Of a combiner whose merge is an expression the loop is generated, as a stage's is; that saves
a call, and a list to call it with, for each key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from .fold import MISSING, Fold

MergeInto = Callable[[dict[Any, Any], list[Any], list[Any]], None]

_SOURCE = """
def merge_into(held, keys, accumulators):
    get = held.get
    for key, x in zip(keys, accumulators):
        acc = get(key, MISSING)
        held[key] = x if acc is MISSING else {merge}
"""

# A plain grouping's lists grow in place.
_APPENDED = "acc.extend(x) or acc"


def _merge_of(fold: Fold) -> tuple[str, dict[str, Any]]:
    """The merge of two accumulators, `acc` and `x`, as an expression; and the names in it."""
    expression = "merged([acc, x])"
    if fold.combine_fn is None:
        expression = _APPENDED
    elif fold.combine_fn.inline_fold is not None and fold.combine_fn.inline_fold.merge is not None:
        expression = fold.combine_fn.inline_fold.merge
    return expression, {"MISSING": MISSING, "merged": fold.merged}


def merging_two(fold: Fold) -> Callable[[Any, Any], Any]:
    """A function of two accumulators, of at least one element each, that gives one for both."""
    expression, names = _merge_of(fold)
    return eval(_compiled(f"lambda acc, x: {expression}", "eval"), names)  # type: ignore[no-any-return]


def merging_into(fold: Fold) -> MergeInto:
    """A function `(held, keys, accumulators)` that merges accumulators into those held by key.

    >>> from penstock.runners.execution.fold import MISSING
    >>> exec(_SOURCE.format(merge="acc + x"), names := {"MISSING": MISSING})
    >>> names["merge_into"](held := {"a": 1}, ["a", "b"], [2, 3])
    >>> held
    {'a': 3, 'b': 3}
    """
    expression, names = _merge_of(fold)
    exec(_compiled(_SOURCE.format(merge=expression), "exec"), names)
    merge_into: MergeInto = names["merge_into"]

    def merge(held: dict[Any, Any], keys: list[Any], accumulators: list[Any]) -> None:
        if held:
            merge_into(held, keys, accumulators)
        else:
            held.update(zip(keys, accumulators, strict=True))

    return merge


@lru_cache(maxsize=256)
def _compiled(source: str, mode: str) -> CodeType:
    return compile(source, "<penstock merge>", mode)
