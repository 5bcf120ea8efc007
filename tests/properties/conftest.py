"""On what the properties are tried: the one place that says which runners of streams there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import hypothesis
import pytest
from support.pipelines.recording import Recording, recorded
from support.runners.local_variants import IN_SIMULATION, IN_THIS_PROCESS, runner_of

# Each property holds on each of them.
STREAMING_RUNNERS = ["local", *IN_THIS_PROCESS, *IN_SIMULATION]

# So many examples are tried of each property; more by `make properties`.
EXAMPLES = int(os.environ.get("EXAMPLES", "30"))

# Of variants of a runner so many are tried: what an operator does is tried on the first.
EXAMPLES_OF_VARIANTS = 8
EXAMPLES_IN_SIMULATION = 4

# A property that declares no more than these examples takes long for each.
_FEW = 30

# Runs the pipeline that a function builds; what came to its end.
Run = Callable[[Callable[[Any], Any]], Recording]


@pytest.fixture(scope="session", params=STREAMING_RUNNERS)
def run(request: pytest.FixtureRequest) -> Run:
    """`run(build)` on each runner of streams in turn."""
    return partial(recorded, runner=runner_of(request.param))


# What looks at a whole run from one task's point of view.
OF_ONE_TASK = {"test_nothing_holds_a_watermark_without_a_cause"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [i for i in items if getattr(i, "originalname", "") not in OF_ONE_TASK or not has_tasks(variant_of(i))]


def variant_of(item: pytest.Item) -> str:
    """The runner that a property is tried on."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("run", "")) if callspec is not None else ""


def has_tasks(variant: str) -> bool:
    """Whether the runner cuts pipelines into several tasks."""
    return variant in IN_SIMULATION or (variant in IN_THIS_PROCESS and IN_THIS_PROCESS[variant].parallelism > 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Set the number of examples, in settings of a function, which is the same for all its parameters."""
    function: Any = getattr(item, "obj", None)
    if not getattr(function, "is_hypothesis_test", False):
        return (yield)
    before = function._hypothesis_internal_use_settings
    if variant_of(item) in IN_SIMULATION:
        number = min(before.max_examples, EXAMPLES_IN_SIMULATION)
    elif variant_of(item) in IN_THIS_PROCESS:
        number = min(before.max_examples, EXAMPLES_OF_VARIANTS)
    elif before.max_examples > _FEW:
        number = EXAMPLES
    else:
        number = before.max_examples
    function._hypothesis_internal_use_settings = hypothesis.settings(before, max_examples=number)
    try:
        return (yield)
    finally:
        function._hypothesis_internal_use_settings = before
