#!/usr/bin/env python3
"""Upgrade a streaming job in place: savepoint, new version, restart; rollback if the new version doesn't come up.

    upgrade.py JOB_DIRECTORY RELEASE --checkpoint_dir=DIR --health=http://127.0.0.1:8080 \\
        --start='systemctl start penstock@clicks' --stop='systemctl stop penstock@clicks'

The job's directory has its releases, each with `venv/` and the pipeline, and the link `current` to one of them.  The
steps:

1. Stop the job with a savepoint, and verify the savepoint's files.  If that fails, nothing has changed.
2. Switch the link to the new release, and start it.
3. Wait until the job is ready and has completed a checkpoint: it has resumed, and its sinks have published.
4. If it hasn't within --timeout, stop it, switch the link back, and start the release before.  It resumes from the
   newest checkpoint: the savepoint, unless the new version has completed another one.  No record is lost, and none is
   published twice.

The exit status is 0 after an upgrade, 1 if nothing has changed, 2 after a rollback, and 3 if the rollback has failed,
too.  An upgrade to the release before is a rollback at a later time.

Needs Python 3.11, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

UPGRADED, UNCHANGED, ROLLED_BACK, BROKEN = 0, 1, 2, 3


class Failed(Exception):
    """A step has failed."""


class Job:
    """A job that a service manager runs."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.current: Path = arguments.job / "current"
        self.checkpoints: str = arguments.checkpoint_dir
        self._health: str = arguments.health.rstrip("/")
        self._start: list[str] = shlex.split(arguments.start)
        self._stop: list[str] = shlex.split(arguments.stop)
        self._timeout: float = arguments.timeout

    def release(self) -> Path:
        """Return the release that the link names."""
        if not self.current.is_symlink():
            raise Failed(f"{self.current}: expected a link to the release that runs")
        return self.current.resolve()

    def switch(self, release: Path) -> None:
        """Make the link name another release, in one step."""
        new = self.current.with_name(".current.new")
        new.unlink(missing_ok=True)
        new.symlink_to(release)
        os.replace(new, self.current)

    def start(self) -> None:
        """Start the release that the link names."""
        _run(self._start)

    def stop(self) -> None:
        """Stop the job, and wait for its end."""
        _run(self._stop)

    def stop_with_savepoint(self) -> int:
        """Stop the job with a savepoint whose files are intact, and return its epoch."""
        penstock = str(self.current / "venv" / "bin" / "penstock")
        seconds = f"--timeout={self._timeout:g}"
        _run([penstock, "checkpoints", "savepoint", self.checkpoints, "--stop", seconds])
        # The service manager takes note.
        self.stop()
        epoch, kind, *_ = _run([penstock, "checkpoints", "list", self.checkpoints]).splitlines()[1].split()
        if kind != "savepoint":
            raise Failed(f"{self.checkpoints}: the newest checkpoint, {epoch}, is a {kind}; expected a savepoint")
        _run([penstock, "checkpoints", "verify", self.checkpoints, epoch])
        return int(epoch)

    def wait_until_it_works(self, savepoint: int) -> int:
        """Wait until the job is ready and has completed a checkpoint after the savepoint; return its epoch."""
        until, last = time.monotonic() + self._timeout, "it doesn't answer"
        while time.monotonic() < until:
            found = self._asked()
            if found is not None:
                last = f"it is {found['phase']}" + (f": {found['why']}" if found["why"] else "")
                epoch = found["checkpoint_epoch"]
                if found["ready"] and epoch is not None and epoch > savepoint:
                    return int(epoch)
            time.sleep(0.2)
        raise Failed(f"it is not ready with a checkpoint within {self._timeout:g} s; {last}")

    def _asked(self) -> dict[str, object] | None:
        try:
            with urllib.request.urlopen(f"{self._health}/readyz", timeout=5) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as refusal:
            try:
                return dict(json.load(refusal))
            except ValueError:
                return None
        except (OSError, ValueError):
            return None


def _run(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"{shlex.join(command)}: exit status {ran.returncode}: {ran.stderr.strip() or ran.stdout.strip()}")
    return ran.stdout


def upgrade(job: Job, new: Path) -> int:
    """Upgrade a job, and return the exit status."""
    try:
        if not (new / "venv" / "bin" / "penstock").exists():
            raise Failed(f"{new}: expected a release, with venv/bin/penstock")
        old = job.release()
        savepoint = job.stop_with_savepoint()
    except Failed as error:
        print(f"upgrade: nothing has changed: {error}", file=sys.stderr)
        return UNCHANGED
    print(f"upgrade: {old.name} has stopped with savepoint {savepoint}", flush=True)
    try:
        job.switch(new)
        job.start()
        epoch = job.wait_until_it_works(savepoint)
    except Failed as error:
        print(f"upgrade: {new.name} doesn't work: {error}", file=sys.stderr, flush=True)
        return roll_back(job, old, savepoint)
    print(f"upgrade: {new.name} runs, and has completed checkpoint {epoch}")
    return UPGRADED


def roll_back(job: Job, old: Path, savepoint: int) -> int:
    """Start the release before again, and return the exit status."""
    try:
        job.stop()
        job.switch(old)
        job.start()
        epoch = job.wait_until_it_works(savepoint)
    except Failed as error:
        print(
            f"upgrade: {old.name} can't be started again: {error}. Savepoint {savepoint} in {job.checkpoints} has the "
            "job's state; see the log of the service",
            file=sys.stderr,
        )
        return BROKEN
    print(f"upgrade: rolled back: {old.name} runs, and has completed checkpoint {epoch}")
    return ROLLED_BACK


def main() -> int:
    """Read the command line, and upgrade."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("job", type=Path, help="the directory with the link `current`")
    parser.add_argument("release", type=Path, help="the new release: a directory with venv/ and the pipeline")
    parser.add_argument("--checkpoint_dir", required=True, help="the job's directory of checkpoints")
    parser.add_argument("--health", required=True, metavar="URL", help="where the job serves its health")
    parser.add_argument("--start", required=True, metavar="COMMAND", help="starts the service")
    parser.add_argument("--stop", required=True, metavar="COMMAND", help="stops the service, and waits for its end")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for each step: 300")
    arguments = parser.parse_args()
    return upgrade(Job(arguments), arguments.release.resolve())


if __name__ == "__main__":
    sys.exit(main())
