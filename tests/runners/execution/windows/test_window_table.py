"""DueTimes and Holds: what is due when, and what holds the watermark back."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.windows.window_table import DueTimes, Holds

times = st.integers(0, 8)


@given(st.lists(times))
def test_things_come_out_by_time_and_then_in_the_order_in_which_they_were_added(added: list[int]) -> None:
    """All that are due at one time at once."""
    due: DueTimes[tuple[int, int]] = DueTimes()
    for number, time in enumerate(added):
        due.add(time, (time, number))
    found = []
    while (time := due.next()) is not None:
        things = due.pop()
        assert {time} == {thing[0] for thing in things}
        found += things
    assert sorted((time, number) for number, time in enumerate(added)) == found


def test_a_time_that_has_been_may_come_again() -> None:
    """As it does for what is set anew while things are due."""
    due: DueTimes[str] = DueTimes()
    due.add(5, "a")
    assert ["a"] == due.pop()
    due.add(5, "b")
    due.add(3, "c")
    assert [(3, ["c"]), (5, ["b"]), None] == [(due.next(), due.pop()), (due.next(), due.pop()), due.next()]


@given(st.lists(st.tuples(st.booleans(), times, st.booleans())))
def test_the_least_hold_is_that_of_a_plain_count(moves: list[tuple[bool, int, bool]]) -> None:
    """In any order of additions, removals and queries."""
    holds, count = Holds(), Counter[int]()
    for adds, time, asks in moves:
        if adds:
            holds.add(time)
            count[time] += 1
        elif count[time]:
            holds.remove(time)
            count[time] -= 1
        if asks:
            assert min((time for time, n in count.items() if n), default=None) == holds.least()
    assert min((time for time, n in count.items() if n), default=None) == holds.least()


def test_two_holds_at_one_time_are_two() -> None:
    """Letting go of one leaves the other."""
    holds = Holds()
    holds.add(5)
    holds.add(5)
    holds.remove(5)
    assert 5 == holds.least()
    holds.remove(5)
    assert None is holds.least()
