"""What is known of the batch that was committed last, and what follows from it."""

from __future__ import annotations

from penstock.runners.spark.micro_batch.commit_log import Committed
from penstock.windowing.timestamp import MIN_MICROS

QUICK, SLOW = 0, 1


def test_a_watermark_that_was_there_already_is_no_reason_for_a_batch() -> None:
    """What is due at 50 waits for the slow source; while only the quick one went on there was batch after batch."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70, SLOW: 10}, next_event_times={50})

    assert not committed.is_due({QUICK: 70, SLOW: 10})
    assert not committed.is_due({QUICK: 80, SLOW: 20})
    assert committed.is_due({QUICK: 80, SLOW: 50})


def test_of_several_steps_each_has_its_own_time() -> None:
    """One is due when the quick source comes to 75, whatever the other waits for; a new source is as slow as can be."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70}, next_event_times={50, 75})

    assert committed.is_due({QUICK: 75, SLOW: 10})
    assert committed.is_due({QUICK: 70, SLOW: 60})
    assert not committed.is_due({QUICK: 74})


def test_what_waits_for_a_side_input_looks_at_every_change() -> None:
    """It isn't known what will let it go on."""
    committed = Committed(1, 0, "", {}, {}, watermarks={QUICK: 70}, next_event_times={MIN_MICROS})

    assert committed.is_due({QUICK: 71})
    assert not committed.is_due({QUICK: 70})
