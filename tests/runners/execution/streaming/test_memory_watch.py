"""Before memory runs out a warning names the steps that have taken it."""

from __future__ import annotations

import logging
import pathlib

import pytest

import penstock as beam
from penstock.runners.execution.streaming import memory_watch
from penstock.runners.execution.streaming.memory_watch import MemoryWatch

KEPT = {"Few": 3, "Sum": 1_200_000, "None": 0}


@pytest.fixture
def system(tmp_path: pathlib.Path) -> pathlib.Path:
    """The file of a system with so much memory in use; see `use`."""
    return tmp_path / "meminfo"


def use(system: pathlib.Path, percent: int) -> None:
    system.write_text(f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: {1000 - 10 * percent} kB\nHugePages_Total: 0\n")


def test_a_warning_names_the_largest_steps_once(
    system: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until there was more memory again."""
    watch = MemoryWatch(True, system, tmp_path)
    for percent, warnings in ((89, 0), (92, 1), (95, 1), (85, 1), (95, 1), (79, 1), (95, 2)):
        use(system, percent)
        watch.look(KEPT)
        assert warnings == len(caplog.messages), percent
    assert "92% of the memory is in use" in caplog.messages[0]
    assert "Sum 1,200,000, Few 3." in caplog.messages[0]
    assert "--state_backend=rocksdb keeps" in caplog.messages[0]


def test_the_limit_of_the_control_group_counts(
    system: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without cached files, which it gives up."""
    use(system, 10)
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("990\n")
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 500\n")
    watch = MemoryWatch(False, system, tmp_path)
    watch.look(KEPT)
    assert [] == caplog.messages
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 5\n")
    watch.look(KEPT)
    (message,) = caplog.messages
    assert "a smaller --state_memory keeps" in message


def test_without_state_or_figures_nothing_is_said(
    system: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Other systems tell neither; and a limit may be none."""
    (tmp_path / "memory.max").write_text("max\n")
    MemoryWatch(True, system, tmp_path).look(KEPT)
    use(system, 99)
    MemoryWatch(True, system, tmp_path).look({"Sum": 0})
    assert [] == caplog.messages


def test_a_run_looks_at_each_checkpoint(
    system: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A pipeline in one process."""
    use(system, 97)
    monkeypatch.setattr(memory_watch, "_SYSTEM", system)
    caplog.set_level(logging.WARNING)
    options = beam.options.pipeline_options.PipelineOptions(
        ["--runner=local", f"--checkpoint_dir={tmp_path}/kept", "--checkpoint_interval=0.01"]
    )
    with beam.Pipeline(options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, 100, 200, 1) | beam.Map(lambda n: ("a", n))
        _ = numbers | beam.WindowInto(beam.window.FixedWindows(1_000)) | "Totals" >> beam.CombinePerKey(sum)
    assert any("97% of the memory is in use" in message and "Totals 1" in message for message in caplog.messages)
