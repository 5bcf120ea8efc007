"""The working directory: absolute forms of relative paths, and the error if the directory was deleted."""

from __future__ import annotations

import os

from ..errors import WorkingDirectoryError

_ADVICE = "start the program in a directory that exists"


def working_directory(needed_by: str) -> str:
    """Return the working directory.  Raises `WorkingDirectoryError`, which names what needs it, if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise WorkingDirectoryError(
            f"{needed_by} needs the working directory of this process, which was deleted; {_ADVICE}"
        ) from None


def absolute(path: str) -> str:
    """Return the absolute form of a local path; an absolute one doesn't need the working directory.

    Raises `WorkingDirectoryError`.

    >>> absolute("/out/part")
    '/out/part'
    """
    if os.path.isabs(path):
        return path
    try:
        return os.path.join(os.getcwd(), path)
    except FileNotFoundError:
        raise WorkingDirectoryError(
            f"{path!r} is relative to the working directory of this process, which was deleted; give an absolute path, "
            f"or {_ADVICE}"
        ) from None
