"""The capabilities of each runner, as shown by this suite: the table in README.md is generated and checked by it.

`SHOWN_BY` says which tests show each capability.  A test that is run for several runners counts for each.  A run with
`--capabilities=FILE`, such as that of `make test`, writes down how they went; it fails where the table says something
else.  `make capabilities`, which is `python tests/support/suite/capabilities.py FILE README.md`, rewrites the table.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

README = Path(__file__).parents[3] / "README.md"

# Of a runner that picks one of others, what that one can do.
PICKS = {"spark": "spark-microbatch"}

# By capability and runner: how many of its tests have passed, failed, were skipped, or have shown that it is refused.
Results = Mapping[str, Mapping[str, Mapping[str, int]]]


@attrs.frozen
class Shows:
    """Tests that show a capability.

    Args:
      tests: a file of them, or one with `file::name`.
      runner: whose it is, where the tests aren't run for several.
      refused: whether they show that it hasn't got it, and says so.
    """

    tests: str
    runner: str | None = None
    refused: bool = False

    def has(self, nodeid: str) -> bool:
        """Whether a test shows this capability."""
        return nodeid == self.tests or nodeid.startswith((f"{self.tests}[", f"{self.tests}::"))


MICRO_BATCHES = "tests/runners/spark/micro_batch"
FIGURES = "tests/model/test_paper_figures.py"
REFUSALS = "tests/runners/spark/test_refusals.py"
COMMITTED = "tests/runners/spark/test_committed_state.py"
STREAMS = f"{MICRO_BATCHES}/test_frame_streams.py"
ELSEWHERE = "tests/io/spark/test_dataframes.py::test_a_runner_that_has_no_dataframes_says_which_one_has"
SHOWN_BY: dict[str, list[Shows]] = {
    "bounded sources": [
        Shows(f"{FIGURES}::test_figure_10_sums_each_two_minutes_in_one_pane"),
        Shows("tests/model/test_groupings.py"),
        Shows("tests/examples/test_wordcount.py"),
    ],
    "event-time windows, merging windows": [
        Shows("tests/model/test_windows.py"),
        Shows(f"{FIGURES}::test_figure_10_sums_each_two_minutes_in_one_pane"),
        Shows(
            f"{MICRO_BATCHES}/test_runner.py::test_sessions_that_merge_late_are_retracted_and_a_grouping_after_them_follows",
            "spark-microbatch",
        ),
    ],
    "side inputs, tagged outputs": [
        Shows("tests/model/test_side_inputs.py"),
        Shows("tests/model/test_several_outputs_and_inputs.py"),
        Shows(f"{MICRO_BATCHES}/test_runner.py::test_later_elements_see_a_changed_side_input", "spark-microbatch"),
    ],
    "triggers, panes, allowed lateness, late data": [
        Shows("tests/transcripts/test_transcripts_in_pipelines.py"),
        Shows("tests/runners/spark/micro_batch/test_transcripts.py::test_streams_play", "spark-microbatch"),
    ],
    "discarding, accumulating and retracting panes": [
        Shows("tests/transcripts/test_transcripts_in_pipelines.py"),
        Shows(f"{FIGURES}::test_figure_11_has_panes_for_each_micro_batch"),
        Shows("tests/properties/test_micro_batches.py", "spark-microbatch"),
    ],
    "state and timers": [
        Shows("tests/model/test_stateful.py"),
        Shows(
            f"{MICRO_BATCHES}/test_runner.py::test_state_and_timers_are_kept_from_batch_to_batch", "spark-microbatch"
        ),
    ],
    "columns, batched DoFns": [
        Shows("tests/model/test_columns.py"),
        Shows("tests/model/test_batched_dofns.py"),
    ],
    "transactional sinks: files, SQL tables, changelogs": [
        Shows("tests/model/test_failed_runs.py"),
        Shows("tests/io/sql/test_write.py::test_every_runner_writes_the_same_table"),
        Shows("tests/io/files/test_changelog.py::test_every_runner_logs_the_same_changes"),
        Shows("tests/examples/test_session_lengths.py::test_one_file_gives_one_table_under_three_flags"),
        Shows(f"{MICRO_BATCHES}/test_failures.py", "spark-microbatch"),
    ],
    "async calls, enrichment": [
        Shows("tests/transforms/par_do/test_async_map.py"),
        Shows("tests/transforms/test_enrichment.py"),
        Shows(f"{MICRO_BATCHES}/test_async_calls.py", "spark-microbatch"),
    ],
    "NATS JetStream: sources and sinks": [
        Shows("tests/io/nats/test_read.py"),
        Shows("tests/io/nats/test_write.py"),
        Shows(
            "tests/io/nats/test_write.py::test_a_stream_goes_on_where_it_stopped[spark-microbatch]", "spark-microbatch"
        ),
    ],
    "MQTT: sources and sinks": [
        Shows("tests/io/mqtt/test_read.py"),
        Shows("tests/io/mqtt/test_write.py"),
        Shows("tests/io/mqtt/test_write.py::test_micro_batches_write", "spark-microbatch"),
        Shows(
            "tests/io/mqtt/test_read.py::test_a_stream_goes_on_where_it_stopped[spark-microbatch-1]", "spark-microbatch"
        ),
    ],
    "Google Cloud Pub/Sub: sources and sinks": [
        Shows("tests/io/pubsub/test_read.py"),
        Shows("tests/io/pubsub/test_write.py"),
        Shows(
            "tests/io/pubsub/test_read.py::test_a_stream_goes_on_from_its_checkpoint[spark-microbatch]",
            "spark-microbatch",
        ),
    ],
    "Google BigQuery: sources and sinks": [
        Shows("tests/io/bigquery/test_read.py"),
        Shows("tests/io/bigquery/test_write.py"),
    ],
    "TestStream": [
        Shows(f"{FIGURES}::test_figure_11_has_panes_for_each_micro_batch"),
        Shows(f"{MICRO_BATCHES}/test_endings.py::test_a_script_ends_the_run", "spark-microbatch"),
        Shows(f"{REFUSALS}::test_a_script_is_refused_where_no_clock_moves", "spark-batch", refused=True),
    ],
    "unbounded sources": [
        Shows("tests/runners/local/job/test_restart_strategy.py", "local"),
        Shows(f"{MICRO_BATCHES}/test_unbounded_pipelines.py", "spark-microbatch"),
        Shows(
            "tests/sdk/sources/test_unbounded.py::test_a_runner_that_reads_to_the_end_refuses_what_has_none",
            "spark-batch",
            refused=True,
        ),
    ],
    "loops": [
        Shows("tests/simulation/test_simulation.py", "local"),
        Shows(f"{REFUSALS}::test_a_loop_is_refused_by_name[spark-batch]", "spark-batch", refused=True),
        Shows(f"{REFUSALS}::test_a_loop_is_refused_by_name[spark-microbatch]", "spark-microbatch", refused=True),
    ],
    "state read from outside": [
        Shows("tests/runners/local/test_committed_state.py", "local"),
        Shows(f"{COMMITTED}::test_a_committed_batch_is_read", "spark-microbatch"),
        Shows(f"{COMMITTED}::test_a_run_in_batch_has_no_state_to_read", "spark-batch", refused=True),
    ],
    "DataFrames (FromSpark, ToSpark)": [
        Shows("tests/runners/spark/test_dataframes.py", "spark-batch"),
        Shows(f"{STREAMS}::test_a_rate_stream_is_stopped_and_resumed", "spark-microbatch"),
        Shows(f"{ELSEWHERE}[FromSpark-local]", "local", refused=True),
        Shows(f"{ELSEWHERE}[ToSpark-local]", "local", refused=True),
    ],
    "streaming DataFrames (FromSparkStream)": [
        Shows(STREAMS, "spark-microbatch"),
        Shows(f"{ELSEWHERE}[FromSparkStream-local]", "local", refused=True),
        Shows(f"{ELSEWHERE}[FromSparkStream-spark-batch]", "spark-batch", refused=True),
    ],
}


# The run


def runner_of(parameters: Mapping[str, Any]) -> str | None:
    """Return the runner of a test by its parameters, or None if they name no runner or only a variant."""
    names = [parameters.get(name) for name in ("runner_name", "streaming_runner")]
    return next((name for name in names if name in columns()), None)


class Capabilities:
    """Plugin that collects the outcomes of the tests in `SHOWN_BY`, stores them, and checks the table at the end."""

    def __init__(self, file: Path) -> None:
        self.results: dict[str, dict[str, dict[str, int]]] = {}
        self._file = file
        self._shown: dict[str, list[tuple[str, str, bool]]] = {}
        self._wrong: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Map each collected test to its capabilities and runner."""
        for item in items:
            callspec = getattr(item, "callspec", None)
            of_test = runner_of(callspec.params if callspec is not None else {})
            for capability, shows in SHOWN_BY.items():
                for show in shows:
                    runner = show.runner or of_test
                    if runner is not None and show.has(item.nodeid):
                        self._shown.setdefault(item.nodeid, []).append((capability, runner, show.refused))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when it has passed, or at its first failing phase."""
        if report.outcome == "passed" and report.when != "call":
            return
        for capability, runner, is_refused in self._shown.get(report.nodeid, ()):
            outcome = "refused" if is_refused and report.outcome == "passed" else report.outcome
            counts = self.results.setdefault(capability, {}).setdefault(runner, dict.fromkeys(OUTCOMES, 0))
            counts[outcome] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Store the outcomes; a table that differs from them fails the run."""
        self._file.write_text(json.dumps(self.results, indent=2) + "\n")
        self._wrong = list(differences(self.results, README.read_text()))
        if self._wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the differences of the table."""
        if self._wrong:
            terminalreporter.section("the capabilities in README.md aren't those that the tests have shown")
            for line in self._wrong:
                terminalreporter.line(line)


OUTCOMES = ("passed", "failed", "skipped", "refused")


# The table


def columns() -> list[str]:
    """Return the runners of the table."""
    from penstock.sdk.runner import OURS

    return list(OURS)


def cell(results: Results, capability: str, runner: str, claimed: str) -> str:
    """Return the table's entry for a capability: the runner's own claim, if tests have shown it.

    >>> shown = {"loops": {"local": {"passed": 3, "failed": 0, "skipped": 0, "refused": 0}}}
    >>> cell(shown, "loops", "local", "yes"), cell(shown, "loops", "spark-batch", "yes")
    ('yes', 'not shown by any test')
    """
    counts = results.get(capability, {}).get(PICKS.get(runner, runner), dict.fromkeys(OUTCOMES, 0))
    if counts["failed"]:
        return f"{counts['failed']} tests fail"
    if counts["passed"]:
        return claimed if claimed.startswith("yes") else "yes"
    if counts["refused"]:
        return "no"
    # Without Java the Spark tests are skipped, and the claim can't be checked.
    return claimed if counts["skipped"] else "not shown by any test"


def table(results: Results) -> list[list[str]]:
    """Return all rows, including the header."""
    from penstock.sdk.runner import create_runner

    claims = {name: create_runner(name).capabilities() for name in columns()}
    capabilities = dict.fromkeys([*SHOWN_BY, *(c for claimed in claims.values() for c in claimed)])
    rows = [[c, *(cell(results, c, name, claims[name].get(c, "no")) for name in claims)] for c in capabilities]
    return [["", *claims], *rows]


# The table in a document: its head, and what is below.
TABLE = re.compile(r"^\| \| local \|.*\n(?:\|.*\n)+", re.MULTILINE)


def differences(results: Results, document: str) -> Iterator[str]:
    """Return the lines in which a document's table differs."""
    said, shown = TABLE.search(document), shown_as_text(table(results)).splitlines()
    lines = [] if said is None else said[0].splitlines()
    yield from (f"said:  {line}" for line in lines if line not in shown)
    yield from (f"shown: {line}" for line in shown if line not in lines)


def shown_as_text(rows: Iterable[list[str]]) -> str:
    """Return rows as Markdown."""
    head, *rest = (f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)
    return "\n".join([head, re.sub(r"[^|]+", " --- ", head), *rest]) + "\n"


def rewritten(results: Results, document: str) -> str:
    """Return a document with its table replaced by that of the results."""
    return TABLE.sub(lambda _: shown_as_text(table(results)), document)


if __name__ == "__main__":
    found, path = Path(sys.argv[1]), Path(sys.argv[2])
    if not found.exists():
        sys.exit(f"{found} isn't there: a run of all tests writes it; run make test first")
    path.write_text(rewritten(json.loads(found.read_text()), path.read_text()))
