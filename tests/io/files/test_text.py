"""Reading lines: every line once, however the file is cut, and errors that say where."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.files import line_blocks as line_blocks_module
from penstock.io.files.compression import open_for_reading, open_for_writing
from penstock.io.files.text import TextSource, WriteToText
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.errors import SourceError


class UpperCoder:
    """A coder to be seen working."""

    def decode(self, encoded):
        return encoded.decode().upper()


def read(source, splits=1):
    """All values that a source has, split by split."""
    return [value for split in source.split(splits) for bundle in source.read_bundles(split) for value in bundle.values]


def lines_of(content, delimiter="\n"):
    """Return the expected lines: the file as one string, split at delimiters."""
    lines = content.split(delimiter)
    return lines[:-1] if lines[-1] == "" else lines


@pytest.fixture
def written(tmp_path):
    """Writes bytes into a file and gives its path."""

    def write(content, name="lines.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@settings(max_examples=300, deadline=None)
@given(
    content=st.text(alphabet="ab\nüx", max_size=60),
    splits=st.integers(1, 80),
    block=st.integers(1, 9),
    header=st.integers(0, 3),
)
def test_any_number_of_splits_gives_every_line_exactly_once(tmp_path_factory, content, splits, block, header):
    """Lines belong to the split they start in, wherever it and the blocks end."""
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_bytes(content.encode())
    source = TextSource(path, min_bundle_size=1, skip_header_lines=header)
    defaults = line_blocks_module.line_blocks.__defaults__
    line_blocks_module.line_blocks.__defaults__ = (block,)
    try:
        assert lines_of(content)[header:] == read(source, splits)
    finally:
        line_blocks_module.line_blocks.__defaults__ = defaults


@settings(max_examples=200, deadline=None)
@given(content=st.text(alphabet="a|-\n", max_size=40), splits=st.integers(1, 50))
def test_a_delimiter_of_several_bytes_may_lie_across_a_cut(tmp_path_factory, content, splits):
    """Cuts within a delimiter neither lose nor double a line."""
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_bytes(content.encode())
    source = TextSource(path, min_bundle_size=1, delimiter=b"|-")
    assert lines_of(content, "|-") == read(source, splits)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(st.tuples(st.text(alphabet="a\r", max_size=4), st.sampled_from(["\n", "\r\n"])), max_size=8))
def test_a_line_end_of_windows_is_stripped_whole(tmp_path_factory, lines):
    """One carriage return before the newline belongs to the line end; others to the line."""
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    content = "".join(line + end for line, end in lines).encode()
    path.write_bytes(content)
    expected = [line.decode().removesuffix("\r") for line in content.split(b"\n")[:-1]]
    assert expected == read(TextSource(path))
    assert [line.upper() for line in expected] == read(TextSource(path, coder=UpperCoder()))


def test_line_ends_stay_when_asked_for(written):
    """strip_trailing_newlines=False keeps exactly what is in the file."""
    path = written(b"a\r\nb\n\nc")
    assert ["a\r\n", "b\n", "\n", "c"] == read(TextSource(path, strip_trailing_newlines=False))
    assert ["A\r\n", "B\n", "\n", "C"] == read(TextSource(path, strip_trailing_newlines=False, coder=UpperCoder()))


def test_a_last_carriage_return_without_a_newline_stays(written):
    """The file's last line has no line end to strip."""
    assert ["a", "b\r"] == read(TextSource(written(b"a\r\nb\r")))
    assert ["A", "B\r"] == read(TextSource(written(b"a\r\nb\r"), coder=UpperCoder()))


def test_an_escaped_delimiter_does_not_end_a_line(written):
    """As Beam's escapechar: it may escape itself, and it stays in the line."""
    path = written(b"head\\\ner\na\\\nb\nc\\\\\nd\\\n")
    source = TextSource(path, escapechar=b"\\", min_bundle_size=1, skip_header_lines=1)
    assert ["a\\\nb", "c\\\\", "d\\\n"] == read(source, 7)


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_escapes_survive_the_ends_of_blocks(written, monkeypatch, block):
    """An escape at the end of a block is one at the beginning of the next."""
    monkeypatch.setattr(line_blocks_module.line_blocks, "__defaults__", (block,))
    path = written(b"a\\\nb\nc\\\\\nd\\\\\\\ne")
    assert ["a\\\nb", "c\\\\", "d\\\\\\\ne"] == read(TextSource(path, escapechar=b"\\"))


@pytest.mark.parametrize("extension", ["", ".gz", ".bz2", ".xz", ".zst", ".deflate"])
def test_every_compression_gives_the_same_lines(tmp_path, extension):
    """By extension; headers are skipped in what was decompressed."""
    path = str(tmp_path / f"lines.txt{extension}")
    lines = [f"line {random.Random(i).random()}" for i in range(20_000)]
    with open_for_writing(path) as file:
        file.write("\n".join(["header", *lines]).encode())
    source = TextSource(path, skip_header_lines=1, min_bundle_size=1000)
    assert lines == read(source, 7)
    assert (1 if extension else 7) == len(source.split(7))


COMPRESSED = [".gz", ".bz2", ".xz", ".zst", ".deflate"]


@pytest.fixture
def compressed(tmp_path):
    """Compresses text as an extension says."""

    def compress(text, extension):
        path = tmp_path / f"part{extension}"
        with open_for_writing(str(path)) as file:
            file.write(text)
        return path.read_bytes()

    return compress


@pytest.mark.parametrize("extension", COMPRESSED)
@pytest.mark.parametrize("padding", [b"", bytes(8)])
def test_a_file_of_several_compressed_streams_is_read_to_its_end(written, compressed, extension, padding):
    """As made by `cat a.gz b.gz`, also of empty and of large files, with and without zeros in between."""
    texts = [b"a\n", b"", b"b\n" * 300_000, b"c\n", b"d"]
    content = padding.join(compressed(text, extension) for text in texts) + padding

    assert ["a", *["b"] * 300_000, "c", "d"] == read(TextSource(written(content, f"x{extension}")))


@pytest.mark.parametrize("extension", COMPRESSED)
@pytest.mark.parametrize("behind", ["something else", "a damaged stream", "the beginning of a stream"])
def test_what_follows_a_compressed_stream_and_is_none_is_an_error(written, compressed, extension, behind):
    """Passed over, all that comes behind it would be lost."""
    whole = compressed(b"a\n", extension)
    tail = {
        "something else": b"no stream" + whole,
        "a damaged stream": b"\1" + whole[1:],
        "the beginning of a stream": whole[:3],
    }[behind]

    with pytest.raises(SourceError, match=rf"x{extension}' can't be read as"):
        read(TextSource(written(whole + tail, f"x{extension}")))


@pytest.mark.parametrize("extension", COMPRESSED)
def test_a_compressed_file_can_be_read_from_any_place(written, compressed, extension):
    """As a file is that a user opens by `ReadableFile.open`."""
    path = written(compressed(b"0123456789", extension) + compressed(b"abc", extension), f"x{extension}")
    with open_for_reading(str(path)) as file:
        assert b"0123456789abc" == file.read()
        assert (8, b"89ab") == (file.seek(8), file.read(4))
        assert (2, b"23") == (file.seek(2), file.read(2))
        assert (11, b"bc") == (file.seek(-2, 2), file.read())


@pytest.mark.parametrize("extension", COMPRESSED)
def test_a_truncated_compressed_file_is_an_error_that_names_it(tmp_path, extension):
    """Never a shorter result."""
    path = tmp_path / f"lines.txt{extension}"
    with open_for_writing(str(path)) as file:
        file.write("\n".join(str(random.Random(i).random()) for i in range(20_000)).encode())
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(SourceError, match=f"lines.txt{extension}"):
        read(TextSource(path))


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz", "zstd", "deflate"])
def test_a_file_that_is_not_compressed_as_announced_is_an_error_that_names_it(written, compression):
    """The wrong compression_type, or the wrong extension."""
    with pytest.raises(SourceError, match=rf"lines.txt.*can't be read as {compression}"):
        read(TextSource(written(b"plain text, and enough of it\n"), compression_type=compression))


def test_bytes_that_are_no_utf8_name_the_file_and_the_offset(written):
    """The offset is that in the file, whatever split and block it was found in."""
    path = written(b"abc\n" * 100_000 + b"x\xffy\n" + b"abc\n" * 1000)
    with pytest.raises(SourceError, match=r"lines\.txt' is not UTF-8 at byte 400001 \(0xff\).*coder"):
        read(TextSource(path), 3)


def test_a_missing_file_names_the_pattern_and_what_is_there_instead(tmp_path):
    """Each cause has its own hint."""
    with pytest.raises(SourceError, match=r"ReadFromText: no file matches .*gone/a\.txt': the directory .*gone'"):
        TextSource(tmp_path / "gone" / "a.txt").split(1)
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(SourceError, match=r"no file matches .*\*\.txt': the directory .* has 1 files, such as 'b.csv'"):
        TextSource(tmp_path / "*.txt").files()
    with pytest.raises(SourceError, match=r"it is a directory; did you mean '.*/\*'"):
        TextSource(str(tmp_path)).files()


def test_a_pattern_reads_every_file_with_its_own_header(tmp_path):
    """Many small files share a split, in the order of their paths."""
    for name in "cab":
        (tmp_path / f"{name}.txt").write_text(f"header\n{name}1\n{name}2")
    source = TextSource(tmp_path / "*.txt", skip_header_lines=1, with_filename=True)
    expected = [(str(tmp_path / f"{name}.txt"), f"{name}{i}") for name in "abc" for i in (1, 2)]
    assert expected == read(source)
    assert 1 == len(source.split(8))


def test_an_empty_file_has_no_lines_and_an_empty_line_is_one(written):
    """Nothing is not the same as an empty line."""
    assert [] == read(TextSource(written(b"")))
    assert [""] == read(TextSource(written(b"\n")))
    assert ["", "a", ""] == read(TextSource(written(b"\na\n\n")))


def test_a_header_longer_than_a_split_is_skipped_in_all_of_them(written):
    """The second split starts within the header."""
    source = TextSource(written(b"h" * 100 + b"\n" + b"a\nb\nc\n"), skip_header_lines=1, min_bundle_size=1)
    assert ["a", "b", "c"] == read(source, 10)


def test_a_line_longer_than_many_blocks_comes_whole(written):
    """A line may be of any length."""
    line = "x" * 3_000_000
    assert ["a", line, "b"] == read(TextSource(written(f"a\n{line}\nb\n".encode()), min_bundle_size=1), 5)


def test_bundles_hold_at_most_the_bundle_size_and_few_are_small(written):
    """Short lines are handed on in full bundles."""
    source = TextSource(written(b"ab\n" * 200_000))
    sizes = [len(bundle) for split in source.split(1) for bundle in source.read_bundles(split)]
    assert 200_000 == sum(sizes)
    assert BUNDLE_SIZE >= max(sizes)
    assert len(sizes) <= 20


def test_reading_a_split_twice_gives_the_same_bundles(written):
    """A runner may count bundles to find where it was."""
    source = TextSource(written(b"some line\n" * 100_000))
    (first, *_rest) = source.split(2)
    once = [bundle.values for bundle in source.read_bundles(first)]
    assert once == [bundle.values for bundle in source.read_bundles(first)]


def test_wrong_arguments_are_refused_when_the_source_is_made(tmp_path):
    """Before anything is read."""
    with pytest.raises(ValueError, match="compression_type must be one of auto.*got 'snappy'"):
        TextSource(tmp_path / "a", compression_type="snappy")
    with pytest.raises(ValueError, match="overlaps itself"):
        TextSource(tmp_path / "a", delimiter=b"aXa")
    with pytest.raises(ValueError, match="delimiter must be bytes"):
        TextSource(tmp_path / "a", delimiter="\n")
    with pytest.raises(ValueError, match="escapechar must be one byte"):
        TextSource(tmp_path / "a", escapechar=b"ab")
    with pytest.raises(ValueError, match="skip_header_lines must be 0 or more, got -1"):
        TextSource(tmp_path / "a", skip_header_lines=-1)


def test_wrong_arguments_are_errors_of_the_classes_of_beam(tmp_path):
    """A compression is of a wrong type and value at once."""
    for error in TypeError, ValueError:
        with pytest.raises(error, match="compression_type must be one of auto"):
            WriteToText(str(tmp_path / "out"), compression_type="snappy")
    with pytest.raises(TypeError, match="WriteToText: file_name_suffix must be a str"):
        WriteToText(str(tmp_path / "out"), file_name_suffix=5)
