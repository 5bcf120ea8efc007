"""Upgrades of a job in place, by deploy/upgrade.py."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby

import pytest
from deploy.services import ROOT, Service

BROKEN = """
def work(n):
    raise RuntimeError("this version is broken")
"""


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    """A job that runs version 1."""
    found = Service(tmp_path)
    found.use(found.release("v1"))
    assert 0 == found.manage("start")
    yield found
    found.manage("stop")


def upgraded(service: Service, release: pathlib.Path, timeout: float = 120) -> tuple[int, str, str]:
    """Return the exit status of an upgrade, and what it has written."""
    command = [
        sys.executable,
        str(ROOT / "deploy" / "upgrade.py"),
        str(service.home),
        str(release),
        f"--checkpoint_dir={service.checkpoints}",
        f"--health=http://127.0.0.1:{service.port}",
        f"--start={shlex.join(service.command('start'))}",
        f"--stop={shlex.join(service.command('stop'))}",
        f"--timeout={timeout}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def test_a_job_is_upgraded_and_rolled_back_and_loses_nothing(service: Service) -> None:
    """A version that works, one that fails, and one that the state doesn't fit; each number is published once."""
    service.wait_for_more()
    status, told, _ = upgraded(service, service.release("v2"))
    assert (0, "upgrade: v2 runs, and has completed checkpoint") == (status, told.splitlines()[-1].rpartition(" ")[0])
    assert "v2" == (service.home / "current").resolve().name
    service.wait_for_more()

    status, told, errors = upgraded(service, service.release("v3", BROKEN, "work"), timeout=20)
    assert 2 == status
    assert "upgrade: v3 doesn't work: " in errors
    assert told.splitlines()[-1].startswith("upgrade: rolled back: v2 runs, and has completed checkpoint ")
    service.wait_for_more()

    status, _, errors = upgraded(service, service.release("v4", label="Another sum"), timeout=20)
    assert 2 == status
    assert "upgrade: v4 doesn't work: " in errors
    assert "'Sum'" in service.journal
    service.wait_for_more()

    service.drain()
    versions = [version for (version,) in service.rows("SELECT version FROM numbers ORDER BY n")]
    assert ["v1", "v2"] == [version for version, _ in groupby(versions)]


def test_an_upgrade_to_nothing_changes_nothing(service: Service) -> None:
    """Refused before the job is stopped."""
    process = service.pid
    status, _, errors = upgraded(service, service.home / "v9")
    assert 1 == status
    missing = service.home / "v9"
    assert f"upgrade: nothing has changed: {missing}: expected a release, with venv/bin/penstock\n" == errors
    assert (process, "active") == (service.pid, service.state)
