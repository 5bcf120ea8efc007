"""The checkpoint coordinator: intervals, pauses, acknowledgements and timeouts, in microseconds."""

from __future__ import annotations

import pytest

from penstock.runners.local.job.checkpoint_coordinator import CheckpointCoordinator, CheckpointSettings


def coordinator(**settings: int) -> CheckpointCoordinator:
    return CheckpointCoordinator(["a", "b"], CheckpointSettings(**({"interval": 100} | settings)), now=0)


def test_the_interval_begins_at_the_beginning_of_a_checkpoint() -> None:
    """The duration of the checkpoint doesn't matter."""
    own = coordinator()
    assert [False, True] == [own.is_due(now) for now in (99, 100)]
    own.begin(1, 100)
    own.over(150)
    assert [False, True] == [own.is_due(now) for now in (199, 200)]


def test_without_an_interval_no_checkpoint_is_due() -> None:
    """Not after a savepoint, either."""
    own = CheckpointCoordinator(["a"], CheckpointSettings(), now=0)
    assert not own.is_due(10**12)
    own.begin(1, 5)
    own.over(6)
    assert not own.is_due(10**12)


def test_one_checkpoint_is_in_progress_at_a_time() -> None:
    """The next checkpoint waits for its end."""
    own = coordinator()
    own.begin(1, 100)
    assert not own.is_due(500)
    with pytest.raises(AssertionError):
        own.begin(2, 500)
    own.over(500)
    assert own.is_due(900)


def test_the_next_checkpoint_waits_for_the_minimum_pause() -> None:
    """Even if it is due before by the interval."""
    own = coordinator(min_pause=80)
    own.begin(1, 100)
    own.over(190)
    assert [False, True] == [own.is_due(now) for now in (269, 270)]


def test_by_default_the_pause_is_as_long_as_the_last_checkpoint() -> None:
    """So checkpoints take at most half of the time; the longest pause is a second."""
    own = coordinator()
    own.begin(1, 100)
    own.over(400)
    assert [False, True] == [own.is_due(now) for now in (699, 700)]
    own.begin(2, 1000)
    own.over(5_001_000)
    assert [False, True] == [own.is_due(now) for now in (6_000_999, 6_001_000)]


def test_a_minimum_pause_of_zero_is_no_pause() -> None:
    """The next checkpoint is due as soon as the interval is over."""
    own = coordinator(min_pause=0)
    own.begin(1, 100)
    own.over(400)
    assert own.is_due(400)


def test_a_checkpoint_is_complete_when_each_subtask_has_acknowledged_it() -> None:
    """A second acknowledgement of a subtask doesn't count."""
    own = coordinator()
    own.begin(1, 100)
    assert None is own.acknowledge("a", 1, "first")
    assert None is own.acknowledge("a", 1, "again")
    assert ["b"] == own.missing
    assert {"a": "again", "b": "part"} == own.acknowledge("b", 1, "part")


def test_an_acknowledgement_of_an_earlier_checkpoint_is_ignored() -> None:
    """That checkpoint may have failed in the meantime."""
    own = coordinator()
    own.begin(1, 100)
    own.acknowledge("a", 1, "part")
    own.over(150)
    assert None is own.acknowledge("b", 1, "part")
    own.begin(2, 200)
    assert None is own.acknowledge("b", 1, "part")
    assert ["a", "b"] == own.missing


def test_a_checkpoint_is_late_after_its_timeout() -> None:
    """Only while it is in progress."""
    own = coordinator(timeout=50)
    assert not own.is_late(10**9)
    own.begin(1, 100)
    assert [False, True] == [own.is_late(now) for now in (150, 151)]
    own.over(151)
    assert not own.is_late(10**9)
