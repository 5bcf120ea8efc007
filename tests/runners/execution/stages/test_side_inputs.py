"""SideInputContents: what has come, and what a snapshot and the changes after it say of that."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.stages.side_inputs import SideInputContents, ViewChangeKind, freed_through
from penstock.windowing import IntervalWindow

WINDOWS = WINDOW, OTHER = IntervalWindow(0, 60), IntervalWindow(60, 120)


def restored_from(chain: list[Any]) -> SideInputContents:
    """Those that a snapshot is of, and what has changed after it."""
    contents = SideInputContents()
    contents.restore(chain)
    return contents


views = st.lists(
    st.one_of(
        st.tuples(
            st.just("come"), st.sampled_from(WINDOWS), st.integers(0, 2), st.lists(st.integers(0, 3), max_size=4)
        ),
        st.tuples(st.just("take back"), st.sampled_from(WINDOWS), st.integers(0, 3)),
        st.tuples(st.just("free"), st.sampled_from([30_000_000, 60_000_000, 90_000_000])),
        st.just(("cut",)),
        st.just(("restore",)),
    ),
    max_size=40,
)


@given(views)
def test_a_side_input_of_a_chain_is_what_it_was(script: list[Any]) -> None:
    """In the same order, by window, with the values of the last pane."""
    contents, chain = SideInputContents(), []
    for what, *how in [*script, ("cut",)]:
        if what == "come":
            contents.add(*how)
        elif what == "take back":
            contents.retract(*how)
        elif what == "free":
            contents.free(*how)
        else:
            changes = contents.changes() if chain else contents.snapshot()
            chain += pickle.loads(pickle.dumps(changes))
        if what == "restore":
            contents = restored_from(chain)
    found = (contents, restored_from(chain))
    assert contents.freed == found[1].freed == freed_through(chain)
    seen = [
        [(window in each, each.of(window), each.of_latest_pane(window), each._of(window).early) for window in WINDOWS]
        for each in found
    ]
    assert seen[0] == seen[1]


def test_panes_that_have_come_since_are_told_apart() -> None:
    """A view of panes that accumulate is the last of them."""
    contents = SideInputContents()
    contents.add(WINDOW, 0, list(range(9)))
    chain = contents.snapshot()
    for pane, value in ((0, "old"), (1, "new"), (0, "late"), (1, "newer")):
        contents.add(WINDOW, pane, [value])
    chain += contents.changes()
    assert ["newer"] == restored_from(chain).of_latest_pane(WINDOW) == contents.of_latest_pane(WINDOW)


def test_what_equals_nothing_is_taken_out_again() -> None:
    """By its place, which is the same in the snapshot."""
    contents = SideInputContents()
    contents.add(WINDOW, 0, [("a", float("nan")), "b", object, ("a", float("nan"))])
    chain = pickle.loads(pickle.dumps(contents.snapshot()))
    contents.retract(WINDOW, contents.of(WINDOW)[3])
    chain += pickle.loads(pickle.dumps(contents.changes()))
    assert ["b", object] == restored_from(chain).of(WINDOW)[1:] == contents.of(WINDOW)[1:]


def test_a_snapshot_of_a_former_version_has_the_values_of_the_last_pane_twice() -> None:
    """Among all values, and again."""
    contents = restored_from(
        [(WINDOW, ViewChangeKind.ALL, [10, 20, 30], 0), (WINDOW, ViewChangeKind.PANE, [20, 30], 2)]
    )
    assert ([10, 20, 30], [20, 30]) == (contents.of(WINDOW), contents.of_latest_pane(WINDOW))
    assert [20, 30] == restored_from(contents.snapshot()).of_latest_pane(WINDOW)
    nan = float("nan")
    alike = [
        (WINDOW, ViewChangeKind.ALL, [1.0, nan, 5.0, 5.0], 0),
        (WINDOW, ViewChangeKind.PANE, [float("nan"), 5.0, 5.0], 1),
    ]
    assert [nan, 5.0, 5.0] == restored_from(alike).of_latest_pane(WINDOW)


def test_freed_windows_are_gone() -> None:
    """Also what comes for them later, and what had changed in them since the last snapshot."""
    contents = SideInputContents()
    for window in WINDOWS:
        contents.add(window, 0, ["a"])
    chain = contents.snapshot()
    contents.add(WINDOW, 0, ["b"])
    assert [WINDOW] == contents.free(61_000_000)
    contents.add(WINDOW, 0, ["c"]), contents.retract(WINDOW, "a")
    chain += contents.changes()
    for each in (contents, restored_from(chain)):
        assert (False, ["a"]) == (WINDOW in each, each.of(OTHER))
        assert [] == each.free(60_000_000)
        each.add(WINDOW, 0, ["d"])
        assert WINDOW not in each
