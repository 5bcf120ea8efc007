"""Programs whose working directory was deleted while they ran, such as by a deployment."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

import penstock as beam
from penstock.runners.execution.serialization.trust import why_untrusted
from penstock.sdk.errors import PenstockError, WorkingDirectoryError

_DELETED = "is relative to the working directory of this process, which was deleted; give an absolute path"


@pytest.fixture(autouse=True)
def _deleted_directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "deleted"
    directory.mkdir()
    monkeypatch.chdir(directory)
    directory.rmdir()


def test_absolute_paths_need_no_working_directory(tmp_path: pathlib.Path) -> None:
    """Files are written and read, and checkpoints taken."""
    with beam.Pipeline(argv=[f"--checkpoint_dir={tmp_path / 'checkpoints'}"]) as p:
        p | beam.Create(["a"]) | beam.io.WriteToText(tmp_path / "out")
    with beam.Pipeline() as p:
        p | beam.io.ReadFromText(f"{tmp_path / 'out'}*") | beam.io.WriteToText(tmp_path / "copy")
    assert "a\n" == (tmp_path / "copy-00000-of-00001").read_text()


def test_started_workers_need_no_working_directory() -> None:
    """Also where a relative entry of sys.path has nothing to import any more, as with `python -c`."""
    flags = ["program", "--parallelism=2", "--start_method=spawn"]
    program = f"import sys, penstock as beam; sys.argv = {flags}; p = beam.Pipeline(); p | beam.Create([1]); p.run()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


RELATIVE: dict[str, Callable[[], object]] = {
    "out": lambda: beam.io.WriteToText("out"),
    "rows.db": lambda: beam.io.WriteToSQLite("rows.db", "rows"),
    "in.txt": lambda: beam.Pipeline() | beam.io.ReadFromText("in.txt"),
    "checkpoints": lambda: why_untrusted("checkpoints"),
    "job": lambda: _run("--checkpoint_dir=job"),
}


def _run(flag: str) -> None:
    with beam.Pipeline(argv=[flag]) as p:
        p | beam.Create([1])


@pytest.mark.parametrize("path", RELATIVE)
def test_a_relative_path_is_an_error_that_says_what_to_do(path: str) -> None:
    """Instead of a `FileNotFoundError` without a name."""
    with pytest.raises(PenstockError, match=f"'{path}.*' {_DELETED}"):
        RELATIVE[path]()


def test_what_else_needs_the_directory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's launcher, before it starts."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(WorkingDirectoryError, match="Spark's launcher needs the working directory of this process"):
        beam.Pipeline(argv=["--runner=spark-batch"]).run()
