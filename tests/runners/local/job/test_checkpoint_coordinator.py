"""When a checkpoint begins, who has acknowledged it, and when it has failed; times in microseconds."""

from __future__ import annotations

import pytest

from penstock.runners.local.job.checkpoint_coordinator import CheckpointCoordinator, CheckpointSettings


def coordinator(**settings: int) -> CheckpointCoordinator:
    return CheckpointCoordinator(["a", "b"], CheckpointSettings(**({"interval": 100} | settings)), now=0)


def test_a_checkpoint_is_due_after_each_interval_from_the_beginning_of_the_one_before() -> None:
    """However long that took."""
    own = coordinator()
    assert [False, True] == [own.is_due(now) for now in (99, 100)]
    own.begin(1, 100)
    own.over(150)
    assert [False, True] == [own.is_due(now) for now in (199, 200)]


def test_none_is_due_without_an_interval() -> None:
    """Nor after one that was asked for."""
    own = CheckpointCoordinator(["a"], CheckpointSettings(), now=0)
    assert not own.is_due(10**12)
    own.begin(1, 5)
    own.over(6)
    assert not own.is_due(10**12)


def test_there_is_one_at_a_time() -> None:
    """The next one waits for its end."""
    own = coordinator()
    own.begin(1, 100)
    assert not own.is_due(500)
    with pytest.raises(AssertionError):
        own.begin(2, 500)
    own.over(500)
    assert own.is_due(900)


def test_between_two_there_is_a_pause() -> None:
    """Even if that makes the next one later than the interval says."""
    own = coordinator(min_pause=80)
    own.begin(1, 100)
    own.over(190)
    assert [False, True] == [own.is_due(now) for now in (269, 270)]


def test_unless_something_else_is_asked_for_the_pause_is_as_long_as_the_last_one_took() -> None:
    """So at most half of the time goes into checkpoints; but nobody waits for more than a second."""
    own = coordinator()
    own.begin(1, 100)
    own.over(400)
    assert [False, True] == [own.is_due(now) for now in (699, 700)]
    own.begin(2, 1000)
    own.over(5_001_000)
    assert [False, True] == [own.is_due(now) for now in (6_000_999, 6_001_000)]


def test_who_asks_for_no_pause_has_none() -> None:
    """The next one is due at once, if the interval is over."""
    own = coordinator(min_pause=0)
    own.begin(1, 100)
    own.over(400)
    assert own.is_due(400)


def test_it_is_complete_when_everybody_has_acknowledged_it_once() -> None:
    """Nobody counts twice."""
    own = coordinator()
    own.begin(1, 100)
    assert None is own.acknowledge("a", 1, "first")
    assert None is own.acknowledge("a", 1, "again")
    assert ["b"] == own.missing
    assert {"a": "again", "b": "part"} == own.acknowledge("b", 1, "part")


def test_what_comes_for_one_that_is_over_is_nothing() -> None:
    """It may have been given up in the meantime."""
    own = coordinator()
    own.begin(1, 100)
    own.acknowledge("a", 1, "part")
    own.over(150)
    assert None is own.acknowledge("b", 1, "part")
    own.begin(2, 200)
    assert None is own.acknowledge("b", 1, "part")
    assert ["a", "b"] == own.missing


def test_it_is_late_after_its_timeout() -> None:
    """And only while it is under way."""
    own = coordinator(timeout=50)
    assert not own.is_late(10**9)
    own.begin(1, 100)
    assert [False, True] == [own.is_late(now) for now in (150, 151)]
    own.over(151)
    assert not own.is_late(10**9)
