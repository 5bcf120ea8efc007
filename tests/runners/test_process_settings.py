"""A run leaves the settings of its process as they are, also where it fails."""

from __future__ import annotations

import gc
import logging
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions


def settings() -> dict[str, Any]:
    """Settings of this process."""
    return {
        "switch interval": sys.getswitchinterval(),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.callbacks[:]),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "imports": sys.meta_path[:],
        "logging": (logging.root.level, logging.root.handlers[:], logging.getLogger("penstock").handlers[:]),
        "streams": (sys.stdout, sys.stderr, sys.excepthook, threading.excepthook),
        "profile": (sys.getprofile(), sys.gettrace()),
    }


def open_resources() -> tuple[set[str], int]:
    """The threads of penstock, and the number of open files."""
    ours = {thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")}
    return ours, len(os.listdir("/dev/fd"))


def within(n: int, interval: float, fails: bool) -> int:
    """Look at what a sampler would have changed."""
    assert (interval, True) == (sys.getswitchinterval(), gc.isenabled())
    if fails and n == 150:
        raise ValueError("of the user")
    return n


OBSERVED = {"ui_port": 0, "metrics_port": 0, "health_port": 0}

KINDS: dict[str, dict[str, Any]] = {
    "in process": {},
    "as a job": {"checkpoint_dir": "kept"},
    "with a page": OBSERVED,
    "in workers": {"parallelism": 2},
    "in workers with a page": {"parallelism": 2, **OBSERVED},
    "as a job with a page": {"checkpoint_dir": "kept", **OBSERVED},
    "as a job in workers": {"parallelism": 2, "checkpoint_dir": "kept"},
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_leaves_the_settings_of_its_process(
    kind: str, fails: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is compared: the first may load what stays."""
    monkeypatch.chdir(tmp_path)

    def run() -> None:
        p = beam.Pipeline(options=PipelineOptions(max_restarts=0, **KINDS[kind]))
        numbers = p | beam.Create(range(200)) | beam.Map(within, sys.getswitchinterval(), fails)
        _ = numbers | beam.WithKeys(lambda n: n % 3) | beam.CombinePerKey(sum)
        if fails:
            with pytest.raises(ValueError, match="of the user"):
                p.run().wait_until_finish()
        else:
            p.run().wait_until_finish()

    run()
    before, resources = settings(), open_resources()
    run()
    assert before == settings()
    wait_until(lambda: resources == open_resources(), f"the resources of before: {resources}")


def test_a_run_on_spark_leaves_the_settings_of_its_process(spark: Any) -> None:
    """In batch, and in micro-batches."""
    from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner

    runners: list[Callable[..., Any]] = [SparkBatchRunner, SparkMicroBatchRunner]
    for runner in runners:

        def run(runner: Callable[..., Any] = runner) -> None:
            with beam.Pipeline(runner(spark_session=spark)) as p:
                _ = p | beam.Create(range(200)) | beam.WithKeys(lambda n: n % 3) | beam.CombinePerKey(sum)

        run()
        before = settings()
        run()
        assert before == settings()
