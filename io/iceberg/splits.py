"""Splits of an Iceberg table: a data file with its deletes, as plain fields.

A checkpoint contains the splits that it reads, and another version of the client reads the checkpoint.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from ...sdk.errors import SourceError
from ...sdk.user_code.error_text import text_or_class
from .data_files import READ_FIELDS, encoded_file, files_of


class Split(msgspec.Struct, array_like=True, frozen=True):
    """A data file of a snapshot.

    Attributes:
      metadata: the location of the table's metadata.
      file: the encoded data file.
      deletes: the encoded files of its deletes.
    """

    metadata: str
    snapshot_id: int
    file: bytes
    deletes: list[bytes]

    @staticmethod
    def of(metadata: str, snapshot_id: int, task: Any) -> Split:
        """Return the split of the client's task to read a file."""
        deletes = sorted(task.delete_files, key=lambda file: str(file.file_path))
        file, *others = (encoded_file(each, each.spec_id, READ_FIELDS) for each in (task.file, *deletes))
        return Split(metadata, snapshot_id, file, others)

    def encoded(self) -> bytes:
        """Return the split as bytes, which `split_of` reads."""
        return msgspec.msgpack.encode(self)

    def task(self) -> Any:
        """Return the client's task to read the file."""
        from pyiceberg.table import FileScanTask

        file, *deletes = files_of([self.file, *self.deletes])
        return FileScanTask(file, set(deletes))


def split_of(encoded: Any, label: str) -> Split:
    """Return the split of `Split.encoded`, or of a checkpoint of an earlier version, which has pickled the task.

    Raises `SourceError` for a task of another version of the client.
    """
    if isinstance(encoded, bytes):
        return msgspec.msgpack.decode(encoded, type=Split)
    metadata, snapshot_id, task = encoded
    try:
        return Split.of(metadata, snapshot_id, pickle.loads(task))
    except Exception as error:
        raise SourceError(
            f"{label}: the checkpoint has a file of snapshot {snapshot_id} as another version of pyiceberg has pickled "
            f"it, and this one can't read it: {text_or_class(error)}. Go on with the version of pyiceberg that has "
            "written the checkpoint, or begin again without it"
        ) from error
