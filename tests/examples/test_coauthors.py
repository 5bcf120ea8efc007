"""Pairs of coauthors, compared with nested loops over sets."""

from __future__ import annotations

import pathlib
from collections import Counter, defaultdict

from support.programs.commit_records import commits, month, written_records

from penstock.examples import coauthors


def expected_pairs(least_months: int) -> list[tuple[str, ...]]:
    """Mergers and writers of one repository and month, by how many months they met in."""
    mergers, writers = defaultdict(set), defaultdict(set)
    for commit in commits():
        authors = mergers if int(commit["parents"]) > 1 else writers
        authors[commit["repository"], month(commit)].add(commit["author"])
    months = Counter(
        (repository, merger, writer)
        for repository, when in mergers
        for merger in mergers[repository, when]
        for writer in writers[repository, when]
        if merger != writer
    )
    return sorted((*pair, str(n)) for pair, n in months.items() if n >= least_months)


def test_pairs_are_those_that_nested_loops_find(runner_name: str, tmp_path: pathlib.Path) -> None:
    """On all commits."""
    written = coauthors.run([f"--output={tmp_path}/pairs", f"--runner={runner_name}"])

    expected = expected_pairs(least_months=3)
    assert expected == written_records(written)
    assert len(expected) > 500


def test_pairs_of_a_single_month_are_kept_if_asked_for(tmp_path: pathlib.Path) -> None:
    """`--least_months` is heeded."""
    written = coauthors.run([f"--output={tmp_path}/pairs", "--least_months=1"])

    assert expected_pairs(least_months=1) == written_records(written)


def test_authors_of_different_months_have_not_met(tmp_path: pathlib.Path) -> None:
    """A merger in January is paired with a writer in January, not in February; no author is paired with itself."""
    rows = ["event_time,repository,author,parents"]
    january, february = 1_704_200_000, 1_706_900_000
    rows += [f"{january},r,ann,2", f"{january},r,ann,1", f"{january},r,bob,1", f"{february},r,cleo,1"]
    (tmp_path / "in.csv").write_text("\n".join(rows))

    written = coauthors.run([f"--input={tmp_path}/in.csv", f"--output={tmp_path}/pairs", "--least_months=1"])

    assert [("r", "ann", "bob", "1")] == written_records(written)
