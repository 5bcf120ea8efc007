"""Values that flags of a stream can't have."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.streaming_options import available_cores, parallelism_of
from penstock.sdk.errors import OptionsError
from penstock.sdk.options import StreamingOptions

WRONG = {
    "--parallelism=-1": "--parallelism: expected at least 0, got -1",
    "--parallelism=100000": "--parallelism: expected at most 32768, got 100000",
    "--workers=-1": "--workers: expected at least 1, got -1",
    "--checkpoint_retention=0": "--checkpoint_retention: expected at least 1, got 0",
    "--max_restarts=-1": "--max_restarts: expected at least 0, got -1",
    "--metrics_port=-1": "--metrics_port: expected at least 0, got -1",
    "--metrics_port=65536": "--metrics_port: expected at most 65535, got 65536",
    "--health_port=65536": "--health_port: expected at most 65535, got 65536",
    "--health_host=0.0.0.0": "--health_host: expected a --health_port to serve at the address, got '0.0.0.0'",
    "--metrics_host=::1": "--metrics_host: expected a --metrics_port to serve at the address, got '::1'",
    "--ui_host=::1": "--ui_host: expected a --ui_port to serve at the address, got '::1'",
    "--health_timeout=0": "--health_timeout: expected more than 0 seconds, got 0.0",
    "--checkpoint_interval=0": "--checkpoint_interval: expected more than 0 seconds, got 0.0",
    "--checkpoint_interval=nan": "--checkpoint_interval: expected a number of seconds, got nan",
    "--checkpoint_timeout=inf": "--checkpoint_timeout: expected a number of seconds, got inf",
    "--worker_timeout=-2": "--worker_timeout: expected more than 0 seconds, got -2.0",
    "--checkpoint_min_pause=-1": "--checkpoint_min_pause: expected 0 seconds or more, got -1.0",
    "--restart_delay=nan": "--restart_delay: expected a number of seconds, got nan",
    "--checkpoint_dir=": "--checkpoint_dir: expected a directory of its own, or a URL, got ''",
    "--checkpoint_dir=/": "--checkpoint_dir: expected a directory of its own, or a URL, got '/'",
}


def run_with(options: PipelineOptions) -> str:
    """Return the error about the options, in a pipeline that doesn't need them."""
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | beam.Create([1])
    with pytest.raises(OptionsError) as caught:
        pipeline.run()
    return str(caught.value)


@pytest.mark.parametrize("flag", WRONG)
def test_a_flag_with_a_value_that_is_none_is_refused(flag: str) -> None:
    """An empty directory was `/`; a bounded pipeline took whatever it was given."""
    assert f"option {WRONG[flag]}" == run_with(PipelineOptions([flag]))


WITHOUT_PAUSE = "; aligned barriers give the same without a pause of the sources"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("parallelism", "2", "a whole number, got '2'"),
        ("checkpoint_interval", "1", "a number of seconds, got '1'"),
        ("checkpoint_mode", "fast", "one of 'aligned', 'unaligned', got 'fast'"),
        (
            "checkpoint_mode",
            "synchronous",
            f"one of 'aligned', 'unaligned', got 'synchronous'{WITHOUT_PAUSE}",
        ),
        ("delivery", "exactly", "one of 'barriers', 'strong', 'weak', got 'exactly'"),
        ("recovery", "regions", "one of 'graph', 'region', got 'regions'"),
    ],
)
def test_so_is_an_option_of_the_program(name: str, value: Any, expected: str) -> None:
    """Its values used to be unchecked: an unknown mode was treated as the default one."""
    assert f"option --{name}: expected {expected}" == run_with(PipelineOptions([], **{name: value}))


def test_checkpoints_in_memory_are_refused_where_others_write_them() -> None:
    """They were written, and found nowhere; in one process they are for tests."""
    flags = ["--checkpoint_dir=memory://ours", "--parallelism=2"]

    assert run_with(PipelineOptions(flags)).startswith(
        "option --checkpoint_dir: memory://ours is in the memory of the process that writes there, and 2 workers"
    )
    with beam.Pipeline(options=PipelineOptions([*flags, "--workers=1"])) as pipeline:
        _ = pipeline | beam.Create([1])


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 3), ("150000 100000", 2), ("50000 100000", 1), ("900000 100000", 3), ("odd", 3), (None, 3)],
)
def test_a_parallelism_of_0_is_the_number_of_available_cores(
    quota: str | None, cores: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the affinity of the process and the quota of its control group, rounded up."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5}, raising=False)
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota + "\n")
    assert cores == available_cores(tmp_path / "cpu.max")
    options = PipelineOptions([]).view_as(StreamingOptions)
    options.parallelism = 0
    assert available_cores() == parallelism_of(options)
    options.parallelism = 7
    assert 7 == parallelism_of(options)
