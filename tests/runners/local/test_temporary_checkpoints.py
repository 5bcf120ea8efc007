"""Checkpoints of a stream without --checkpoint_dir: in a directory that is gone when the run has ended well."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PenstockError
from penstock.testing import ScriptedSource

NUMBERS = [[beam.window.TimestampedValue(n, n) for n in range(20)]]


def run(source: ScriptedSource[int], fn: object, *flags: str) -> None:
    """A short stream."""
    p = beam.Pipeline(options=PipelineOptions(["--max_restarts=0", *flags]))
    _ = p | beam.io.Read(source) | beam.Map(fn)
    p.run().wait_until_finish()


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where temporary directories are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("delivery", ["barriers", "strong"])
def test_nothing_is_left_of_a_stream_that_has_ended(temporary: pathlib.Path, delivery: str) -> None:
    """Its checkpoints, or logs, are removed; they used to stay."""
    kind = "checkpoints" if delivery == "barriers" else "productions"

    def look(n: int) -> int:
        if list(temporary.glob(f"penstock-{kind}-*")):
            (temporary / "seen").touch()
        return n

    run(ScriptedSource(NUMBERS), look, f"--delivery={delivery}")
    assert (True, []) == ((temporary / "seen").exists(), list(temporary.glob(f"penstock-{kind}-*")))


def test_what_failed_can_be_looked_at(temporary: pathlib.Path) -> None:
    """Of a run that failed for good the checkpoints stay."""

    def fail(n: int) -> int:
        raise ValueError(n)

    with pytest.raises(PenstockError):
        run(ScriptedSource(NUMBERS), fail)
    assert 1 == len(list(temporary.glob("penstock-checkpoints-*")))
