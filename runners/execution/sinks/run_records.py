"""Records of the runs without checkpoints that are open: a later run removes what a killed one has staged.

A record is a file with the names of the transactions, in a directory of the user.  The process that runs the pipeline
keeps it locked, and removes it when its sinks are committed or aborted.  The system unlocks it when the process ends in
any way, so that a record without a lock is one of a process that was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from ....sdk.metrics import MetricsContainer
from ....sdk.redaction import logger_of
from ..plan.fusion import Plan
from .committer import OpenTransactions, SinkCommitter, sinks_of

_logger = logger_of(__name__)

# A record stays until its own program runs, or so many seconds: sinks may not tell their targets.
_KEPT_SECONDS = 30 * 24 * 3600.0


def records_directory() -> pathlib.Path:
    """Return the directory of records: in $XDG_STATE_HOME, by default ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return pathlib.Path(state, "penstock", "runs")


class RunRecord(OpenTransactions):
    """The record of one run.

    Args:
      targets: by the labels of its sinks, what they write to; see `Sink.target`.
      directory: of all records.
    """

    def __init__(self, targets: Mapping[str, str | None], directory: pathlib.Path | None = None) -> None:
        self._targets = dict(sorted(targets.items()))
        self._directory = records_directory() if directory is None else directory
        self._path: pathlib.Path | None = None
        self._file: IO[str] | None = None
        self._is_over = False

    def write(self, names: Sequence[str]) -> None:
        """Write the record, when the first transaction begins.  A warning says that it can't be written."""
        if not names or self._file is not None or self._is_over:
            return
        self._path = self._directory / f"{os.getpid()}-{names[-1]}.json"
        hidden = self._path.with_suffix(".partial")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = hidden.open("x", encoding="utf-8")
            # It is found by its name when it is locked and complete.
            fcntl.flock(self._file, fcntl.LOCK_EX)
            known = {"sinks": list(self._targets), "targets": self._targets}
            json.dump({"transactions": list(names), **known, "program": _program()}, self._file)
            self._file.flush()
            hidden.rename(self._path)
        except OSError as error:
            _logger.warning(
                "%s: the record of the run can't be written (%s): if this process is killed, no later run removes what "
                "it has staged. Name a directory by XDG_STATE_HOME",
                self._path,
                error,
            )

    def remove(self) -> None:
        """Remove the record: nothing of the run is staged any more."""
        self._is_over = True
        if self._file is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()


def remove_abandoned(plan: Plan, directory: pathlib.Path | None = None) -> None:
    """Abort the transactions of killed runs of a plan with the same sinks, by label and target.

    The transaction of a run that lives is never touched.
    """
    targets = targets_of(plan)
    if not targets:
        return
    for path in sorted((records_directory() if directory is None else directory).glob("*.json")):
        with suppress(OSError), _locked(path) as record:
            if record is None or not _is_of(record, targets):
                continue
            committer = SinkCommitter(plan)
            committer.recover(record["transactions"])
            committer.abort()
            # A sink that can't be reached keeps its transaction open.
            is_done = not committer.open and record["program"] == _program()
            if is_done or time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink(missing_ok=True)


def targets_of(plan: Plan) -> dict[str, str | None]:
    """Return what the sinks of a plan write to, by their labels; None for a sink that doesn't tell it."""
    return {label: labelled.sink.target() for label, labelled in sinks_of(plan).items()}


def _is_of(record: dict[str, Any], targets: Mapping[str, str | None]) -> bool:
    """Return whether a record may be of a run with the same sinks."""
    if record["sinks"] != sorted(targets):
        return False
    # Records of earlier versions don't have them.
    written = record.get("targets", {})
    return any(target is None or written.get(label) in (None, target) for label, target in targets.items())


@contextmanager
def committed(
    plan: Plan,
    transaction: str,
    staged: Callable[[], Mapping[str, Sequence[Any]]],
    metrics: MetricsContainer | None = None,
) -> Iterator[None]:
    """Commit the sinks of a run without checkpoints at the end of the block, or abort if it fails.

    What killed runs have left is removed before.  The record of the run stays if its transaction is still open at the
    end.

    Args:
      staged: returns the tokens that were staged in the block, by the label of a sink.
      metrics: counts what sinks report during commits.
    """
    record = RunRecord(targets_of(plan))
    remove_abandoned(plan)
    committer = SinkCommitter(plan, record, metrics)
    try:
        try:
            committer.begin(transaction)
            yield
            committer.publish(transaction, staged())
        except BaseException:
            committer.abort()
            raise
        committer.close()
    finally:
        if not committer.open:
            record.remove()


@contextmanager
def _locked(path: pathlib.Path) -> Iterator[dict[str, Any] | None]:
    """Lock a record and return it; None if its run lives, or it is removed meanwhile."""
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield json.load(file) if path.exists() else None


def _program() -> str:
    """Return what tells programs, their arguments and their directories apart, without showing them."""
    with suppress(OSError):
        return hashlib.sha256(json.dumps([os.getcwd(), *sys.argv]).encode()).hexdigest()
    return ""
