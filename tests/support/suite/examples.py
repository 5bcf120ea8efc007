"""The number of examples of a hypothesis test: few by `make test`, and `EXAMPLES` by `make properties`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
from support.runners.local_variants import IN_SIMULATION, IN_THIS_PROCESS

# So many, if the environment says so.
_GIVEN = os.environ.get("EXAMPLES")

# A test that declares no more than these takes long for each, and tries all of them.
FEW = 10

# The part of the examples that a test declares of which one is tried, but at least `FEW`.
_PART = 10

# Of variants of a runner so many are tried: what an operator does is tried on the first.
OF_VARIANTS = 8
IN_SIMULATIONS = 4


def variant_of(item: pytest.Item) -> str:
    """The runner that a property is tried on."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("run", "")) if callspec is not None else ""


def number_of_examples(declared: int, given: str | None) -> int:
    """Return how many examples are tried of a test that declares so many.

    >>> [number_of_examples(declared, None) for declared in (5, 30, 100, 1000)]
    [5, 10, 10, 100]
    >>> [number_of_examples(declared, "500") for declared in (5, 100, 1000)]
    [5, 500, 500]
    """
    if declared <= FEW:
        return declared
    return max(FEW, declared // _PART) if given is None else int(given)


@contextmanager
def fewer_examples(item: pytest.Item) -> Iterator[None]:
    """Within the block, let a hypothesis test try its number of examples."""
    function: Any = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    if not getattr(function, "is_hypothesis_test", False):
        yield
        return
    # The settings are those of the function, which is the same for all its parameters; of a state machine, the class's.
    of, name = function, "_hypothesis_internal_use_settings"
    if not hasattr(of, name):
        of, name = getattr(item, "cls", None), "settings"
    before = getattr(of, name)
    if variant_of(item) in IN_SIMULATION:
        number = min(before.max_examples, IN_SIMULATIONS)
    elif variant_of(item) in IN_THIS_PROCESS:
        number = min(before.max_examples, OF_VARIANTS)
    else:
        number = number_of_examples(before.max_examples, _GIVEN)
    setattr(of, name, hypothesis.settings(before, max_examples=number))
    try:
        yield
    finally:
        setattr(of, name, before)
