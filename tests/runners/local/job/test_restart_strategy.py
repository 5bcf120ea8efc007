"""The restart strategy: delays, limits, and requests to end."""

from __future__ import annotations

from penstock.runners.local.job.restart_strategy import RestartStrategy


def test_delays_double_up_to_the_longest() -> None:
    """In seconds."""
    restarts = RestartStrategy(limit=5, first_delay=1, longest_delay=6)
    assert [1, 2, 4, 6, 6, None] == [restarts.after_failure(False) for _ in range(6)]


def test_progress_resets_the_count() -> None:
    """The limit is on consecutive failures."""
    restarts = RestartStrategy(limit=2, first_delay=1)
    progressed = [False, False, True, False, False]
    assert [1, 2, 1, 2, None] == [restarts.after_failure(each) for each in progressed]


def test_with_a_limit_of_zero_no_restart_is_allowed() -> None:
    """Not even after progress."""
    assert None is RestartStrategy(limit=0).after_failure(True)


def test_another_run_begins_without_failures() -> None:
    """With the same settings."""
    restarts = RestartStrategy(limit=1, first_delay=3)
    restarts.after_failure(False)
    assert [3, None] == [fresh.after_failure(False) for fresh in [restarts.fresh()] for _ in range(2)]


def test_a_job_that_is_requested_to_end_restarts_at_once_but_few_times() -> None:
    """Whatever the limit: otherwise a repeated failure would restart it without a delay, and without an end."""
    restarts = RestartStrategy(limit=1_000_000, first_delay=1)
    assert [1, 0, 0, 0, None] == [restarts.after_failure(False, is_ending) for is_ending in [False] + 4 * [True]]


def test_progress_on_the_way_to_the_end_resets_the_count() -> None:
    """Each checkpoint is nearer to the end."""
    restarts = RestartStrategy(limit=10, first_delay=1)
    progressed = [False, False, True, False, False, False]
    assert [0, 0, 0, 0, 0, None] == [restarts.after_failure(each, is_ending=True) for each in progressed]
