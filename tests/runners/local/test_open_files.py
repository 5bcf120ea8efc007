"""Programs that have many files open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

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
