import pickle

from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.clock import ProcessingTime

SECOND = 1_000_000


class TwoClocks:
    """A wall clock and a monotonic one; picklable with its methods."""

    def __init__(self) -> None:
        self.wall = 1_000 * SECOND
        self.steady = 7

    def pass_by(self, micros: int) -> None:
        self.wall += micros
        self.steady += micros

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> int:
        return self.steady


def both() -> tuple[TwoClocks, ProcessingTime]:
    clocks = TwoClocks()
    return clocks, ProcessingTime(clocks.now, clocks.monotonic)


@given(st.lists(st.tuples(st.integers(0, 100 * SECOND), st.integers(-(10**10), 10**10))))
def test_processing_time_never_goes_back_nor_stands_still(moves: list[tuple[int, int]]) -> None:
    """When the wall clock is set, it advances by the monotonic clock, or by more after a jump forward."""
    clocks, time = both()
    last = time()
    for passed, set_by in moves:
        clocks.pass_by(passed)
        clocks.wall += set_by
        now = time()
        assert now >= last + passed
        assert now >= clocks.wall
        last = now


def test_processing_time_is_that_of_the_wall_clock_unless_it_is_set() -> None:
    """The monotonic clock begins somewhere else."""
    clocks, time = both()
    time()
    clocks.pass_by(5 * SECOND)

    assert 1_005 * SECOND == time()
    assert 0 == time.ahead_of_wall()
    assert 0 == time.jumped


def test_processing_time_goes_on_from_a_checkpoints() -> None:
    """At the pace of the monotonic clock; and that is no jump of the wall clock."""
    clocks, time = both()

    assert 4_600 * SECOND == time.go_on_from(4_600 * SECOND)
    clocks.pass_by(SECOND)
    assert 4_601 * SECOND == time()
    assert 3_600 * SECOND == time.ahead_of_wall()
    assert 4_601 * SECOND == time.go_on_from(2_000 * SECOND)
    assert 0 == time.jumped


def test_a_worker_that_is_started_goes_on_from_the_time_of_the_job() -> None:
    """A copy knows that the wall clock was set back before."""
    clocks, time = both()
    time()
    clocks.wall -= 3_600 * SECOND
    copied = pickle.loads(pickle.dumps(time))

    assert 1_000 * SECOND == time() == copied()


def test_a_small_adjustment_of_the_wall_clock_is_no_jump() -> None:
    """Readers aren't notified of it."""
    clocks, time = both()
    time()
    clocks.wall += 50_000
    time()
    assert 0 == time.jumped

    clocks.wall += 60 * SECOND
    time()
    assert 60 * SECOND == time.jumped
