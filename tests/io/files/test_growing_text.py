"""Files that grow: whole lines, once each, and a word where a file isn't what it was."""

import errno
import gzip
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io import ReadContinuouslyFromText
from penstock.io.files import growing_text as growing
from penstock.io.files.filesystem import LocalFileSystem
from penstock.io.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
from penstock.sdk.coders import BytesCoder
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp


def source(pattern, **options):
    return ReadContinuouslyFromText(pattern, poll_interval=options.pop("poll_interval", 0), **options).source


def append(path, content):
    with open(path, "ab") as file:
        file.write(content)


@settings(max_examples=150)
@given(
    content=st.text(alphabet="ab\nü", max_size=40).map(str.encode),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    block=st.integers(1, 9),
    header=st.integers(0, 2),
    step=st.integers(1, 3),
)
def test_every_whole_line_comes_once_however_the_file_grew(tmp_path_factory, content, cuts, block, header, step):
    """And again from every offset, and in micro-batches; what no line end follows is left."""
    path = tmp_path_factory.mktemp("growing") / "lines.txt"
    path.touch()
    made = source(path, skip_header_lines=header)
    following = made.open(str(path), None)
    found, size = [], growing.BLOCK_SIZE
    growing.BLOCK_SIZE = block
    try:
        at = 0
        for cut in [*sorted(cuts), len(content)]:
            append(path, content[at:cut])
            at = max(at, cut)
            found += polled(following, 0, step)
        again = check_replay(made, str(path), 0, step)
    finally:
        growing.BLOCK_SIZE = size
        following.close()

    assert content.decode().split("\n")[header:-1] == found == again


def test_a_batch_is_what_was_planned_also_when_the_file_has_grown_since(tmp_path):
    """The offset at its end is the planned one too, so that the next batch follows."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\n")
    made = source(path)
    planner = made.open(str(path), None)
    end = planner.admit(1, None, Timestamp(0))
    append(path, b"three\n" * 1000)
    executor = made.open(str(path), None)

    assert [["one"]] == [bundle.values for bundle in executor.read_to(end, Timestamp(0))]
    assert end == executor.offset()
    assert ["two", "three"] == made.open(str(path), end).poll(2, Timestamp(0)).values


def test_a_file_is_looked_at_once_in_an_interval_and_at_once_while_more_is_known_to_be_there(tmp_path):
    """The clock is the runner's."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\nb\nc\n")
    reader = source(path, poll_interval=10).open(str(path), None)

    assert ["a", "b"] == reader.poll(2, Timestamp(0)).values
    assert 2 == reader.backlog()
    assert ["c"] == reader.poll(2, Timestamp(0)).values
    append(path, b"d\n")
    assert [] == polled(reader, 9.9)
    assert ["d"] == polled(reader, 10)


def test_files_that_turn_up_are_partitions_of_their_own(tmp_path):
    """Found when it is looked again."""
    made = source(tmp_path / "*.log", poll_interval=3)
    assert [] == made.partitions()
    assert 3 == made.discovery_interval
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "b.txt").write_text("2\n")

    (path,) = made.partitions()
    assert "a.log" == os.path.basename(path)
    assert ["1"] == polled(made.open(path, None), 0)


def test_a_file_that_got_shorter_is_an_error_that_says_by_how_much(tmp_path):
    """While it is followed, and when it is opened again."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\n")
    made = source(path)
    reader = made.open(str(path), None)
    polled(reader, 0)
    os.truncate(path, 4)

    with pytest.raises(SourceError, match="lines.txt': expected 8 bytes or more.*found 4; was it truncated"):
        reader.poll(1, Timestamp(0))
    with pytest.raises(SourceError, match="lines.txt': expected 8 bytes or more.*found 4; was it truncated"):
        made.open(str(path), reader.offset())


def test_another_file_of_the_same_name_is_an_error(tmp_path):
    """By its identity while the first one is open, by how it begins when it is opened again."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\n")
    made = source(path)
    reader = made.open(str(path), None)
    polled(reader, 0)
    other = tmp_path / "other"
    other.write_bytes(b"uno\ndue\ntre\n")
    os.replace(other, path)

    with pytest.raises(SourceError, match="replaced by another file .* found 12 bytes of another"):
        reader.poll(1, Timestamp(0))
    with pytest.raises(SourceError, match=r"expected it to begin as .* first 8 bytes .* found other bytes"):
        made.open(str(path), reader.offset())


def test_a_copy_of_the_file_elsewhere_is_the_same_file(tmp_path):
    """After a move to another machine it is read on."""
    path, copy = tmp_path / "lines.txt", tmp_path / "copy.txt"
    path.write_bytes(b"one\ntwo\n")
    made = source(path)
    reader = made.open(str(path), None)
    reader.poll(1, Timestamp(0))
    copy.write_bytes(path.read_bytes() + b"three\n")

    assert ["two", "three"] == polled(made.open(str(copy), reader.offset()), 0)


def test_a_file_that_is_removed_is_read_to_its_end_and_is_finished_then(tmp_path):
    """A removed file gets no more lines; opening it again is an error."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\n")
    made = source(path)
    reader = made.open(str(path), None)
    polled(reader, 0)
    append(path, b"two\nthree\n")
    os.remove(path)

    assert ["two"] == reader.poll(1, Timestamp(0)).values
    assert not reader.is_finished()
    assert ["three"] == polled(reader, 0)
    assert reader.is_finished()
    with pytest.raises(SourceError, match="lines.txt': expected 14 bytes or more.*found no such file"):
        made.open(str(path), reader.offset())


def test_lines_are_what_read_from_text_makes_of_them(tmp_path):
    """Line ends of either kind, other delimiters, coders and names."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\r\nb\nc\xff\n")

    assert [b"a", b"b", b"c\xff"] == polled(source(path, coder=BytesCoder()).open(str(path), None), 0)
    with pytest.raises(SourceError, match=r"not UTF-8 \(0xff\).*give a coder"):
        polled(source(path).open(str(path), None), 0)
    path.write_bytes(b"a|b|c")
    made = source(path, delimiter=b"|", strip_trailing_newlines=False, with_filename=True)
    assert [(str(path), "a|"), (str(path), "b|")] == check_replay(made, str(path), 0)


def test_lines_may_have_event_times(tmp_path):
    """With a watermark that is behind by as much as they may be."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"12\n10\n")
    provider = BoundedOutOfOrdernessWatermarkEstimator.default_provider(5)
    reader = source(path, timestamp_fn=int, watermark_estimator=provider, idle_after=60).open(str(path), None)

    assert [("12", 12_000_000), ("10", 10_000_000)] == elements(reader.poll(9, Timestamp(100)))
    assert 7_000_000 == reader.watermark(Timestamp(100))
    assert reader.is_idle(Timestamp(160))


def test_a_compressed_file_can_not_be_followed(tmp_path):
    """An error names it, and what reads such files."""
    path = tmp_path / "lines.txt.gz"
    path.write_bytes(gzip.compress(b"a\n"))

    with pytest.raises(SourceError, match="lines.txt.gz' is compressed by gzip.*ReadAllFromTextContinuously"):
        source(path).open(str(path), None)


def test_a_file_that_is_not_on_this_disk_is_followed_too():
    """Through fsspec, which has it at the length that it was opened with."""
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.pipe("/growing/lines.txt", b"one\n")
    made = source("memory://growing/*.txt")
    (path,) = made.partitions()
    reader = made.open(path, None)
    assert ["one"] == polled(reader, 0)
    fs.pipe("/growing/lines.txt", b"one\ntwo\nth")

    assert ["two"] == polled(reader, 0)
    fs.pipe("/growing/lines.txt", b"one\ntwo\nthree\n")
    assert ["three"] == polled(reader, 0)
    fs.rm("/growing/lines.txt")
    assert [] == polled(reader, 0)
    assert reader.is_finished()


def test_the_transform_is_unbounded_and_gives_its_label_to_errors(tmp_path):
    """Each of two that are made by the same object has its own."""
    p = beam.Pipeline()
    read = ReadContinuouslyFromText(tmp_path / "*.txt.gz")
    assert not (p | "Clicks" >> read).is_bounded
    p | "More" >> read

    labels = [transform.primitive.source.transform for transform in p.graph().transforms]
    assert ["Clicks", "More"] == labels
    with pytest.raises(ValueError, match="poll_interval must be 0 seconds or more, got -1"):
        ReadContinuouslyFromText(tmp_path, poll_interval=-1)


def test_more_files_than_can_be_open_are_an_error_that_says_so(tmp_path, monkeypatch):
    """The error used to claim that there was no such file."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\n")

    def refuse(self, path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(LocalFileSystem, "open", refuse)
    with pytest.raises(
        SourceError, match=r"expected a file to follow, found that it can't be opened \(Too many .*ulimit"
    ):
        source(path).open(str(path), None)
