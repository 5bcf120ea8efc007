"""Beam's `GcsIO`: operations on objects of Google Cloud Storage, by penstock's file systems.

>>> parse_gcs_path("gs://lake/sales/2026.csv")
('lake', 'sales/2026.csv')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ....io.files.filesystem import FsspecFileSystem
from ....sdk.errors import UnsupportedError

__all__ = ["DEFAULT_READ_BUFFER_SIZE", "MAX_BATCH_OPERATION_SIZE", "GcsIO", "parse_gcs_path"]

DEFAULT_READ_BUFFER_SIZE = 16 << 20
MAX_BATCH_OPERATION_SIZE = 100

_PATH = re.compile(r"^gs://([^/]+)/(.*)$", re.DOTALL)
_FILES = FsspecFileSystem()


def parse_gcs_path(gcs_path: str, object_optional: bool = False) -> tuple[str, str]:
    """Return the bucket and the name of an object.

    Args:
      object_optional: whether a path of a bucket, such as `gs://lake/`, is accepted.

    Raises `ValueError` for another path.
    """
    found = _PATH.match(gcs_path)
    if found is None or not (found[2] or object_optional):
        raise ValueError(f"expected a path in the form gs://<bucket>/<object>, got {gcs_path!r}")
    return found[1], found[2]


class GcsIO:
    """Operations on objects.

    Args:
      storage_client, pipeline_options: Beam's; have no effect.  Credentials are those of the environment.
    """

    def __init__(self, storage_client: Any = None, pipeline_options: Any = None) -> None:
        pass

    def open(
        self,
        filename: str,
        mode: str = "r",
        read_buffer_size: int = DEFAULT_READ_BUFFER_SIZE,
        mime_type: str = "application/octet-stream",
    ) -> BinaryIO:
        """Open an object to read ("r", "rb"), or create one ("w", "wb"), which is there once it is closed.

        Args:
          read_buffer_size, mime_type: Beam's; have no effect.
        """
        parse_gcs_path(filename)
        if mode in ("r", "rb"):
            return _FILES.open(filename)
        if mode in ("w", "wb"):
            return _FILES.create(filename)
        raise ValueError(f"GcsIO.open: mode must be 'r', 'rb', 'w' or 'wb', got {mode!r}")

    def delete(self, path: str, recursive: bool = False) -> None:
        """Delete an object, or with `recursive` all whose names begin with a path; one that isn't there is ignored."""
        paths = self.list_prefix(path) if recursive else [path]
        for _, error in self.delete_batch(list(paths)):
            if error is not None:
                raise error

    def delete_batch(self, paths: Iterable[str]) -> list[tuple[str, Exception | None]]:
        """Delete objects, and return for each its path and an error, or None."""
        return [(path, _tried(self._delete_one, path)) for path in paths]

    def _delete_one(self, path: str) -> None:
        parse_gcs_path(path)
        _FILES.delete(path)

    def copy(self, src: str, dest: str) -> None:
        """Copy an object."""
        parse_gcs_path(src), parse_gcs_path(dest)
        _FILES.copy(src, dest)

    def copy_batch(self, src_dest_pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, Exception | None]]:
        """Copy objects, and return for each its paths and an error, or None."""
        return [(source, target, _tried(self.copy, source, target)) for source, target in src_dest_pairs]

    def copytree(self, src: str, dest: str) -> None:
        """Copy all objects below a directory, whose path ends with a slash."""
        if not (src.endswith("/") and dest.endswith("/")):
            raise ValueError(f"GcsIO.copytree: expected paths that end with a slash, got {src!r} and {dest!r}")
        for path in self.list_prefix(src):
            self.copy(path, dest + path[len(src) :])

    def rename(self, src: str, dest: str) -> None:
        """Rename an object: copy it, and delete it."""
        self.copy(src, dest)
        self.delete(src)

    def exists(self, path: str) -> bool:
        """Return whether there is an object."""
        parse_gcs_path(path)
        return _FILES.is_file(path)

    def checksum(self, path: str) -> str:
        """Return a text that changes with the object."""
        return _FILES.checksum(path)

    def size(self, path: str) -> int:
        """Return the size in bytes."""
        return _FILES.size(path)

    def last_updated(self, path: str) -> float:
        """Return when the object was written, in seconds since 1970."""
        (found,) = _FILES.match(path)
        return found.last_updated_in_seconds

    def kms_key(self, path: str) -> str | None:
        """Return the name of the key that encrypts the object, or None for Google's own."""
        fs, stripped = _FILES.resolve(path)
        found: str | None = fs.info(stripped).get("kmsKeyName")
        return found

    def list_prefix(self, path: str, with_metadata: bool = False) -> dict[str, Any]:
        """Return the sizes of all objects whose names begin with a path; or pairs of size and time of change."""
        return dict(self.list_files(path, with_metadata))

    def list_files(self, path: str, with_metadata: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield all objects whose names begin with a path, as `list_prefix` has them."""
        parse_gcs_path(path, object_optional=True)
        for found in _FILES.match(f"{_escaped(path)}**"):
            size = found.size_in_bytes
            yield found.path, (size, found.last_updated_in_seconds) if with_metadata else size

    def create_bucket(self, *args: Any, **kwargs: Any) -> Any:
        """Raise `UnsupportedError`: buckets aren't created by pipelines."""
        raise UnsupportedError("GcsIO.create_bucket: create the bucket with Google's client, google-cloud-storage")

    def get_bucket(self, bucket_name: str, **kwargs: Any) -> Any:
        """Raise `UnsupportedError`: a bucket is an object of Google's client."""
        raise UnsupportedError("GcsIO.get_bucket: look at the bucket with Google's client, google-cloud-storage")


def _tried(call: Any, *arguments: Any) -> Exception | None:
    try:
        call(*arguments)
    except Exception as error:
        return error
    return None


def _escaped(path: str) -> str:
    """Return a path as a pattern that matches it."""
    return re.sub(r"([*?\[])", r"[\1]", path)
