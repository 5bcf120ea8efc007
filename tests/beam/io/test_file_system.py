"""FileSystem, which users implement: `FileSystems` and the transforms of files use it for its scheme."""

import gzip
import io
import os

import pytest

import penstock as beam
from penstock.beam.io.compressed_file import CompressedFile
from penstock.beam.io.counting_source import CountingSource
from penstock.beam.io.file_system import BeamIOError, FileSystem, LocalFileSystem
from penstock.beam.io.file_systems import FileSystems
from penstock.beam.io.streams import Downloader, DownloaderStream, Uploader, UploaderStream
from penstock.io.files.filesystem import FileMetadata
from penstock.testing import assert_that, equal_to

CONTENTS: dict[str, bytes] = {}


class _Written(io.BytesIO):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        if not self.closed:
            CONTENTS[self.path] = self.getvalue()
        super().close()


class Shelf(FileSystem):
    """Files in a dict of this process."""

    @classmethod
    def scheme(cls):
        return "shelf"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def mkdirs(self, path):
        raise BeamIOError("a shelf has no directories")

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        return [self.metadata(path) for path in sorted(CONTENTS) if path.startswith(dir_or_prefix)]

    def create(self, path, mime_type="", compression_type="auto"):
        assert "uncompressed" == compression_type
        return _Written(path)

    def open(self, path, mime_type="", compression_type="auto"):
        return io.BytesIO(CONTENTS[path])

    def copy(self, source_file_names, destination_file_names):
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            CONTENTS[destination] = CONTENTS[source]

    def rename(self, source_file_names, destination_file_names):
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            CONTENTS[destination] = CONTENTS.pop(source)

    def exists(self, path):
        return path in CONTENTS

    def size(self, path):
        return len(CONTENTS[path])

    def last_updated(self, path):
        return 0.0

    def metadata(self, path):
        return FileMetadata(path, len(CONTENTS[path]))

    def delete(self, paths):
        for path in paths:
            del CONTENTS[path]


@pytest.fixture(autouse=True)
def _empty():
    CONTENTS.clear()


def test_pipelines_read_and_write_on_a_file_system_of_the_user():
    with beam.Pipeline() as p:
        _ = p | beam.Create(["b", "a"]) | beam.io.WriteToText("shelf://out/lines.txt", shard_name_template="")
    assert {"shelf://out/lines.txt": b"b\na\n"} == CONTENTS
    with beam.Pipeline() as p:
        assert_that(p | beam.io.ReadFromText("shelf://out/*.txt"), equal_to(["a", "b"]))


def test_file_systems_uses_it_and_gives_it_whole_paths():
    assert isinstance(FileSystems.get_filesystem("shelf://a"), Shelf)
    CONTENTS["shelf://a/b"] = b"bytes"
    FileSystems.copy(["shelf://a/b"], ["shelf://a/c"])
    FileSystems.rename(["shelf://a/b"], ["shelf://a/d"])
    [found] = FileSystems.match(["shelf://a/*"])
    assert ["shelf://a/c", "shelf://a/d"] == [each.path for each in found.metadata_list]
    FileSystems.delete(["shelf://a/c"])
    assert (5, False) == (FileSystems.size("shelf://a/d"), FileSystems.exists("shelf://a/c"))
    assert "shelf://a/b" == FileSystems.join("shelf://a/", "b")
    with pytest.raises(NotImplementedError, match=r"Shelf\.checksum"):
        FileSystems.checksum("shelf://a/d")


def test_it_gets_the_options_of_the_program():
    given = []

    class Noting(Shelf):
        def __init__(self, pipeline_options):
            given.append(pipeline_options)

        @classmethod
        def scheme(cls):
            return "noting"

    FileSystems.set_options("options")
    try:
        FileSystems.get_filesystem("noting://a")
        assert FileSystems.get_filesystem("noting://a") is FileSystems.get_filesystem("noting://b")
        assert ["options"] == given
    finally:
        FileSystems.set_options(None)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("shelf://a/*", ["shelf://a/1"]),
        ("shelf://a/", ["shelf://a/1"]),
        ("shelf://a/**", ["shelf://a/1", "shelf://a/b/12", "shelf://a/b/21"]),
        ("shelf://a/?/[!2]*", ["shelf://a/b/12"]),
        ("shelf://a/b/21", ["shelf://a/b/21"]),
        ("shelf://a/b/3", []),
    ],
)
@pytest.mark.parametrize("has_dirs", [True, False])
def test_the_base_class_matches_by_listing(pattern, paths, has_dirs, monkeypatch):
    monkeypatch.setattr(Shelf, "has_dirs", lambda _: has_dirs)
    for path in "shelf://a/1", "shelf://a/b/12", "shelf://a/b/21":
        CONTENTS[path] = b""
    assert paths == [each.path for each in Shelf(None).match([pattern])[0].metadata_list]
    assert len(paths[:1]) == len(Shelf(None).match([pattern], [1])[0].metadata_list)


def test_the_local_disk_is_a_file_system_too(tmp_path):
    system = LocalFileSystem(None)
    assert isinstance(FileSystems.get_filesystem(str(tmp_path)), LocalFileSystem)
    with system.create(str(tmp_path / "new" / "a1")) as file:
        file.write(b"1")
    (tmp_path / "new" / "a2").mkdir()
    system.delete([str(tmp_path / "new" / "a*")])
    assert [] == os.listdir(tmp_path / "new")
    with pytest.raises(BeamIOError, match="Match operation failed") as failure:
        system.match([None])
    assert [None] == list(failure.value.exception_details)


def test_an_unknown_scheme_is_an_error():
    with pytest.raises(ValueError, match=r"Unable to get filesystem .* Path specified: nothing://a"):
        FileSystems.get_filesystem("nothing://a")
    with pytest.raises(BeamIOError, match="Unable to get the Filesystem"):
        FileSystems.match([None])


def test_seeking_in_a_compressed_file_stays_within_it():
    file = CompressedFile(io.BytesIO(gzip.compress(b"0123456789")))
    positions = []
    for offset, whence in (4, 0), (2, 1), (-9, 1), (-3, 2), (5, 2), (99, 0), (-99, 1):
        file.seek(offset, whence)
        positions.append(file.tell())
    assert [4, 6, 0, 7, 10, 10, 0] == positions
    assert (True, True, False, b"0123456789") == (file.seekable, file.readable(), file.writeable(), file.read())
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 3)
    with pytest.raises(ValueError, match="for writing"):
        file.write(b"")


def test_a_compressed_file_that_is_written_tells_its_position(tmp_path):
    with open(tmp_path / "a.gz", "wb") as raw, CompressedFile(raw) as file:
        file.write(b"abc")
        assert (3, False) == (file.tell(), file.seekable)
        with pytest.raises(ValueError, match="for reading"):
            file.readline()
    assert b"abc" == gzip.decompress((tmp_path / "a.gz").read_bytes())
    with open(tmp_path / "a.gz", "rb") as raw:
        raw.read(1)
        with pytest.raises(ValueError, match="position 0, got 1"):
            CompressedFile(raw)


class _Bytes(Downloader, Uploader):
    def __init__(self, data=b""):
        self.data, self.finished = data, 0

    @property
    def size(self):
        return len(self.data)

    def get_range(self, start, end):
        return self.data[start : min(end, start + 2)]

    def put(self, data):
        self.data += bytes(data)

    def finish(self):
        self.finished += 1


def test_streams_download_and_upload_what_is_asked_for():
    stream = DownloaderStream(_Bytes(b"abcde"))
    assert (b"a", b"bcde", 5, b"") == (stream.read(1), stream.readall(), stream.tell(), stream.read())
    assert (3, b"de") == (stream.seek(-2, os.SEEK_END), stream.read())
    assert (0, 5) == (stream.seek(-9), stream.seek(9))
    target = _Bytes()
    with UploaderStream(target) as writer:
        assert (2, 2) == (writer.write(b"ab"), writer.tell())
    writer.close()
    assert (b"ab", 1) == (target.data, target.finished)


def test_a_counting_source_is_split_into_ranges():
    splits = list(CountingSource(10).split(4))
    assert [(0, 4), (4, 8), (8, 10)] == [(split.start_position, split.stop_position) for split in splits]
    with beam.Pipeline() as p:
        assert_that(p | beam.io.Read(CountingSource(10)), equal_to(range(10)))


def test_a_subclass_of_the_local_file_system_has_a_scheme_of_its_own(tmp_path):
    class Disk(LocalFileSystem):
        @classmethod
        def scheme(cls):
            return "disk"

        def open(self, path, *arguments, **named):
            return super().open(path.replace("disk://", f"{tmp_path}/"), *arguments, **named)

    (tmp_path / "a").write_text("one")
    assert b"one" == FileSystems.open("disk://a").read()
    assert not isinstance(FileSystems.get_filesystem(str(tmp_path)), Disk)
