"""How often a job starts again after a failure, and how soon."""

from __future__ import annotations

from penstock.runners.local.restarts import Restarts


def test_delays_double_up_to_the_longest() -> None:
    """In seconds."""
    restarts = Restarts(limit=5, first_delay=1, longest_delay=6)
    assert [1, 2, 4, 6, 6, None] == [restarts.after_failure(False) for _ in range(6)]


def test_progress_makes_them_count_anew() -> None:
    """Failures in a row are what is limited."""
    restarts = Restarts(limit=2, first_delay=1)
    progressed = [False, False, True, False, False]
    assert [1, 2, 1, 2, None] == [restarts.after_failure(each) for each in progressed]


def test_none_are_allowed_where_the_limit_is_zero() -> None:
    """Not even after progress."""
    assert None is Restarts(limit=0).after_failure(True)


def test_another_run_begins_without_failures() -> None:
    """With the same settings."""
    restarts = Restarts(limit=1, first_delay=3)
    restarts.after_failure(False)
    assert [3, None] == [fresh.after_failure(False) for fresh in [restarts.fresh()] for _ in range(2)]
