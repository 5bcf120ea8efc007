"""`result.state("step").get(key)`: committed reads of a job that runs, and of one that has ended."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.sdk.errors import AmbiguousStateError, StateNotFoundError, UnsupportedError
from penstock.sdk.userstate import CombiningValueStateSpec, ReadModifyWriteStateSpec
from penstock.windowing import FixedWindows


class Visits(beam.DoFn):
    """Counts, and keeps the last number."""

    COUNT, LAST = CombiningValueStateSpec("count", sum), ReadModifyWriteStateSpec("last")

    def process(
        self,
        element: Any,
        count: Any = beam.DoFn.StateParam(COUNT),
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Iterator[Any]:
        _, n = element
        count.add(1)
        last.write(n)
        yield element


def started(directory: pathlib.Path | None, *flags: str) -> Any:
    """A stream of numbers, of three keys."""
    kept = [] if directory is None else [f"--checkpoint_dir={directory}"]
    p = beam.Pipeline(argv=["--runner=local", "--checkpoint_interval=0.05", "--no_progress", *kept, *flags])
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=5, period=0.01)
    pairs = numbers | beam.Map(lambda n: (f"key {n % 3}", n))
    pairs | "Visits" >> beam.ParDo(Visits())
    pairs | beam.WindowInto(FixedWindows(0.5)) | "Sum" >> beam.CombinePerKey(sum)
    return p.run()


@pytest.mark.parametrize("workers", ["--workers=1", "--workers=2"])
def test_a_running_job_is_read_at_its_last_checkpoint(workers: str, tmp_path: pathlib.Path) -> None:
    """All cells of a key are of one checkpoint, and grow from one to the next."""
    result = started(tmp_path, "--parallelism=2", workers)
    try:
        wait_until(lambda: _has_checkpoint(result), "a checkpoint")
        visits = result.state("Visits")
        first = visits.epoch
        seen: list[int] = []
        while len(set(seen)) < 3:
            cells = {entry.name: entry.value for entry in visits.entries("key 1")}
            assert cells["last"] == 3 * (cells["count"] - 1) + 1
            seen.append(cells["count"])
            time.sleep(0.02)
        assert seen == sorted(seen)
        assert visits.epoch > first
        assert {"key 0", "key 1", "key 2"} == set(visits.keys())
        assert "RUNNING" == result.state
    finally:
        result.stop_with_savepoint()
    ended = result.state("Visits").get("key 1", name="count")
    assert ended >= seen[-1]
    assert ended == visits.get("key 1", name="count")


def _has_checkpoint(result: Any) -> bool:
    try:
        return bool(result.state("Visits").get("key 2", 0, name="count"))
    except StateNotFoundError:
        return False


@pytest.fixture
def ended(tmp_path: pathlib.Path) -> Any:
    """A bounded run that has ended, with state of two keys."""
    p = beam.Pipeline(argv=["--runner=local", f"--checkpoint_dir={tmp_path}", "--no_progress"])
    pairs = p | beam.Create([("a", 1), ("a", 2), ("b", 3)])
    pairs | "Visits" >> beam.ParDo(Visits())
    return p.run()


def test_a_job_that_has_ended_is_read_from_its_directory(ended: Any) -> None:
    """The state of the global window has expired with it."""
    ended.wait_until_finish()
    assert "DONE" == ended.state
    visits = ended.state("Visits")
    found = [visits.get(key, None, name="count") for key in ("a", "b", "c")]
    # The global window has expired at the end of a bounded input.
    assert [None, None, None] == found


def test_several_cells_and_windows_are_named(tmp_path: pathlib.Path) -> None:
    """And so is what there is not."""
    result = started(tmp_path)
    try:
        wait_until(lambda: _has_checkpoint(result), "a checkpoint")
        visits = result.state("Visits")
        with pytest.raises(AmbiguousStateError, match="'key 1' has state 'count' in the window global; state 'last'"):
            visits.get("key 1")
        with pytest.raises(StateNotFoundError, match="'key 1' has no state 'sum'; it has state 'count'"):
            visits.get("key 1", name="sum")
        with pytest.raises(
            StateNotFoundError, match=r"Visits: no state of the key 'key 7' .*, for example, \"key \d\""
        ):
            visits.get("key 7")
        assert 0 == visits.get("key 7", 0)
        with pytest.raises(StateNotFoundError, match="'Visit' is no step of the pipeline. .* 'Visits', 'Sum'"):
            result.state("Visit")
    finally:
        result.cancel()


def test_a_run_without_checkpoints_says_so() -> None:
    """And what to give."""
    p = beam.Pipeline(argv=["--runner=local"])
    p | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
    result = p.run()
    assert "DONE" == result.state
    with pytest.raises(UnsupportedError, match=r"Sum: its state can't be read, .* --checkpoint_dir"):
        result.state("Sum")


def test_a_stream_without_a_directory_is_read_while_it_runs_only() -> None:
    """Its temporary checkpoints are removed when it ends well."""
    result = started(None)
    wait_until(lambda: _has_checkpoint(result), "a checkpoint")
    visits = result.state("Visits")
    result.drain()
    with pytest.raises(StateNotFoundError, match="it was temporary, and was removed when the run ended"):
        visits.get("key 1", name="count")


def test_strong_productions_are_refused(tmp_path: pathlib.Path) -> None:
    """They have logs instead of checkpoints."""
    result = started(tmp_path, "--delivery=strong")
    try:
        with pytest.raises(UnsupportedError, match="--delivery=barriers"):
            result.state("Visits")
    finally:
        result.cancel()
