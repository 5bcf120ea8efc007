"""The table of what runners can do is made of what tests have shown: how (see `capabilities`)."""

from __future__ import annotations

import doctest

import pytest
from package.unpack_wheel import ROOT
from support.suite import capabilities
from support.suite.capabilities import README, SHOWN_BY, Shows, differences, rewritten, shown_as_text, table

from penstock.sdk.runner import OURS, create_runner

ALL_PASS = {
    capability: {
        runner: dict.fromkeys(capabilities.OUTCOMES, 0)
        | {"passed" if create_runner(runner).capabilities().get(capability, "no") != "no" else "refused": 1}
        for runner in OURS
    }
    for capability in SHOWN_BY
}


def changed(capability: str, runner: str, **counts: int) -> dict[str, dict[str, dict[str, int]]]:
    """The results, but for one."""
    zero = dict.fromkeys(capabilities.OUTCOMES, 0)
    return ALL_PASS | {capability: ALL_PASS[capability] | {runner: zero | counts}}


def test_the_table_of_the_readme_is_that_of_results_that_are_all_good() -> None:
    """And rewriting it changes nothing."""
    document = README.read_text()

    assert [] == list(differences(ALL_PASS, document))
    assert document == rewritten(ALL_PASS, document)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, "not shown by any test"),
        ({"passed": 5, "failed": 2}, "2 tests fail"),
        ({"refused": 1}, "no"),
    ],
)
def test_a_claim_that_no_passing_test_shows_is_told(counts: dict[str, int], expected: str) -> None:
    """With the line as it is, and as the tests have it."""
    found = changed("TestStream", "local", **counts)

    assert [
        "said:  | TestStream | yes | yes | no | yes |",
        f"shown: | TestStream | {expected} | yes | no | yes |",
    ] == list(differences(found, README.read_text()))


def test_what_passes_and_is_not_claimed_is_told_too() -> None:
    """A runner that can do it should say so."""
    found = changed("TestStream", "spark-batch", passed=1)

    assert "shown: | TestStream | yes | yes | yes | yes |" in list(differences(found, README.read_text()))


def test_where_tests_are_skipped_the_claim_stands() -> None:
    """There is no Java, and in CI nothing may be skipped."""
    found = changed("TestStream", "spark-microbatch", skipped=9)

    assert [] == list(differences(found, README.read_text()))


@pytest.mark.parametrize("shows", [show for shown in SHOWN_BY.values() for show in shown], ids=lambda show: show.tests)
def test_the_tests_that_show_it_are_there(shows: Shows) -> None:
    """By file and name."""
    file, _, name = shows.tests.partition("::")

    assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text()


def test_the_table_is_written_as_markdown() -> None:
    """With a line below the head."""
    head, line, *rows = shown_as_text(table(ALL_PASS)).splitlines()

    assert "| | local | spark | spark-batch | spark-microbatch |" == head
    assert "| --- | --- | --- | --- | --- |" == line
    assert len(SHOWN_BY) == len(rows)


def test_the_examples_are_right() -> None:
    """Those in its docstrings."""
    assert 0 == doctest.testmod(capabilities).failed
