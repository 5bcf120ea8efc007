"""SideInputContents: what has come, and what a snapshot and the changes after it say of that."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.stages.side_inputs import SideInputContents, ViewChangeKind


def restored_from(chain: list[Any]) -> SideInputContents:
    """Those that a snapshot is of, and what has changed after it."""
    contents = SideInputContents()
    contents.restore(chain)
    return contents


views = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from("wv"), st.integers(0, 2), st.lists(st.integers(0, 3), max_size=4)),
        st.tuples(st.just("take back"), st.sampled_from("wv"), st.integers(0, 3)),
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
        else:
            changes = contents.changes() if chain else contents.snapshot()
            chain += pickle.loads(pickle.dumps(changes))
        if what == "restore":
            contents = restored_from(chain)
    found = (contents, restored_from(chain))
    seen = [
        [(window in each, each.of(window), each.of_latest_pane(window), each._of(window).early) for window in "wv"]
        for each in found
    ]
    assert seen[0] == seen[1]


def test_panes_that_have_come_since_are_told_apart() -> None:
    """A view of panes that accumulate is the last of them."""
    contents = SideInputContents()
    contents.add("w", 0, list(range(9)))
    chain = contents.snapshot()
    for pane, value in ((0, "old"), (1, "new"), (0, "late"), (1, "newer")):
        contents.add("w", pane, [value])
    chain += contents.changes()
    assert ["newer"] == restored_from(chain).of_latest_pane("w") == contents.of_latest_pane("w")


def test_what_equals_nothing_is_taken_out_again() -> None:
    """By its place, which is the same in the snapshot."""
    contents = SideInputContents()
    contents.add("w", 0, [("a", float("nan")), "b", object, ("a", float("nan"))])
    chain = pickle.loads(pickle.dumps(contents.snapshot()))
    contents.retract("w", contents.of("w")[3])
    chain += pickle.loads(pickle.dumps(contents.changes()))
    assert ["b", object] == restored_from(chain).of("w")[1:] == contents.of("w")[1:]


def test_a_snapshot_of_a_former_version_has_the_values_of_the_last_pane_twice() -> None:
    """Among all values, and again."""
    contents = restored_from([("w", ViewChangeKind.ALL, [10, 20, 30], 0), ("w", ViewChangeKind.PANE, [20, 30], 2)])
    assert ([10, 20, 30], [20, 30]) == (contents.of("w"), contents.of_latest_pane("w"))
    assert [20, 30] == restored_from(contents.snapshot()).of_latest_pane("w")
    nan = float("nan")
    alike = [
        ("w", ViewChangeKind.ALL, [1.0, nan, 5.0, 5.0], 0),
        ("w", ViewChangeKind.PANE, [float("nan"), 5.0, 5.0], 1),
    ]
    assert [nan, 5.0, 5.0] == restored_from(alike).of_latest_pane("w")
