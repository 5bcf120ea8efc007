"""The unit file, under a service manager that runs it as systemd would."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from deploy.services import UNIT, Service
from support.programs.running_program import wait_until


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    """A job that isn't started; stopped at the end."""
    found = Service(tmp_path)
    yield found
    found.manage("stop")


def test_a_service_is_ready_survives_a_kill_and_stops_with_a_savepoint(service: Service) -> None:
    """Each number is published once, and counted once, over four processes."""
    service.use(service.release("1.0"))
    assert 0 == service.manage("start")
    assert (200, 200) == (service.health("/healthz"), service.health("/readyz"))
    service.wait_for_more()

    first = service.pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: service.pid != first and service.state == "active", "a restart")
    service.wait_for_more()

    assert 0 == service.manage("stop")
    assert "manager: failed with status -9, restart 1\n" in service.journal
    assert service.journal.endswith("manager: deactivated with status 0\n")
    assert "the pipeline stops with a savepoint" in service.journal
    assert ["savepoint"] == [file.suffix[1:] for file in sorted(service.checkpoints.glob("manifest-*"))[-1:]]
    assert None is service.health("/healthz")

    assert 0 == service.manage("start")
    service.wait_for_more()
    service.drain()
    assert service.journal.endswith("manager: deactivated with status 0\n")


def test_a_drained_service_that_is_started_again_ends_with_success(service: Service) -> None:
    """As at the next boot: it has nothing left to do, and isn't restarted for that."""
    service.use(service.release("1.0"))
    assert 0 == service.manage("start")
    service.wait_for_more()
    service.drain()
    first = service.pid

    assert 0 == service.manage("start")
    wait_until(lambda: service.pid != first and service.state != "active", "the end of the service")
    assert "inactive" == service.state
    assert "restart" not in service.journal


STUCK_ONCE = """
def work(n):
    mark = HERE / "stuck"
    if n == 100 and not mark.exists():
        mark.touch()
        time.sleep(1000)
    return n
"""


def test_a_service_whose_function_does_not_return_is_restarted_by_its_watchdog(service: Service) -> None:
    """Nothing of what it had published is lost or repeated."""
    service.use(service.release("1.0", STUCK_ONCE, "work"))
    assert 0 == service.manage("start")
    wait_until(lambda: service.health("/healthz") == 503, "the stuck function")
    wait_until(lambda: "restart 1" in service.journal and service.state == "active", "a restart")
    service.wait_for_more()
    assert "manager: watchdog timeout\nmanager: failed with status -6, restart 1\n" in service.journal
    service.drain()


def test_a_service_that_always_fails_is_given_up(service: Service) -> None:
    """Its start fails, and the manager doesn't start it for ever."""
    service.use(service.release("1.0", work="lambda n: 1 // 0"))
    service.manage("start")
    wait_until(lambda: service.state == "failed", "the last start")
    assert 5 == service.journal.count("manager: failed with status 1, restart ")
    assert "in the transform 'Work'" in service.journal


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: pathlib.Path) -> None:
    """With an executable that exists here."""
    text = UNIT.read_text().replace("%i", "clicks")
    penstock = pathlib.Path(sys.executable).parent / "penstock"
    unit = tmp_path / "penstock-clicks.service"
    unit.write_text(text.replace("/srv/penstock/clicks/current/venv/bin/penstock", str(penstock)))
    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (0, "") == (ran.returncode, ran.stderr)
