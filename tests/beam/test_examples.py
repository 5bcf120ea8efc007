"""The classic examples of Beam: under Beam's name and under penstock's they print what Beam prints.

examples/*.txt are the outputs under Beam 2.77. `EXAMPLES` are run in one process for each of the two names.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from functools import cache

import pytest

HERE = pathlib.Path(__file__).parent
FOLDER = HERE.parents[1] / "examples" / "beam"
NOT_PIPELINES = {"samples", "game_events"}
# Tested in io/test_pubsub_to_bigquery.py and io/test_monthly_totals.py.
AT_SERVERS = {"monthly_totals", "pubsub_to_bigquery"}
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in NOT_PIPELINES | AT_SERVERS)


def run(*arguments: str | pathlib.Path) -> str:
    """Run Python, and return what it prints."""
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@cache
def printed_under_beams_name() -> dict[str, str]:
    found = json.loads(run(HERE / "run_programs.py", "--beam", *EXAMPLES))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def under_penstocks_name(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of the folder whose programs import penstock."""
    folder = tmp_path_factory.mktemp("examples") / "beam"
    folder.mkdir()
    (folder.parent / "data").symlink_to(FOLDER.parent / "data")
    for path in FOLDER.glob("*.py"):
        (folder / path.name).write_text(path.read_text().replace("apache_beam", "penstock"))
    return folder


@pytest.fixture(scope="module")
def printed_under_penstocks_name(under_penstocks_name: pathlib.Path) -> dict[str, str]:
    found = json.loads(run(HERE / "run_programs.py", *(under_penstocks_name / path.name for path in EXAMPLES)))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("example", [path.stem for path in EXAMPLES])
def test_under_beams_name_an_example_prints_what_it_prints_under_beam(example: str) -> None:
    """`penstock run --beam`."""
    assert (HERE / "examples" / f"{example}.txt").read_text() == printed_under_beams_name()[example]


@pytest.mark.parametrize("example", [path.stem for path in EXAMPLES])
def test_with_its_imports_changed_an_example_prints_the_same(
    example: str, printed_under_penstocks_name: dict[str, str]
) -> None:
    """`import penstock as beam`, and Beam's modules below penstock."""
    assert (HERE / "examples" / f"{example}.txt").read_text() == printed_under_penstocks_name[example]


def test_each_example_has_its_output() -> None:
    """No output is left without its example."""
    assert [path.stem for path in EXAMPLES] == sorted(path.stem for path in (HERE / "examples").glob("*.txt"))


def test_output_is_the_prefix_of_the_files_that_hold_the_lines(
    under_penstocks_name: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """In two worker processes."""
    counts = tmp_path / "counts"
    written = run(under_penstocks_name / "wordcount_minimal.py", f"--output={counts}", "--parallelism=2")

    lines = [line for path in tmp_path.glob("counts-*") for line in path.read_text().splitlines()]
    assert "" == written
    assert (HERE / "examples" / "wordcount_minimal.txt").read_text().splitlines() == sorted(lines)


def test_the_injectors_file_is_what_it_generates() -> None:
    """From the default seed."""
    assert (FOLDER.parent / "data" / "game_events.csv").read_text() == run(
        "-m", "penstock", "run", "--beam", FOLDER / "game_events.py"
    )
