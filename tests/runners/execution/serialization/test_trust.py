"""Paths that other users could write to or replace."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.serialization.trust import why_untrusted
from penstock.runners.execution.spilling.rocksdb import SpillDatabase
from penstock.sdk.errors import UntrustedSnapshotError


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory below another, both of this user alone."""
    made = tmp_path / "above" / "kept"
    made.mkdir(parents=True)
    made.parent.chmod(0o755)
    return made


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_directory_that_others_can_write_to_is_not_trusted(directory: pathlib.Path, mode: int) -> None:
    """Sticky or not: what isn't there yet may be put there."""
    directory.chmod(mode)
    assert f"{directory} can be written by others (its mode is {mode:04o})" == why_untrusted(str(directory))


@pytest.mark.parametrize(("mode", "by"), [(0o777, "all users"), (0o757, "all users"), (0o775, "its group")])
def test_a_directory_that_others_can_replace_is_not_trusted(directory: pathlib.Path, mode: int, by: str) -> None:
    """By renaming it in a directory above; not in one that is sticky, as /tmp is."""
    directory.parent.chmod(mode)
    shown = f"(its mode is {mode:04o}, without the sticky bit)"
    assert f"{directory.parent}, above it, can be written by {by} {shown}" == why_untrusted(str(directory))
    directory.parent.chmod(mode | 0o1000)
    assert why_untrusted(str(directory)) is None


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_link_that_others_can_replace_is_not_trusted(
    directory: pathlib.Path, tmp_path: pathlib.Path, is_relative: bool
) -> None:
    """Wherever it is in the path: what counts is the directory that it is in, and those above that."""
    shared = tmp_path / "shared"
    shared.mkdir()
    os.symlink("../above" if is_relative else directory.parent, shared / "link")
    path = str(shared / "link" / "kept")
    assert why_untrusted(path) is None
    shared.chmod(0o777)
    shown = "(its mode is 0777, without the sticky bit)"
    assert f"{shared}, above it, can be written by all users {shown}" == why_untrusted(path)
    shared.chmod(0o1777)
    assert why_untrusted(path) is None


def test_what_a_link_leads_to_is_looked_at_as_well(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """And all directories above it, by however many links."""
    (tmp_path / "first").symlink_to(tmp_path / "second")
    (tmp_path / "second").symlink_to(directory)
    directory.parent.chmod(0o777)
    reason = why_untrusted(str(tmp_path / "first"))
    assert reason is not None
    assert reason.startswith(f"{directory.parent}, above it, can be written by all users")


def test_a_directory_on_the_way_counts_even_if_the_path_leaves_it_again(
    directory: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It may be replaced by a link to elsewhere, and then '..' is there."""
    shared = tmp_path / "shared" / "inner"
    shared.mkdir(parents=True)
    shared.parent.chmod(0o777)
    assert why_untrusted(f"{shared}/../../above/kept") is not None
    assert why_untrusted(f"{tmp_path}/shared/../above/kept") is not None
    shared.parent.chmod(0o755)
    assert why_untrusted(f"{shared}/../../above/kept") is None


def test_links_in_a_circle_end(tmp_path: pathlib.Path) -> None:
    """As the system ends them."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        why_untrusted(str(tmp_path / "a"))


def test_a_path_may_be_relative(directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It means the same as the absolute one."""
    monkeypatch.chdir(directory.parent)
    assert why_untrusted("kept") is None
    directory.parent.chmod(0o777)
    assert why_untrusted("kept") == why_untrusted(str(directory)) != None  # noqa: E711


def test_a_directory_of_another_user_is_not_trusted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process runs as another user."""
    us = os.stat(tmp_path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    reason = why_untrusted(str(tmp_path))
    assert reason is not None
    assert f"belongs to user {us}" in reason


def test_a_link_of_another_user_in_a_sticky_directory_is_not_trusted(
    directory: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may have it lead elsewhere."""
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "link").symlink_to(directory)
    real = os.lstat

    def anothers(path: str) -> os.stat_result:
        status = real(path)
        if not path.endswith("/link"):
            return status
        return os.stat_result([*status[:4], status.st_uid + 1, *status[5:]])

    monkeypatch.setattr(os, "lstat", anothers)
    reason = why_untrusted(str(sticky / "link"))
    assert f"{sticky}/link, a symbolic link on the way to it, belongs to user {os.getuid() + 1}" == reason


@pytest.mark.parametrize("url", ["{}", "file://{}", "local://{}", "dir::local://{}"])
def test_a_local_directory_is_looked_at_however_it_is_named(directory: pathlib.Path, url: str) -> None:
    """Fsspec has names of its own for the local disk."""
    path = url.format(directory)
    assert is_trusted(path)
    directory.chmod(0o777)
    assert not is_trusted(path)


def is_trusted(path: str) -> bool:
    """The answer of another process: fsspec keeps a thread for a file system within another one."""
    code = (
        "import sys; from penstock.runners.execution.checkpoints.storage import disk_of; "
        "print(disk_of(sys.argv[1]).why_untrusted(sys.argv[1]))"
    )
    asked = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    return asked.stdout.strip() == "None"


def test_a_store_below_a_directory_that_its_group_can_write_to_is_refused(directory: pathlib.Path) -> None:
    """Before anything is read or written; the error names the directory that is at fault and what to do."""
    directory.parent.chmod(0o775)
    store = SnapshotStore(disk_of(str(directory)), str(directory))
    with pytest.raises(UntrustedSnapshotError, match=rf"{directory.parent}, above it, .*by its group.*chmod"):
        store.take_over()
    SnapshotStore(disk_of(str(directory)), str(directory), allow_untrusted=True).take_over()


def test_state_is_not_spilled_where_others_can_replace_it(directory: pathlib.Path) -> None:
    """It is unpickled again; nothing is left behind."""
    directory.chmod(0o777)
    database = SpillDatabase(str(directory))
    with pytest.raises(UntrustedSnapshotError, match=r"can't be spilled to .*TMPDIR"):
        database.rocksdb
    assert [] == os.listdir(directory)
