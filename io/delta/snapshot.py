"""The files of a version of a Delta table, also for a forked process, where Delta's client doesn't work.

A forked process asks one of its own: `python -m penstock.io.delta.snapshot URI LABEL [VERSION]`.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import attrs
import msgspec

from ...sdk.errors import SourceError
from ...sdk.redaction import without_environment
from ...sdk.user_code.error_text import text_or_class
from ..lost_connections import is_lost
from .log import DataFile, check_protocol, files_of, last_written
from .package import is_forked, opened

# The status of a process that couldn't reach the store (EX_TEMPFAIL).
_LOST = 75


@attrs.frozen
class Snapshot:
    """A version of a table, and its files.

    Attributes:
      micros: the time at which the last of the files was written, in microseconds; 0 if there are none.
    """

    version: int
    files: tuple[DataFile, ...]
    micros: int


def snapshot_of(uri: str, label: str, version: int | None = None) -> Snapshot:
    """Return a version of a table; None for the last one.  Raises `SourceError`, and the client's errors."""
    if not is_forked():
        table = opened(uri, label, version)
        check_protocol(table, uri, label)
        return Snapshot(table.version(), tuple(files_of(table, uri)), last_written(table))
    command = [sys.executable, "-m", __name__, uri, label, *([] if version is None else [str(version)])]
    asked = subprocess.run(command, capture_output=True, check=False)
    if asked.returncode:
        error = OSError(without_environment(asked.stderr.decode(errors="replace").strip() or "no message"))
        if asked.returncode == _LOST:
            raise ConnectionError(str(error))
        raise SourceError(f"{label}: Delta table {uri!r} can't be read: {error}")
    return msgspec.msgpack.decode(asked.stdout, type=Snapshot)


def main(uri: str, label: str, version: Any = None) -> None:
    """Write the snapshot to the standard output."""
    try:
        found = snapshot_of(uri, label, None if version is None else int(version))
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {text_or_class(error)}")
        sys.exit(_LOST if is_lost(error) else 1)
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
