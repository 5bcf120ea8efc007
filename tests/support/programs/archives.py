"""Archives of tar, unpacked by any Python 3.11: that of Debian 12, 3.11.2, has no filters yet."""

from __future__ import annotations

import pathlib
import tarfile


def unpack(archive: tarfile.TarFile, directory: pathlib.Path) -> None:
    """Unpack an archive that is known; absolute paths and links out of the directory are refused where they can be."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(directory)
