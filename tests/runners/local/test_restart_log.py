"""A restart logs the checkpoint that it restores: its number, age, offsets and parallelism."""

from __future__ import annotations

import logging
import pathlib
import re
import time

import pytest

import penstock as beam
from penstock.testing import ScriptedSource


def run(directory: pathlib.Path, *flags: str, fails: bool = False) -> None:
    """Group numbers of two partitions; a run that fails does so when it has something to resume from."""
    numbers = [[beam.window.TimestampedValue(n, n) for n in range(3_000)]] * 2

    def passed(n: int) -> int:
        if fails and n > 1_000:
            if any(directory.glob("manifest-*")) or (directory / "productions").exists():
                raise ValueError("durable")
            time.sleep(0.001)  # so that barriers pass before the records end
        return n

    p = beam.Pipeline(argv=[f"--checkpoint_dir={directory}", "--checkpoint_interval=0.005", "--max_restarts=0", *flags])
    read = p | "Read" >> beam.io.Read(ScriptedSource(numbers, at_a_time=5)) | beam.Map(passed)
    _ = read | beam.WindowInto(beam.window.FixedWindows(10)) | beam.WithKeys(lambda n: n % 4) | beam.GroupByKey()
    p.run().wait_until_finish()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "resumes" in message]


def test_a_checkpoint_its_age_offsets_and_another_parallelism_are_logged(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing by a first start."""
    caplog.set_level(logging.INFO, "penstock")
    with pytest.raises(ValueError, match="durable"):
        run(tmp_path, fails=True)
    assert [] == lines(caplog)
    run(tmp_path, "--parallelism=2", "--workers=1")
    (line,) = lines(caplog)

    assert re.fullmatch(
        rf"{tmp_path}: resumes from checkpoint \d+, which is \d+\.\d s old, with parallelism 2 "
        r"\(it was taken with 1\); Read: 0 at \d+, 1 at \d+",
        line,
    )


def test_of_logs_their_productions_and_offsets_are_logged(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By each subtask that has any."""
    caplog.set_level(logging.INFO, "penstock")
    flags = "--delivery=strong", "--parallelism=2", "--workers=1"
    with pytest.raises(ValueError, match="durable"):
        run(tmp_path, *flags, fails=True)
    assert [] == lines(caplog)
    run(tmp_path, *flags)

    for index in range(2):
        of_source = rf"{tmp_path}: subtask {index} of task 0 resumes after the \d+ productions in its log"
        assert any(re.fullmatch(rf"{of_source}; Read: {index} at \d+", line) for line in lines(caplog)), caplog.text
