"""`make test` tries fewer examples of a property than it declares; `make properties` tries as many as it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.runners.local_variants import IN_SIMULATION, IN_THIS_PROCESS
from support.suite import examples
from support.suite.examples import IN_SIMULATIONS, OF_VARIANTS, fewer_examples, number_of_examples


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [(10, None, 10), (100, None, 10), (1000, None, 100), (10, "500", 10), (100, "500", 500), (1000, "500", 500)],
)
def test_a_property_that_declares_few_examples_tries_all(declared: int, given: str | None, expected: int) -> None:
    """Of others a tenth is tried, at least 10, or the number of the environment."""
    assert expected == number_of_examples(declared, given)


@pytest.mark.parametrize(
    ("run", "expected"),
    [("local", 20), (next(iter(IN_THIS_PROCESS)), OF_VARIANTS), (next(iter(IN_SIMULATION)), IN_SIMULATIONS)],
)
def test_a_property_is_tried_so_often(run: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And afterwards declares what it did before."""
    monkeypatch.setattr(examples, "_GIVEN", None)
    tried = []

    @settings(max_examples=200, database=None)
    @given(st.integers())
    def collect(number: int) -> None:
        tried.append(number)

    item: Any = SimpleNamespace(obj=collect, callspec=SimpleNamespace(params={"run": run}))
    with fewer_examples(item):
        collect()
    assert expected == len(tried)

    collect()
    assert expected + 200 == len(tried)


def test_a_state_machine_is_tried_less_often_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are those of its class."""
    monkeypatch.setattr(examples, "_GIVEN", None)
    tried = []

    class Machine(RuleBasedStateMachine):
        @rule(number=st.integers())
        def step(self, number: int) -> None:
            pass

        def teardown(self) -> None:
            tried.append(1)

    case: Any = Machine.TestCase
    case.settings = settings(max_examples=200, stateful_step_count=1, database=None)
    item: Any = SimpleNamespace(obj=case("runTest").runTest, cls=case)
    with fewer_examples(item):
        case("runTest").runTest()
    assert 20 == len(tried)

    tried.clear()
    case("runTest").runTest()
    assert 200 == len(tried)
