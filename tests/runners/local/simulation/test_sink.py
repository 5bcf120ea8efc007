"""The rules of two-phase commit that the table of a simulation enforces: breaking any of them is an error."""

from __future__ import annotations

import pytest

from penstock.runners.local.simulation.sink import RuleViolated, SimulatedTable


def table_with(*rows: tuple[str, int], expected: dict[str, int] | None = None) -> SimulatedTable:
    """One where rows are staged in a transaction that was prepared."""
    table = SimulatedTable("table", expected)
    table.prepare("one")
    table.stage("one", "token", list(rows))
    return table


def test_nothing_is_visible_before_it_is_committed() -> None:
    """And then it is, less what is taken back, however often the commit is repeated."""
    table = table_with(("a", 1), ("b", 1), ("b", -1))
    before = +table.visible
    for _ in range(3):
        table.commit("one", ["token"])

    assert ({}, {"a": 1}) == (before, +table.visible)
    table.check_end({"a": 1}, ())


def test_uncommitted_records_must_be_removed_or_remembered() -> None:
    """Removed by an abort, or remembered for the next start to abort."""
    table = table_with(("a", 1))
    with pytest.raises(RuleViolated, match=r"table: staged and left behind: \['one'\]"):
        table.check_end({}, ())
    table.check_end({}, ["one"])
    table.abort("one")

    table.check_end({}, ())


def test_tokens_that_were_not_accepted_are_removed_by_the_commit() -> None:
    """Those of attempts that failed."""
    table = table_with(("a", 1))
    table.stage("one", "of a dead worker", [("a", 1)])
    table.commit("one", ["token"])

    table.check_end({"a": 1}, ())


@pytest.mark.parametrize(
    ("deeds", "what"),
    [
        (["abort one", "commit one token"], "was aborted, and now it is committed"),
        (["commit one token", "commit one"], "was committed with"),
        (["commit one token token"], "a token twice"),
        (["commit one other"], "which isn't there"),
        (["commit one token", "prepare one"], "is prepared again"),
        (["stage two"], "not prepared"),
        (["abort one", "stage one"], "after it was aborted"),
        (["commit one token", "stage one"], "after it was committed"),
    ],
)
def test_a_rule_that_is_broken_is_named(deeds: list[str], what: str) -> None:
    """For each call out of order."""
    table = table_with(("a", 1))

    def do(deed: str, transaction: str, *tokens: str) -> None:
        if deed == "commit":
            table.commit(transaction, tokens)
        elif deed == "stage":
            table.stage(transaction, "late", [])
        else:
            getattr(table, deed)(transaction)

    for deed in deeds[:-1]:
        do(*deed.split())
    with pytest.raises(RuleViolated, match=what):
        do(*deeds[-1].split())


def test_tables_that_were_not_committed_to_together_are_named() -> None:
    """One sink shows what came before a barrier, and the other one doesn't."""
    one, other = table_with(("a", 1)), SimulatedTable("other")
    other.together = [one, other]
    one.commit("one", ["token"])

    with pytest.raises(RuleViolated, match=r"other: \['one'\] were committed here or in table, and not in both"):
        other.prepare("two")


def test_rows_that_are_too_many_at_any_moment_are_named() -> None:
    """More than there are in the end, where results are final; or fewer than none."""
    with pytest.raises(RuleViolated, match="a is there 2 times, and 1 times in the end"):
        table_with(("a", 1), ("a", 1), expected={"a": 1}).commit("one", ["token"])
    with pytest.raises(RuleViolated, match="a is taken back more often than it was there"):
        table_with(("a", -1)).commit("one", ["token"])


def test_rows_that_are_missing_or_too_many_in_the_end_are_named() -> None:
    """With how many times."""
    table = table_with(("a", 1))
    table.commit("one", ["token"])

    with pytest.raises(RuleViolated, match="missing: 2 × b; too much: 1 × a"):
        table.check_end({"b": 2}, ())


def test_a_commit_without_a_precommit_is_named() -> None:
    """A target has to refuse records before a commit is decided."""
    table = table_with(("a", 1))
    with pytest.raises(RuleViolated, match=r"one is committed with \['token'\], which was not precommitted"):
        table.decided("one", ["token"])
    table.precommit(["token"])
    table.decided("one", ["token"])
