"""Beam's FileSystems, on the local disk and through fsspec; what holds for both was checked against Beam."""

import gzip

import pytest

from penstock.beam.io.compressed_file import CompressedFile
from penstock.beam.io.file_system import BeamIOError
from penstock.beam.io.file_systems import FileSystems


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path):
    """An empty directory on each file system."""
    if request.param == "local":
        yield str(tmp_path)
    else:
        yield "memory:///users"
        if FileSystems.exists("memory:///users"):
            FileSystems.delete(["memory:///users"])


def write(path, content):
    with FileSystems.create(path) as file:
        file.write(content)


def read(path):
    with FileSystems.open(path) as file:
        return file.read()


def matched(*patterns, limits=None):
    """The paths that match each pattern."""
    return [[file.path for file in result.metadata_list] for result in FileSystems.match(patterns, limits)]


def test_files_are_created_with_their_directories_matched_and_read(root):
    a, b = FileSystems.join(root, "new", "a.txt"), FileSystems.join(root, "new", "b.txt")
    write(a, b"one")
    write(b, b"three")
    assert b"one" == read(a)
    assert [[a, b], [b]] == matched(f"{root}/new/*.txt", b)
    assert [[a, b]] == matched(f"{root}/new/")
    assert [[a], []] == matched(f"{root}/new/*", f"{root}/none", limits=[1, None])
    assert 5 == FileSystems.size(b) == FileSystems.metadata(b).size_in_bytes
    assert FileSystems.last_updated(a) > 0
    assert (f"{root}/new", "a.txt") == FileSystems.split(a)


def test_a_match_needs_as_many_limits_as_patterns(root):
    with pytest.raises(BeamIOError, match="a limit for each of 1 patterns, got 2"):
        FileSystems.match([root], [1, 2])


def test_compression_is_detected_by_the_extension(tmp_path):
    path = str(tmp_path / "a.gz")
    write(path, b"one")
    assert b"one" == gzip.decompress((tmp_path / "a.gz").read_bytes()) == read(path)
    with FileSystems.open(path, compression_type="uncompressed") as file:
        assert (tmp_path / "a.gz").read_bytes() == file.read()


def test_files_and_directories_are_copied_and_renamed(root):
    write(f"{root}/in/a", b"one")
    write(f"{root}/in/sub/b", b"two")
    write(f"{root}/out/old", b"old")
    write(f"{root}/c", b"old")
    FileSystems.copy([f"{root}/in", f"{root}/in/a"], [f"{root}/out", f"{root}/c"])
    assert (b"one", b"two", b"one") == (read(f"{root}/out/a"), read(f"{root}/out/sub/b"), read(f"{root}/c"))
    assert not FileSystems.exists(f"{root}/out/old")
    FileSystems.rename([f"{root}/c"], [f"{root}/in/a"])
    assert b"one" == read(f"{root}/in/a")
    assert not FileSystems.exists(f"{root}/c")


def test_operations_on_lists_report_all_that_failed(root):
    write(f"{root}/a", b"one")
    missing, there = f"{root}/missing", f"{root}/a"
    for operation in FileSystems.copy, FileSystems.rename:
        with pytest.raises(BeamIOError, match="operation failed") as failure:
            operation([missing, there], [f"{root}/x", f"{root}/b"])
        assert [(missing, f"{root}/x")] == list(failure.value.exception_details)
        assert b"one" == read(f"{root}/b")
        write(there, b"one")
    with pytest.raises(BeamIOError, match="No files found to delete") as failure:
        FileSystems.delete([missing, there])
    assert [missing] == list(failure.value.exception_details)
    assert not FileSystems.exists(there)
    with pytest.raises(BeamIOError, match="as many destinations as sources, got 1, 0"):
        FileSystems.rename([there], [])


def test_a_file_is_not_copied_onto_itself(root):
    write(f"{root}/a", b"one")
    with pytest.raises(BeamIOError, match="the same file"):
        FileSystems.copy([f"{root}/a"], [f"{root}/a"])
    assert b"one" == read(f"{root}/a")


def test_files_do_not_move_between_file_systems(tmp_path):
    write(f"{tmp_path}/a", b"one")
    with pytest.raises(BeamIOError, match="different file systems"):
        FileSystems.rename([f"{tmp_path}/a"], ["memory:///users/a"])


def test_directories_are_deleted_with_their_content(root):
    write(f"{root}/sub/a", b"one")
    FileSystems.delete([f"{root}/sub"])
    assert not FileSystems.exists(f"{root}/sub/a")
    with pytest.raises(BeamIOError, match="string argument instead of list"):
        FileSystems.delete(root)


def test_a_local_directory_is_made_once(tmp_path):
    path = str(tmp_path / "a" / "b")
    FileSystems.mkdirs(path)
    with pytest.raises(OSError, match="exists already"):
        FileSystems.mkdirs(path)


def test_a_checksum_differs_after_a_change(root):
    write(f"{root}/a", b"one")
    before = FileSystems.checksum(f"{root}/a")
    write(f"{root}/a", b"three")
    assert before != FileSystems.checksum(f"{root}/a")
    for of_a_file in FileSystems.checksum, FileSystems.last_updated:
        with pytest.raises(BeamIOError, match="Path does not exist"):
            of_a_file(f"{root}/missing")


def test_the_file_system_of_a_path_has_the_same_operations(root):
    system = FileSystems.get_filesystem(root)
    write(f"{root}/a", b"one")
    assert system.exists(f"{root}/a")
    assert 3 == system.size(f"{root}/a")


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "deflate", "xz"])
def test_an_open_file_is_compressed_and_decompressed(tmp_path, kind):
    """Closing the content closes the file."""
    path = tmp_path / "a"
    with path.open("wb") as file, CompressedFile(file, kind) as content:
        content.write(b"one\ntwo\n")
    assert file.closed
    with path.open("rb") as file, CompressedFile(file, kind) as content:
        assert b"o" == content.read(1)
        assert [b"ne\n", b"two\n"] == list(content)
        content.seek(4)
        assert (b"two\n", 8) == (content.readline(), content.tell())
    assert file.closed
    with FileSystems.open(str(path), compression_type=kind) as content:
        assert b"one\ntwo\n" == content.read()


def test_the_compression_of_an_open_file_must_be_named(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        for kind in "auto", "uncompressed":
            with pytest.raises(ValueError, match="must be named"):
                CompressedFile(file, kind)
        with pytest.raises(TypeError, match="one of CompressionTypes"):
            CompressedFile(file, "zip")
    with pytest.raises(ValueError, match="an open file"):
        CompressedFile(None)
