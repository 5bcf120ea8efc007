"""The container: its entry point, run without a container engine, and its files, by their linters."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from deploy.services import PIPELINE, ROOT
from support.programs.running_program import PATIENCE, wait_until

ENTRY = ROOT / "deploy" / "container" / "entrypoint.sh"
TOOLS = pathlib.Path(sys.executable).parent


def environment(**more: str) -> dict[str, str]:
    """The environment of a container: the path, and what it is started with."""
    return {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/"), **more}


def status_of(port: int, path: str) -> int | None:
    """Return the status of a health check, or None."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except OSError:
        return None


def test_the_entry_point_runs_a_job_that_stops_with_a_savepoint(tmp_path: pathlib.Path) -> None:
    """It becomes the job, which gets the engine's SIGTERM; flags of the command line win."""
    (tmp_path / "pipeline.py").write_text(
        PIPELINE.format(root=str(tmp_path), more="", work="abs", version="1", label="Sum")
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kept = tmp_path / "checkpoints"
    process = subprocess.Popen(
        [str(ENTRY), "pipeline.py", "--parallelism=2", "--health_host=127.0.0.1"],
        cwd=tmp_path,
        env=environment(PENSTOCK_CHECKPOINT_DIR=str(kept), PENSTOCK_HEALTH_PORT=str(port)),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: process.poll() is not None or status_of(port, "/readyz") == 200, "a ready job")
        wait_until(lambda: process.poll() is not None or any(kept.glob("manifest-*")), "a checkpoint")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (0, True) == (process.returncode, "the pipeline stops with a savepoint" in errors)
    assert ["savepoint"] == [file.suffix[1:] for file in sorted(kept.glob("manifest-*"))[-1:]]


WRONG = {
    "no pipeline": ([], {}, "expected a pipeline: penstock-job FILE [FLAGS], or penstock-job -m MODULE [FLAGS]"),
    "no module": (["-m"], {"PENSTOCK_CHECKPOINT_DIR": "/tmp/none"}, "expected a module after -m"),
    "no directory": (
        ["pipeline.py"],
        {},
        "PENSTOCK_CHECKPOINT_DIR is not set; expected a path of a volume, or a URL: files of the container end with it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_entry_point_refuses_what_it_cannot_run(case: str, tmp_path: pathlib.Path) -> None:
    """With the status of a wrong usage, and a sentence."""
    arguments, given, told = WRONG[case]
    command = [str(ENTRY), *arguments]
    ran = subprocess.run(command, cwd=tmp_path, env=environment(**given), capture_output=True, text=True, check=False)
    assert (64, f"penstock-job: {told}\n") == (ran.returncode, ran.stderr)


LINTED = {
    "hadolint": ["hadolint", "deploy/container/Dockerfile"],
    "shellcheck": ["shellcheck", "deploy/container/entrypoint.sh"],
    "kubernetes-validate": ["kubernetes-validate", "--strict", "--quiet", "deploy/kubernetes/job.yaml"],
}


@pytest.mark.parametrize("linter", LINTED)
def test_the_linter_finds_nothing(linter: str) -> None:
    """In the files of the image and of the cluster."""
    if shutil.which(linter, path=environment()["PATH"]) is None:
        pytest.skip(f"{linter} has no wheel for this machine")
    ran = subprocess.run(LINTED[linter], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (0, "", "") == (ran.returncode, ran.stdout, ran.stderr)
