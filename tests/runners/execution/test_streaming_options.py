"""Values that flags of a stream can't have."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import OptionsError

WRONG = {
    "--parallelism=0": "--parallelism: expected at least 1, got 0",
    "--workers=-1": "--workers: expected at least 1, got -1",
    "--checkpoint_retention=0": "--checkpoint_retention: expected at least 1, got 0",
    "--max_restarts=-1": "--max_restarts: expected at least 0, got -1",
    "--metrics_port=-1": "--metrics_port: expected at least 0, got -1",
    "--metrics_port=65536": "--metrics_port: expected at most 65535, got 65536",
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


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("parallelism", "2", "a whole number, got '2'"),
        ("checkpoint_interval", "1", "a number of seconds, got '1'"),
        ("checkpoint_mode", "fast", "one of 'aligned', 'unaligned', 'synchronous', got 'fast'"),
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
