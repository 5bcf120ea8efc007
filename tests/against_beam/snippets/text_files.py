"""Text files."""

import gzip
import pathlib

import apache_beam as beam
from apache_beam.io import ReadAllFromText, ReadFromText, ReadFromTextWithFilename, WriteToText, fileio
from apache_beam.io.filesystem import CompressionTypes
from refusals import refused


def _written(pattern="out*"):
    for file in sorted(pathlib.Path().glob(pattern)):
        if file.is_file():
            content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            print(file, content)


def _files():
    pathlib.Path("a.txt").write_text("one\ntwo\n")
    pathlib.Path("b.txt").write_text("three\n\nfour")


def _named(path, line):
    print(pathlib.Path(path).name, line)


def lines_of_files() -> None:
    _files()
    with beam.Pipeline() as p:
        p | ReadFromText("*.txt") | beam.Map(repr) | beam.Map(print)


def lines_with_newlines() -> None:
    _files()
    with beam.Pipeline() as p:
        p | ReadFromText("b.txt", strip_trailing_newlines=False) | beam.Map(repr) | beam.Map(print)


def header_lines() -> None:
    _files()
    with beam.Pipeline() as p:
        p | ReadFromText("*.txt", skip_header_lines=1) | beam.Map(repr) | beam.Map(print)


def a_delimiter() -> None:
    pathlib.Path("a.txt").write_text("a|b|c")
    with beam.Pipeline() as p:
        p | ReadFromText("a.txt", delimiter=b"|") | beam.Map(print)


def windows_newlines() -> None:
    pathlib.Path("a.txt").write_bytes(b"a\r\nb\r\n")
    with beam.Pipeline() as p:
        p | ReadFromText("a.txt") | beam.Map(repr) | beam.Map(print)


def compressed_files() -> None:
    pathlib.Path("a.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    with beam.Pipeline() as p:
        p | ReadFromText("a.txt.gz") | beam.Map(print)


def files_that_are_missing() -> None:
    with refused(OSError), beam.Pipeline() as p:
        p | ReadFromText("absent.txt") | beam.Map(print)


def with_names_of_files() -> None:
    _files()
    with beam.Pipeline() as p:
        p | ReadFromTextWithFilename("a.txt") | beam.MapTuple(_named)


def all_files_of_a_pcollection() -> None:
    _files()
    with beam.Pipeline() as p:
        p | beam.Create(["a.txt", "b.txt"]) | ReadAllFromText() | beam.Map(repr) | beam.Map(print)


def all_files_with_names() -> None:
    _files()
    with beam.Pipeline() as p:
        p | beam.Create(["a.txt"]) | ReadAllFromText(with_filename=True) | beam.MapTuple(_named)


def lines_written() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a", "b"]) | WriteToText("out", file_name_suffix=".txt", num_shards=1)
    _written()


def lines_written_without_a_shard_name() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("out.txt", shard_name_template="")
    _written()


def a_header_and_a_footer() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("out", num_shards=1, header="head", footer="foot")
    _written()


def numbers_written() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, ("a", None)])
            | beam.Map(str)
            | WriteToText("out", num_shards=1, shard_name_template="-SS-of-NN")
        )
    print([file.name for file in pathlib.Path().iterdir()])
    print(sorted(pathlib.Path("out-00-of-01").read_text().splitlines()))


def without_newlines() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("out", num_shards=1, append_trailing_newlines=False)
    _written()


def compressed_output() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("out", file_name_suffix=".gz", num_shards=1)
    _written()


def compression_by_type() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("out", num_shards=1, compression_type=CompressionTypes.GZIP)
    print(gzip.decompress(pathlib.Path("out-00000-of-00001").read_bytes()))


def nothing_written() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | WriteToText("out", num_shards=1)
    _written()


def directories_are_made() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | WriteToText("deep/er/out", num_shards=1)
    _written("deep/er/out*")


def matched_files() -> None:
    _files()
    with beam.Pipeline() as p:
        (
            p
            | fileio.MatchFiles(str(pathlib.Path("*.txt").absolute()))
            | beam.Map(lambda found: (pathlib.Path(found.path).name, found.size_in_bytes))
            | beam.Map(print)
        )


def read_matches() -> None:
    _files()
    with beam.Pipeline() as p:
        (
            p
            | fileio.MatchFiles(str(pathlib.Path("*.txt").absolute()))
            | fileio.ReadMatches()
            | beam.Map(lambda file: file.read_utf8())
            | beam.Map(repr)
            | beam.Map(print)
        )


def match_all() -> None:
    _files()
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([str(pathlib.Path(pattern).absolute()) for pattern in ("a*", "c*")])
            | fileio.MatchAll()
            | beam.Map(lambda found: pathlib.Path(found.path).name)
            | beam.Map(print)
        )


def empty_matches() -> None:
    with refused(Exception), beam.Pipeline() as p:
        p | fileio.MatchFiles("absent", fileio.EmptyMatchTreatment.DISALLOW) | beam.Map(print)
    with beam.Pipeline() as p:
        p | "allowed" >> fileio.MatchFiles("absent*") | beam.Map(print)


def write_to_files() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["ax", "ay", "bz"])
            | fileio.WriteToFiles(
                "out",
                destination=lambda line: line[0],
                sink=lambda destination: fileio.TextSink(),
                file_naming=fileio.destination_prefix_naming(".txt"),
                shards=1,
            )
        )
    for file in sorted(pathlib.Path("out").glob("*.txt")):
        print(file.name.split("-")[0], sorted(file.read_text().splitlines()))


def a_coder_of_lines() -> None:
    class Number(beam.coders.Coder):
        def encode(self, value):
            return str(value).encode()

        def decode(self, encoded):
            return int(encoded)

    pathlib.Path("a.txt").write_text("1\n2\n")
    with beam.Pipeline() as p:
        numbers = p | ReadFromText("a.txt", coder=Number()) | beam.Map(lambda x: x + 1)
        numbers | WriteToText("out", num_shards=1, coder=Number())
    _written()


def patterns_and_a_path_without_a_file() -> None:
    _files()
    with refused(OSError), beam.Pipeline() as p:
        p | beam.Create(["a.txt", "absent*", "absent.txt"]) | ReadAllFromText() | beam.Map(print)


def a_pattern_that_isnt_validated() -> None:
    with beam.Pipeline() as p:
        p | ReadFromText("absent*", validate=False) | beam.Map(print)
    print("nothing")


def a_read_of_no_file_that_is_made_and_not_applied() -> None:
    with refused(OSError):
        ReadFromText("absent.txt")


def a_limit_beside_a_number_of_shards() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a", "b", "c"]) | WriteToText("out", num_shards=1, max_records_per_shard=1)
    _written()
