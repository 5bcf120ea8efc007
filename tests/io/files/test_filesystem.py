"""Patterns and paths, on the local disk and through fsspec."""

import subprocess
import sys

import pytest

from penstock.io.files.filesystem import EmptyMatchTreatment, FileMetadata, filesystem_for
from penstock.sdk.errors import SourceError


def names(pattern):
    """The paths that match a pattern."""
    return [file.path for file in filesystem_for(pattern).match(pattern)]


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path):
    """A directory to fill, on each file system."""
    if request.param == "local":
        yield str(tmp_path)
    else:
        yield "memory:///tree"
        filesystem_for("memory:///tree").delete("memory:///tree")


def fill(root, *paths):
    """Make files that have their own path as content."""
    fs = filesystem_for(root)
    for path in paths:
        fs.mkdirs(f"{root}/{path}".rpartition("/")[0])
        with fs.create(f"{root}/{path}") as file:
            file.write(path.encode())


def test_a_pattern_matches_files_in_order_and_no_directories(root):
    """`*` stays within a directory, `**` crosses any number."""
    fill(root, "b.txt", "a.txt", "c.csv", "sub/d.txt", "sub/sub/e.txt")
    assert [f"{root}/a.txt", f"{root}/b.txt"] == names(f"{root}/*.txt")
    assert [f"{root}/a.txt", f"{root}/b.txt", f"{root}/c.csv"] == names(f"{root}/*")
    assert [f"{root}/sub/d.txt"] == names(f"{root}/*/*.txt")
    assert [f"{root}/sub/d.txt", f"{root}/sub/sub/e.txt"] == names(f"{root}/sub/**/*.txt")
    assert [f"{root}/sub/d.txt", f"{root}/sub/sub/e.txt"] == names(f"{root}/sub/**.txt")
    assert [f"{root}/c.csv", f"{root}/sub/d.txt"] == names(f"{root}/**[cd].*")
    assert [f"{root}/a.txt"] == names(f"{root}/[!b].txt")
    assert [] == names(f"{root}/none")


def test_what_is_staged_and_not_committed_never_matches(root):
    """With any pattern."""
    fill(root, "a", ".out.penstock-1/b")
    assert [f"{root}/a"] == names(f"{root}/**")
    assert [f"{root}/a"] == names(f"{root}/*")


def test_names_with_the_characters_of_patterns_are_no_patterns(root):
    """A file or a directory is renamed, copied and removed alone."""
    fill(root, "a[1]", "a1", "in[1]/b", "in1/c")
    fs = filesystem_for(root)
    fs.copy(f"{root}/a[1]", f"{root}/copied")
    fs.rename(f"{root}/a[1]", f"{root}/a*")
    fs.copy(f"{root}/in[1]", f"{root}/out")
    assert ["a*", "a1", "copied", "in1/c", "in[1]/b", "out/b"] == [
        name[len(root) + 1 :] for name in names(f"{root}/**")
    ]
    fs.delete(f"{root}/a*")
    fs.delete(f"{root}/in[1]")
    assert ["a1", "copied", "in1/c", "out/b"] == [name[len(root) + 1 :] for name in names(f"{root}/**")]


def test_metadata_has_the_size_and_the_time(root):
    """Seconds since 1970."""
    fill(root, "abc")
    (file,) = filesystem_for(root).match(f"{root}/abc")
    assert FileMetadata(f"{root}/abc", 3, file.last_updated_in_seconds) == file
    assert file.last_updated_in_seconds > 1.6e9


def test_renaming_replaces_and_deleting_what_is_gone_is_fine(root):
    """The two that a commit is made of."""
    fill(root, "a", "b")
    fs = filesystem_for(root)
    fs.rename(f"{root}/a", f"{root}/b")
    assert [f"{root}/b"] == names(f"{root}/*")
    with fs.open(f"{root}/b") as file:
        file.seek(0)
        assert b"a" == file.read()
    for _ in range(2):
        fs.delete(f"{root}/b")
    assert not fs.exists(f"{root}/b")


def test_a_file_whose_name_looks_like_a_pattern_can_be_named(tmp_path):
    """The name itself is tried first."""
    fill(str(tmp_path), "a[1].txt")
    assert [f"{tmp_path}/a[1].txt"] == names(f"{tmp_path}/a[1].txt")


def test_a_file_url_is_a_local_path(tmp_path):
    """And stays one in what it matches."""
    fill(str(tmp_path), "a")
    assert [f"file://{tmp_path}/a"] == names(f"file://{tmp_path}/*")


def test_an_unknown_protocol_says_so():
    """With what fsspec has to say about it."""
    with pytest.raises(SourceError, match="'nosuch://a' can't be reached: Protocol not known: nosuch"):
        names("nosuch://a")


def test_what_an_empty_match_means_depends_on_the_treatment():
    """A wildcard may match nothing where a name may not."""
    allow = EmptyMatchTreatment.allow_empty_match
    assert [True, True] == [allow(pattern, "ALLOW") for pattern in ("a", "a*")]
    assert [False, True] == [allow(pattern, "ALLOW_IF_WILDCARD") for pattern in ("a", "a*")]
    assert [False, False] == [allow(pattern, "DISALLOW") for pattern in ("a", "a*")]
    with pytest.raises(ValueError, match="got 'MAYBE'"):
        allow("a", "MAYBE")


def test_local_files_need_no_heavy_package():
    """Importing every module of penstock.io imports none of the optional packages."""
    code = (
        "import sys, penstock.io; "
        "print([m for m in ('fsspec', 'pyarrow', 'fastavro', 'zstandard', 'pandas') if m in sys.modules])"
    )
    assert (
        "[]" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )
