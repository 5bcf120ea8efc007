"""Programs that have many files open, and systems that permit few."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.testing import TestPipeline, assert_that, equal_to


@pytest.fixture
def many_files() -> Iterator[None]:
    """Open so many files that `select` can't handle the next descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1400:
        pytest.skip(f"at most {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1400), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for number in opened:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_workers_of_a_program_with_a_thousand_open_files_wait_for_their_sources() -> None:
    """A worker that waits for less than a millisecond does so by `select`, but not with file descriptors above 1023."""
    with TestPipeline(options=PipelineOptions(parallelism=2)) as p:
        numbers = p | beam.io.GenerateSequence(0, 40, 200, 1)
        assert_that(numbers, equal_to(list(range(40))))


PROGRAM = """
import sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as p:
    numbers = p | beam.Create(range(10))
    for name in "abcd":
        pairs = numbers | f"{name} pairs" >> beam.Map(lambda n: (n % 3, n)) | f"{name} groups" >> beam.GroupByKey()
        numbers = pairs | f"{name} numbers" >> beam.FlatMap(lambda pair: pair[1])
    _ = numbers | beam.combiners.Count.Globally() | beam.Map(print)
"""


def run_with(limits: tuple[int, int], *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose process may have so many files open, and after a request of its own so many."""
    command = [sys.executable, "-c", PROGRAM, *flags]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    return subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)


def test_workers_may_have_more_files_open_than_a_process_has_by_default(tmp_path: Path) -> None:
    """Eight workers and five shuffles are 280 channels, with two ends each."""
    done = run_with((256, 4096), "--parallelism=8", f"--checkpoint_dir={tmp_path / 'checkpoints'}")
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


@pytest.mark.parametrize("is_streaming", [False, True])
def test_more_workers_than_the_system_permits_are_refused(is_streaming: bool, tmp_path: Path) -> None:
    flags = [f"--checkpoint_dir={tmp_path / 'checkpoints'}"] if is_streaming else []
    done = run_with((100, 100), "--parallelism=64", *flags)
    assert done.returncode == 1
    assert "OptionsError: options --parallelism, --workers: the system refuses files or processes of 64" in done.stderr
