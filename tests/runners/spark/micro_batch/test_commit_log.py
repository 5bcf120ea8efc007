"""The record of the last committed batch, and the batches that are due after it."""

from __future__ import annotations

from penstock.runners.spark.micro_batch.commit_log import Committed
from penstock.windowing.timestamp import MIN_MICROS

QUICK, SLOW = 0, 1


def test_a_watermark_that_has_not_moved_is_no_reason_for_a_batch() -> None:
    """A timer at 50 waits for the slow source; while the quick one advanced, batches once ran without end."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70, SLOW: 10}, next_event_times={50})

    assert not committed.is_due({QUICK: 70, SLOW: 10})
    assert not committed.is_due({QUICK: 80, SLOW: 20})
    assert committed.is_due({QUICK: 80, SLOW: 50})


def test_of_several_steps_each_has_its_own_time() -> None:
    """A timer at 75 is due when the quick source gets there; a new source starts at the least watermark."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70}, next_event_times={50, 75})

    assert committed.is_due({QUICK: 75, SLOW: 10})
    assert committed.is_due({QUICK: 70, SLOW: 60})
    assert not committed.is_due({QUICK: 74})


def test_a_step_that_waits_for_a_side_input_is_due_at_every_change() -> None:
    """Any change may complete the side input."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70}, next_event_times={MIN_MICROS})

    assert committed.is_due({QUICK: 71})
    assert not committed.is_due({QUICK: 70})
