"""The bottleneck of a run and its probable cause."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.ui.bottleneck import bottleneck

GRAPH = {
    "tasks": [
        {"id": 0, "label": "Read → Parse", "steps": ["Read", "Parse"]},
        {"id": 1, "label": "Sum → Write", "steps": ["Sum", "Write"]},
    ],
    "transforms": [
        {"label": "Read", "kind": "Read", "task": 0},
        {"label": "Parse", "kind": "ParDo", "task": 0},
        {"label": "Sum", "kind": "GroupByKeyAndWindow", "task": 1},
        {"label": "Write", "kind": "Write", "task": 1},
    ],
}


def even(busy: float, pressed: float = 0.0) -> list[list[float]]:
    """Return the loads of two subtasks that are alike."""
    return [[busy, pressed, 100], [busy, pressed, 100]]


@pytest.mark.parametrize(
    ("step", "cause"), [("Parse", "user function"), ("Read", "slow source"), ("Write", "slow sink")]
)
def test_the_step_that_takes_most_of_the_time_is_the_cause(step: str, cause: str) -> None:
    """By its kind; tasks before it are backpressured, and those behind it wait."""
    subtasks = [even(0.9), even(0.1)] if step != "Write" else [even(0.95, pressed=0.9), even(0.9)]
    rates = {"Read": 0.1, "Parse": 0.1, "Write": 0.1} | {step: 0.8}

    found: Any = bottleneck(GRAPH, {"subtasks": subtasks, "seconds_rates": rates})

    assert (step, cause) == (found["step"], found["cause"])


def test_a_subtask_that_is_busy_alone_has_a_skewed_key() -> None:
    """With the key, and its share of the elements."""
    status = {
        "subtasks": [even(0.2), [[0.95, 0.0, 900], [0.1, 0.0, 100]]],
        "seconds_rates": {"Sum": 0.9},
        "hot_keys": {"Sum": {"total": 100, "keys": [("'hot'", 85), ("'cold'", 5)]}},
    }

    found: Any = bottleneck(GRAPH, status)

    assert (1, "Sum", "skewed key") == (found["task"], found["step"], found["cause"])
    assert "Subtask 0 of Sum → Write is busy 95% of the time" in found["text"]
    assert "the key 'hot' has 85% of the elements of Sum" in found["text"]


def test_a_source_without_data_is_the_cause_where_nothing_is_busy() -> None:
    """And where elements arrive there is none."""
    idle = {"subtasks": [even(0.0), even(0.0)], "seconds_rates": {}, "read_rates": {"Read": 0.0}}

    assert "source without data" == (bottleneck(GRAPH, idle) or {})["cause"]
    assert "none" == (bottleneck(GRAPH, idle | {"read_rates": {"Read": 5.0}}) or {})["cause"]


def test_time_outside_of_steps_is_the_runners() -> None:
    """Such as that of a shuffle."""
    found = bottleneck(GRAPH, {"subtasks": [even(0.9), even(0.1)], "seconds_rates": {}})

    assert ("runner", None) == ((found or {})["cause"], (found or {})["step"])


def test_nothing_is_said_before_the_first_load() -> None:
    """Nor without tasks, as in batch."""
    assert bottleneck(GRAPH, {"subtasks": [[], []]}) is None
    assert bottleneck(GRAPH | {"tasks": []}, {"subtasks": []}) is None
