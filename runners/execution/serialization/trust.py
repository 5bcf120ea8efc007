"""Trust in a path of the local disk: detect that another user can write or replace it.

Reading a checkpoint unpickles it, which runs code in it.  A path is trusted only if no other user can change any
directory in it: neither one above it nor one with a symbolic link that it passes.
"""

from __future__ import annotations

import errno
import os
import stat

from ....sdk.process.working_directory import absolute

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The number of symbolic links that Linux follows.
_MOST_LINKS = 40


def why_untrusted(path: str) -> str | None:
    """Return the reason why another user could change the files at `path`; None if none but root can.

    A directory with the sticky bit, such as `/tmp`, may be above it: there, users can only replace their own files.
    """
    us = os.geteuid()
    at, pending, links = "/", _steps(absolute(path)), 0
    while pending:
        if reason := _why_replaceable(at, us):
            return reason
        step = pending.pop()
        if step == "..":
            at = os.path.dirname(at)
            continue
        following = os.path.join(at, step)
        status = os.lstat(following)
        if not stat.S_ISLNK(status.st_mode):
            at = following
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if status.st_uid not in (us, 0) and os.lstat(at).st_mode & _OTHERS:
            return f"{following}, a symbolic link on the way to it, belongs to user {status.st_uid}"
        target = os.readlink(following)
        pending += _steps(target)
        if target.startswith("/"):
            at = "/"
    status = os.lstat(at)
    if status.st_uid != us:
        return f"{at} belongs to user {status.st_uid}, and this process runs as user {us}"
    if status.st_mode & _OTHERS:
        return f"{at} can be written by others (its mode is {stat.S_IMODE(status.st_mode):04o})"
    return None


def _why_replaceable(directory: str, us: int) -> str | None:
    status = os.lstat(directory)
    if status.st_uid not in (us, 0):
        return f"{directory}, above it, belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS and not status.st_mode & stat.S_ISVTX:
        by = "all users" if status.st_mode & stat.S_IWOTH else "its group"
        mode = f"its mode is {stat.S_IMODE(status.st_mode):04o}, without the sticky bit"
        return f"{directory}, above it, can be written by {by} ({mode})"
    return None


def _steps(path: str) -> list[str]:
    """Return the names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]
