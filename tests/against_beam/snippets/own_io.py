"""File systems, sources and sinks that users write themselves."""

import gzip
import io
import os
import pathlib

import apache_beam as beam
from apache_beam.io import filebasedsink, filesystemio
from apache_beam.io.filesystem import CompressedFile, CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.io.unbounded_source import CheckpointMark, UnboundedReader, UnboundedSource
from apache_beam.io.utils import CountingSource
from apache_beam.io.watch import PollResult, Watch
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from refusals import refused


class Disk(LocalFileSystem):
    """The directory `disk`, under a scheme."""

    @classmethod
    def scheme(cls):
        return "disk"

    def __init__(self, pipeline_options):
        super().__init__(pipeline_options)
        self.local = LocalFileSystem(pipeline_options)

    def _path(self, path):
        return path.replace("disk://", "disk/")

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def open(self, path, *arguments, **named):
        return self.local.open(self._path(path), *arguments, **named)

    def create(self, path, *arguments, **named):
        return self.local.create(self._path(path), *arguments, **named)

    def exists(self, path):
        return self.local.exists(self._path(path))

    def metadata(self, path):
        found = self.local.metadata(self._path(path))
        return FileMetadata(path, found.size_in_bytes, found.last_updated_in_seconds)

    def match(self, patterns, limits=None):
        found = self.local.match([self._path(pattern) for pattern in patterns], limits)
        for result in found:
            for each in result.metadata_list:
                each.__init__(each.path.replace("disk/", "disk://"), each.size_in_bytes, each.last_updated_in_seconds)
        return found


def files_under_a_scheme() -> None:
    with FileSystems.create("disk://a.txt") as file:
        file.write(b"one\ntwo\n")
    print(type(FileSystems.get_filesystem("disk://a.txt")).__name__, FileSystems.exists("disk://a.txt"))
    with beam.Pipeline() as p:
        p | beam.io.ReadFromText("disk://a.txt") | beam.Map(print)


def unknown_schemes() -> None:
    with refused(ValueError):
        FileSystems.get_filesystem("nothing://a.txt")


def patterns_as_regular_expressions() -> None:
    for pattern in "a/*", "**/b", "c?[!d]", "[^e]", "[f", "g.h":
        print(pattern, FileSystem.translate_pattern(pattern))


def operations_on_local_files() -> None:
    system = LocalFileSystem(None)
    a1, a2, b, c = (system.join(os.getcwd(), name) for name in ("a1", "a2", "b", "c"))
    for path in a1, a2:
        with system.create(path) as file:
            file.write(path.encode()[-2:])
    system.copy([a1], [b])
    system.rename([a2], [c])
    system.delete([system.join(os.getcwd(), "a*")])
    print(sorted(os.listdir()), system.size(b), system.checksum(c), system.exists(a1), system.scheme())
    for failing in (lambda: system.rename([a1], [b]), lambda: system.delete([a1]), lambda: system.match([None])):
        try:
            failing()
        except OSError as error:
            print(str(error).partition(" with")[0], len(error.exception_details))


def seeking_in_compressed_files() -> None:
    pathlib.Path("a.gz").write_bytes(gzip.compress(b"0123456789"))
    with open("a.gz", "rb") as raw:
        file = CompressedFile(raw)
        print(file.seekable, file.readable(), file.writeable())
        for offset, whence in (4, 0), (2, 1), (-9, 1), (-3, 2), (99, 0), (-99, 1):
            file.seek(offset, whence)
            print(offset, whence, file.tell())
        print(file.readline())


def writing_compressed_files() -> None:
    with open("a.gz", "wb") as raw:
        file = CompressedFile(raw, CompressionTypes.GZIP)
        print(file.write(b"abc"), file.tell(), file.seekable)
        file.close()
    print(gzip.decompress(pathlib.Path("a.gz").read_bytes()), CompressionTypes.mime_type(CompressionTypes.GZIP))


class _Bytes(filesystemio.Downloader):
    size = 5

    def get_range(self, start, end):
        return b"abcde"[start:end]


def streams_of_downloads() -> None:
    stream = filesystemio.DownloaderStream(_Bytes())
    print(stream.mode, stream.read(2), stream.tell(), stream.seek(-1, io.SEEK_END), stream.read(), stream.readable())


class Lines(filebasedsink.FileBasedSink):
    """Values between brackets."""

    def __init__(self, path):
        super().__init__(path, coder=beam.coders.coders.ToBytesCoder(), file_name_suffix=".txt")

    def open(self, temp_path):
        handle = super().open(temp_path)
        handle.write(b"(")
        return handle

    def write_encoded_record(self, file_handle, encoded_value):
        file_handle.write(encoded_value)

    def close(self, file_handle):
        file_handle.write(b")")
        super().close(file_handle)


def steps_of_a_file_based_sink() -> None:
    sink = Lines("out/a")
    os.mkdir("out")
    begun = sink.initialize_write()
    results = []
    for uid in "1", "2":
        writer = sink.open_writer(begun, uid)
        writer.write(uid)
        results.append(writer.close())
    prepared = sink.pre_finalize(begun, results)
    for _ in range(2):
        print([os.path.basename(path) for path in sink.finalize_write(begun, results, prepared)])
    print({path.name: path.read_text() for path in sorted(pathlib.Path("out").iterdir())})


def display_data_of_files() -> None:
    for each in Lines("out/a"), beam.io.ReadFromAvro("in*", validate=False):
        items = {item.key: item.value for item in DisplayData.create_from(each).items}
        print(sorted(items.items()))


def numbers_of_a_counting_source() -> None:
    with beam.Pipeline() as p:
        p | beam.io.Read(CountingSource(3)) | beam.Map(print)
    print([(part.start_position, part.stop_position) for part in CountingSource(10).split(4)])


class Mark(CheckpointMark):
    """A position."""

    def __init__(self, position):
        self.position = position


class Letters(UnboundedReader):
    """Some letters."""

    def __init__(self, position):
        self.position = position

    def start(self):
        return self.advance()

    def advance(self):
        self.position += 1
        return self.position < 3

    def get_current(self):
        return "abc"[self.position]

    def get_current_timestamp(self):
        return Timestamp(self.position)

    def get_watermark(self):
        return Timestamp(self.position) if self.position < 3 else MAX_TIMESTAMP

    def get_checkpoint_mark(self):
        return Mark(self.position)


class Alphabet(UnboundedSource):
    """A source of letters."""

    def split(self, desired_num_splits, options=None):
        return [self]

    def create_reader(self, options, checkpoint_mark):
        return Letters(-1 if checkpoint_mark is None else checkpoint_mark.position)

    def get_checkpoint_mark_coder(self):
        return beam.coders.PickleCoder()

    def default_output_coder(self):
        return beam.coders.StrUtf8Coder()


def records_of_an_unbounded_source() -> None:
    with beam.Pipeline() as p:
        letters = p | beam.io.Read(Alphabet())
        print(letters.is_bounded, letters.element_type)
        letters | beam.Map(lambda letter, t=beam.DoFn.TimestampParam: (letter, t)) | beam.Map(print)


def _poll(element) -> PollResult[str]:
    return PollResult.complete([TimestampedValue("a", 1), TimestampedValue("b", 2), TimestampedValue("a", 3)])


def outputs_of_watch_with_a_cursor() -> None:
    with beam.Pipeline() as p:
        found = p | beam.Create(["x"]) | Watch(_poll, poll_interval=1, timestamp_cursor=True)
        found | beam.Map(print)
