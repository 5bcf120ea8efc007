"""A service manager that runs one unit file of systemd, as far as penstock's uses it; for machines without systemd.

    python service_manager.py start|stop|status UNIT ROOT INSTANCE

`start` returns when the service is ready (`Type=notify`) or has failed to start, `stop` when it has ended.  Absolute
paths of the unit are taken below ROOT.  Supported are ExecStart, EnvironmentFile, WorkingDirectory, WatchdogSec,
Restart=on-failure, RestartSec, StartLimitBurst, TimeoutStartSec, TimeoutStopSec and KillMode=mixed; the settings of
users and sandboxes need systemd.  What happens is written to ROOT/journal.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

# What a test needn't wait for as long as an operator would.
FASTER = {"RestartSec": 0.2, "WatchdogSec": 3.0}

_UNITS = {"s": 1.0, "min": 60.0}
_SUPPORTED = {
    *("Type=notify", "NotifyAccess=main", "KillMode=mixed", "KillSignal=SIGTERM", "Restart=on-failure"),
    *("ExecStart", "EnvironmentFile", "WorkingDirectory", "WatchdogSec", "RestartSec", "StartLimitBurst"),
    *("TimeoutStartSec", "TimeoutStopSec"),
}
_OF_SYSTEMD = {
    *("Description", "Wants", "After", "StartLimitIntervalSec", "User", "UMask", "StateDirectory", "WantedBy"),
    *("StateDirectoryMode", "NoNewPrivileges", "PrivateTmp", "ProtectSystem", "ProtectHome"),
}
# The failure of a service that ends without having been ready, whatever its status.
_PROTOCOL = 1
# The states of a service that has not ended.
_ALIVE = ("activating", "auto-restart", "active")


class Unit:
    """A unit file, for one instance, with its paths below a root."""

    def __init__(self, path: pathlib.Path, root: pathlib.Path, instance: str) -> None:
        self.settings: dict[str, str] = {}
        for line in path.read_text().splitlines():
            if line.strip() and line[0] not in "#[":
                name, _, value = line.partition("=")
                self.settings[name] = value.replace("%i", instance)
                known = {line, name} & (_SUPPORTED | _OF_SYSTEMD)
                assert known, f"{path.name}: {line} is not supported by the tests' service manager"
        self._root = root

    def _below(self, text: str) -> str:
        return re.sub(r"(^|[= ])/", rf"\1{self._root}/", text)

    @property
    def exec_start(self) -> list[str]:
        """The command, with the words of its variables."""
        found = []
        for word in shlex.split(self._below(self.settings["ExecStart"])):
            found += shlex.split(self.environment_file[word[1:]]) if word.startswith("$") else [word]
        return found

    @property
    def environment_file(self) -> dict[str, str]:
        """The variables."""
        lines = pathlib.Path(self._below(self.settings["EnvironmentFile"])).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line)

    @property
    def working_directory(self) -> str:
        """Where the service runs."""
        return self._below(self.settings["WorkingDirectory"])

    @property
    def start_limit_burst(self) -> int:
        """How often it is started."""
        return int(self.settings["StartLimitBurst"])

    def seconds(self, name: str) -> float:
        """Return a setting that is a duration."""
        found = re.fullmatch(r"(\d+)(s|min)", self.settings[name])
        assert found is not None, f"{name}={self.settings[name]}"
        return min(float(found[1]) * _UNITS[found[2]], FASTER.get(name, 1e9))


class Service:
    """A unit at work, until it is stopped or has failed."""

    def __init__(self, unit: Unit, root: pathlib.Path) -> None:
        self._unit = unit
        self._root = root
        self._is_stopping = False
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        (root / "notify").unlink(missing_ok=True)
        self._notify.bind(str(root / "notify"))
        self._notify.settimeout(0.05)

    def log(self, text: str) -> None:
        """Write to the journal."""
        with open(self._root / "journal", "a") as journal:
            journal.write(f"manager: {text}\n")

    def run(self) -> None:
        """Run the service, again and again."""
        signal.signal(signal.SIGTERM, self._stop)
        self._set("activating")
        for start in range(self._unit.start_limit_burst):
            status = self._run_once()
            if self._is_stopping or status == 0:
                self.log(f"deactivated with status {status}")
                self._set("inactive" if status == 0 else "failed")
                return
            self.log(f"failed with status {status}, restart {start + 1}")
            self._set("auto-restart")
            if not self._sleeps(self._unit.seconds("RestartSec")):
                break
        self._set("inactive" if self._is_stopping else "failed")

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _sleeps(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_stopping:
            time.sleep(0.02)
        return not self._is_stopping

    def _set(self, state: str) -> None:
        new = self._root / ".state"
        new.write_text(state)
        new.replace(self._root / "state")

    def _run_once(self) -> int:
        unit = self._unit
        watchdog = unit.seconds("WatchdogSec")
        environment = {
            **os.environ,
            **unit.environment_file,
            "NOTIFY_SOCKET": str(self._root / "notify"),
            "WATCHDOG_USEC": str(round(watchdog * 1_000_000)),
        }
        with open(self._root / "journal", "ab") as journal:
            process = subprocess.Popen(
                unit.exec_start,
                cwd=unit.working_directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        (self._root / "pid").write_text(str(process.pid))
        began = heard = time.monotonic()
        is_ready, asked = False, 0.0
        while process.poll() is None:
            lines = self._news()
            heard = time.monotonic() if "WATCHDOG=1" in lines else heard
            if "READY=1" in lines:
                is_ready, heard = True, time.monotonic()
                self._set("active")
            now = time.monotonic()
            if self._is_stopping:
                if not asked:
                    asked = now
                    process.send_signal(signal.SIGTERM)
                elif now - asked > unit.seconds("TimeoutStopSec"):
                    self.log("stop timed out")
                    process.kill()
            elif is_ready and now - heard > watchdog:
                self.log("watchdog timeout")
                process.send_signal(signal.SIGABRT)
                heard = now
            elif not is_ready and now - began > unit.seconds("TimeoutStartSec"):
                self.log("start timed out")
                process.kill()
        # KillMode=mixed: what is left of the control group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        while lines := self._news():
            is_ready = is_ready or "READY=1" in lines
        if process.returncode == 0 and not is_ready:
            self.log("ended without being ready")
            return _PROTOCOL
        return process.returncode

    def _news(self) -> list[str]:
        with contextlib.suppress(TimeoutError):
            return self._notify.recv(4096).decode().splitlines()
        return []


# --- Commands


def start(unit: Unit, root: pathlib.Path) -> int:
    """Start the service, and return when it is ready or has failed."""
    if state_of(root) in _ALIVE:
        return 0
    (root / "state").write_text("activating")
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        (root / "manager").write_text(str(os.getpid()))
        try:
            Service(unit, root).run()
        finally:
            os._exit(0)
    while state_of(root) == "activating":
        time.sleep(0.02)
    # A service that was ready may have ended since.
    return 0 if state_of(root) in ("active", "inactive") else 1


def stop(root: pathlib.Path) -> int:
    """Stop the service, and return when it has ended."""
    if state_of(root) in _ALIVE:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((root / "manager").read_text()), signal.SIGTERM)
        while state_of(root) in _ALIVE:
            time.sleep(0.02)
    return 0


def state_of(root: pathlib.Path) -> str:
    """Return the state of the service."""
    path = root / "state"
    return path.read_text() if path.exists() else "inactive"


def main() -> int:
    """Read the command line."""
    command, path, place, instance = sys.argv[1:]
    root = pathlib.Path(place)
    (root / "journal").touch()
    if command == "start":
        return start(Unit(pathlib.Path(path), root, instance), root)
    if command == "stop":
        return stop(root)
    print(state_of(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
