"""Beam's `GcsIO` and `GCSFileSystem`, on a server."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.beam.io.file_system import GCSFileSystem
from penstock.beam.io.file_systems import FileSystems
from penstock.beam.io.gcp.gcs import GcsIO, parse_gcs_path


@pytest.fixture
def words(directory: str) -> str:
    """The path of an object."""
    with GcsIO().open(f"{directory}/in/words.txt", "w") as file:
        file.write(b"to be")
    return f"{directory}/in/words.txt"


def test_an_object_is_written_read_and_deleted(words: str) -> None:
    gcs = GcsIO()
    with gcs.open(words) as file:
        assert b"to be" == file.read()
    assert (True, 5) == (gcs.exists(words), gcs.size(words))
    assert gcs.last_updated(words) > 1.7e9
    assert gcs.kms_key(words) is None
    gcs.delete(words)
    gcs.delete(words)
    assert not gcs.exists(words)


def test_objects_are_copied_renamed_and_listed(words: str, directory: str) -> None:
    gcs = GcsIO()
    gcs.copytree(f"{directory}/in/", f"{directory}/out/")
    gcs.rename(f"{directory}/out/words.txt", f"{directory}/out/a[1].txt")

    assert {words: 5, f"{directory}/out/a[1].txt": 5} == gcs.list_prefix(directory)
    assert [f"{directory}/out/a[1].txt"] == list(gcs.list_prefix(f"{directory}/out/a[", with_metadata=True))
    assert gcs.checksum(words)
    ((source, target, error),) = gcs.copy_batch([(f"{directory}/none", f"{directory}/out/b")])
    assert (f"{directory}/none", f"{directory}/out/b") == (source, target)
    assert isinstance(error, FileNotFoundError)
    gcs.delete(f"{directory}/", recursive=True)
    assert {} == gcs.list_prefix(directory)


def test_the_file_system_is_beams(words: str, directory: str) -> None:
    """By its class, and by `FileSystems`."""
    for files in (GCSFileSystem(None), FileSystems):
        (result,) = files.match([f"{directory}/in/*"])
        assert [words] == [found.path for found in result.metadata_list]
        assert files.exists(words)
        with files.open(words) as file:
            assert b"to be" == file.read()
    assert f"{directory}/in/words.txt" == GCSFileSystem(None).join(directory, "in", "words.txt")


@pytest.mark.parametrize(
    ("path", "optional", "parts"),
    [
        ("gs://lake/a/b", False, ("lake", "a/b")),
        ("gs://lake/", True, ("lake", "")),
        ("gs://lake/", False, None),
        ("gs://", True, None),
        ("/lake/a", False, None),
    ],
)
def test_paths_are_split(path: str, optional: bool, parts: Any) -> None:
    if parts is not None:
        assert parts == parse_gcs_path(path, optional)
        return
    with pytest.raises(ValueError, match="expected a path in the form gs://<bucket>/<object>"):
        parse_gcs_path(path, optional)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode must be 'r', 'rb', 'w' or 'wb', got 'a'"):
        GcsIO().open("gs://lake/a", "a")
