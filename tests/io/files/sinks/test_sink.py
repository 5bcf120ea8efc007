"""Two phases: nothing is visible before the commit, all of it after, whatever crashes between."""

import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.files.filesystem import LocalFileSystem
from penstock.io.files.text import TextFormat
from penstock.io.files.write import FileSink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.sdk.sink import LabelledSink
from penstock.sdk.transaction_series import digest_of_sink

TRANSACTION = "run/1"

# The staging directory of a sink `out`.
STAGING = ".out.penstock-run%2F1-" + digest_of_sink("Write/lines")[:8]


def text_sink(prefix, header=None, **options):
    """A sink of lines."""
    return LabelledSink(FileSink(prefix, TextFormat(header=header), transform="Write/lines", **options), "Write/lines")


def stage(sink, *units):
    """Return the tokens that workers stage, one worker for each list of values."""
    sink = pickle.loads(pickle.dumps(sink))
    tokens = []
    for number, values in enumerate(units):
        writer = sink.sink.open_writer(sink.context(TRANSACTION, f"unit/{number}"))
        writer.write(Bundle(values))
        tokens.append(pickle.loads(pickle.dumps(writer.stage())))
    return tokens


def written(sink, *units):
    """A whole transaction."""
    sink.prepare(TRANSACTION)
    sink.commit(TRANSACTION, stage(sink, *units))


def content(directory):
    """The files below a directory, hidden ones as well, by name."""
    return {
        str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()
    }


class CrashingFileSystem(LocalFileSystem):
    """Loses power before the n-th operation that changes something."""

    def __init__(self, operations):
        self.operations = operations

    def _count(self):
        if self.operations == 0:
            raise KeyboardInterrupt("no power")
        self.operations -= 1

    def create(self, path):
        self._count()
        return super().create(path)

    def rename(self, source, destination):
        self._count()
        super().rename(source, destination)

    def delete(self, path):
        self._count()
        if self.operations == 0 and os.path.isdir(path):
            # Power is lost halfway through a directory.
            os.remove(os.path.join(path, sorted(os.listdir(path))[0]))
            raise KeyboardInterrupt("no power")
        super().delete(path)


def test_nothing_is_visible_before_the_commit_and_all_of_it_after(tmp_path):
    """Staged files are in a hidden directory, which is gone afterwards."""
    sink = text_sink(tmp_path / "out", file_name_suffix=".txt")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a", "b"], ["c"])
    assert [] == [name for name in content(tmp_path) if not name.startswith(f"{STAGING}/")]
    sink.commit(TRANSACTION, tokens)
    assert {"out-00000-of-00002.txt": "a\nb\n", "out-00001-of-00002.txt": "c\n"} == content(tmp_path)
    assert ["out-00000-of-00002.txt", "out-00001-of-00002.txt"] == sorted(os.listdir(tmp_path))


def test_committing_twice_changes_nothing(tmp_path):
    """The second call finds everything published."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"])
    sink.commit(TRANSACTION, tokens)
    (tmp_path / "out-00000-of-00001").write_text("changed by another program")
    sink.commit(TRANSACTION, tokens)
    assert {"out-00000-of-00001": "changed by another program"} == content(tmp_path)


def test_aborting_leaves_nothing_however_often(tmp_path):
    """Neither staged files nor the directory, nor anything of a worker still writing."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    stage(sink, ["a"], ["b"])
    sink.sink.open_writer(sink.context(TRANSACTION, "unit/2")).write(Bundle(["c"]))
    sink.abort(TRANSACTION)
    sink.abort(TRANSACTION)
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("operations", range(12))
def test_a_crash_anywhere_in_a_commit_is_completed_by_committing_again(tmp_path, monkeypatch, operations):
    """Whichever step it was: before the plan, between renames, while cleaning up."""
    sink = text_sink(tmp_path / "out", header="h")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"], ["b"], ["c"])
    fs = CrashingFileSystem(operations)
    monkeypatch.setattr("penstock.io.files.sinks.sink.filesystem_for", lambda path: fs)
    try:
        sink.commit(TRANSACTION, tokens)
        assert operations > 5
    except KeyboardInterrupt:
        assert operations <= 6
    monkeypatch.undo()
    sink.commit(TRANSACTION, tokens)
    expected = {f"out-0000{i}-of-00003": f"h\n{name}\n" for i, name in enumerate("abc")}
    assert expected == content(tmp_path)
    assert 3 == len(os.listdir(tmp_path))


def test_a_decided_transaction_is_completed_as_it_was_decided(tmp_path, monkeypatch):
    """After the plan is written, other attempts' files can't mix in, and an abort can't undo half of it."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    first, second, retried = stage(sink, ["a"], ["b"], ["b again"])
    # The plan (a file, a rename), then one of the two files.
    fs = CrashingFileSystem(3)
    monkeypatch.setattr("penstock.io.files.sinks.sink.filesystem_for", lambda path: fs)
    with pytest.raises(KeyboardInterrupt):
        sink.commit(TRANSACTION, [first, second])
    monkeypatch.undo()
    assert "out-00000-of-00002" in os.listdir(tmp_path)
    sink.abort(TRANSACTION)
    sink.commit(TRANSACTION, [first, retried])
    assert {"out-00000-of-00002": "a\n", "out-00001-of-00002": "b\n"} == content(tmp_path)


def test_what_was_staged_by_attempts_that_were_not_accepted_is_removed(tmp_path):
    """Only the tokens given are published."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    _failed, accepted = stage(sink, ["a"], ["b"])
    sink.commit(TRANSACTION, [accepted])
    assert {"out-00000-of-00001": "b\n"} == content(tmp_path)


def test_a_worker_that_failed_removes_its_own_files_only(tmp_path):
    """Also what it has finished already."""
    sink = text_sink(tmp_path / "out", max_records_per_shard=1)
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"])
    failed = sink.sink.open_writer(sink.context(TRANSACTION, "unit/1"))
    failed.write(Bundle(["b", "c"]))
    failed.discard()
    assert ["prepared", "unit%2F0-0"] == sorted(os.listdir(tmp_path / STAGING))
    sink.commit(TRANSACTION, tokens)
    assert {"out-00000-of-00001": "a\n"} == content(tmp_path)


def test_staged_files_that_vanished_are_an_error_and_not_an_empty_result(tmp_path):
    """Whether one of them or the whole directory."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"])
    (tmp_path / STAGING / "unit%2F0-0").unlink()
    with pytest.raises(SinkError, match="can't be published: its staged file .* is gone"):
        sink.commit(TRANSACTION, tokens)
    LocalFileSystem().delete(str(tmp_path / STAGING))
    with pytest.raises(SinkError, match="neither it nor its staged file exists"):
        sink.commit(TRANSACTION, tokens)


def test_an_output_that_cannot_be_written_is_found_before_anything_runs(tmp_path):
    """It names the transform, the path and what is in the way."""
    (tmp_path / "file").write_text("")
    sink = text_sink(tmp_path / "file" / "out")
    with pytest.raises(SinkError, match=r"Write/lines: '.*file/out' can't be written to: Not a directory \('.*'\)"):
        sink.prepare(TRANSACTION)


def test_an_empty_input_gives_one_file_with_its_header_unless_it_is_to_be_skipped(tmp_path):
    """As Beam."""
    written(text_sink(tmp_path / "a", header="h"), [])
    written(text_sink(tmp_path / "b", header="h", skip_if_empty=True), [])
    assert {"a-00000-of-00001": "h\n"} == content(tmp_path)


def test_a_fixed_number_of_shards_comes_with_the_elements_and_missing_ones_are_empty(tmp_path):
    """Elements are pairs of a shard and its values; every worker may have several."""
    sink = text_sink(tmp_path / "out", header="h", num_shards=3, sharded=True)
    sink.prepare(TRANSACTION)
    tokens = stage(sink, [(2, ["c", "d"])], [(0, iter(["a"]))])
    for _ in range(2):
        sink.commit(TRANSACTION, tokens)
    expected = {"out-00000-of-00003": "h\na\n", "out-00001-of-00003": "h\n", "out-00002-of-00003": "h\nc\nd\n"}
    assert expected == content(tmp_path)


def test_a_shard_written_by_two_workers_is_an_error(tmp_path):
    """Neither may replace the other."""
    sink = text_sink(tmp_path / "out", num_shards=2, sharded=True)
    sink.prepare(TRANSACTION)
    tokens = stage(sink, [(0, ["a"])], [(0, ["b"])])
    with pytest.raises(SinkError, match="Write/lines: shard 0 of '.*out' was written by two workers"):
        sink.commit(TRANSACTION, tokens)


def test_a_single_file_has_exactly_the_name_it_was_given(tmp_path):
    """The template '' is for one shard."""
    written(text_sink(tmp_path / "out", shard_name_template="", file_name_suffix=".txt"), ["a"])
    assert {"out.txt": "a\n"} == content(tmp_path)
    sink = text_sink(tmp_path / "two", shard_name_template="")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"], ["b"])
    with pytest.raises(SinkError, match="2 workers wrote, but '.*two' is one file; write it by penstock.io.Write"):
        sink.commit(TRANSACTION, tokens)


def test_files_of_the_same_names_are_replaced_and_others_stay(tmp_path):
    """Older files with other names belong to the user."""
    (tmp_path / "out-00000-of-00001").write_text("old")
    (tmp_path / "out-00000-of-00002").write_text("older")
    written(text_sink(tmp_path / "out"), ["new"])
    assert {"out-00000-of-00001": "new\n", "out-00000-of-00002": "older"} == content(tmp_path)


@settings(max_examples=50, deadline=None)
@given(
    units=st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=4),
    most=st.integers(1, 4),
)
def test_no_file_has_more_records_than_asked_for_and_none_is_lost(tmp_path_factory, units, most):
    """max_records_per_shard begins another file in time."""
    directory = tmp_path_factory.mktemp("out")
    written(text_sink(directory / "out", max_records_per_shard=most), *units)
    files = content(directory)
    assert all(len(lines.splitlines()) <= most for lines in files.values())
    assert sorted(str(v) for values in units for v in values) == sorted("".join(files.values()).split())


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst", ".deflate"])
def test_the_suffix_says_how_files_are_compressed(tmp_path, suffix):
    """The lines are read back as written."""
    from penstock.io.files.text import TextSource

    written(text_sink(tmp_path / "out", file_name_suffix=suffix), ["ä", "b"])
    source = TextSource(tmp_path / f"out*{suffix}")
    assert ["ä", "b"] == [v for split in source.split(1) for b in source.read_bundles(split) for v in b.values]
    assert (suffix == "") == ((tmp_path / f"out-00000-of-00001{suffix}").read_bytes() == "ä\nb\n".encode())


def test_the_same_elements_give_the_same_bytes_even_compressed(tmp_path):
    """No names or times in the files."""
    for name in "ab":
        written(text_sink(tmp_path / name, file_name_suffix=".gz"), ["x"])
    assert 1 == len({path.read_bytes() for path in tmp_path.iterdir()})


def test_values_that_are_no_text_are_written_as_beam_writes_them(tmp_path):
    """Bytes as they are, anything else by str."""
    sink = LabelledSink(FileSink(tmp_path / "out", TextFormat(header=b"h", footer="f")), "Write")
    written(sink, ["a", b"b", 3, ("d", 4)])
    assert {"out-00000-of-00001": "h\na\nb\n3\n('d', 4)\nf\n"} == content(tmp_path)
    sink = LabelledSink(FileSink(tmp_path / "out", TextFormat(append_trailing_newlines=False, header="h")), "Write")
    written(sink, ["a", "b"])
    assert {"out-00000-of-00001": "hab"} == content(tmp_path)


def test_a_retraction_is_refused(tmp_path):
    """A written line can't be retracted."""
    sink = text_sink(tmp_path / "out")
    sink.prepare(TRANSACTION)
    writer = sink.sink.open_writer(sink.context(TRANSACTION, "unit"))
    assert not sink.sink.spec.accepts_retractions
    for signs in (-1, [1, -1]):
        with pytest.raises(SinkError, match="Write/lines: a file can only be appended to, and got a retraction"):
            writer.write(Bundle(["a", "b"], signs=signs))


def test_wrong_arguments_are_refused_when_the_sink_is_made(tmp_path):
    """Before anything runs."""
    with pytest.raises(ValueError, match=r"Write/lines: 3 shards need names of their own.*'-all' has no S"):
        text_sink(tmp_path / "out", num_shards=3, shard_name_template="-all")
    with pytest.raises(ValueError, match="names a directory, not a file"):
        text_sink(f"{tmp_path}/", shard_name_template="")
    with pytest.raises(ValueError, match="compression_type"):
        text_sink(tmp_path / "out", compression_type="rar")


def test_limits_of_a_file_have_no_effect_beside_a_number_of_files(tmp_path, caplog):
    """As in Beam, with a warning."""
    sink = text_sink(tmp_path / "out", num_shards=3, max_records_per_shard=3)

    assert sink.sink.max_records_per_shard is None
    assert ["Write/lines: max_records_per_shard has no effect beside num_shards"] == caplog.messages


def test_it_works_the_same_in_a_bucket():
    """Through fsspec, here its file system in memory."""
    import fsspec

    fs = fsspec.filesystem("memory")
    sink = text_sink("memory://bucket/out", header="h")
    sink.prepare(TRANSACTION)
    tokens = stage(sink, ["a"], ["b"])
    sink.commit(TRANSACTION, tokens)
    sink.commit(TRANSACTION, tokens)
    assert ["/bucket/out-00000-of-00002", "/bucket/out-00001-of-00002"] == sorted(fs.find("/bucket"))
    assert b"h\nb\n" == fs.cat("/bucket/out-00001-of-00002")
    sink.prepare("other")
    sink.abort("other")
    assert 2 == len(fs.find("/bucket"))


def test_every_epoch_of_an_unbounded_input_has_files_of_its_own(tmp_path):
    """Rather than replacing those of the epoch before; an epoch without elements has none."""
    sink = text_sink(tmp_path / "out", name_by_transaction=True, skip_if_empty=True)
    for epoch, values in enumerate((["a"], [], ["b"])):
        sink.prepare(f"run-{epoch}")
        writer = sink.sink.open_writer(sink.context(f"run-{epoch}", "unit"))
        writer.write(Bundle(values))
        token = writer.stage()
        for _ in range(2):
            sink.commit(f"run-{epoch}", [token])
    assert {"out-run-0-00000-of-00001": "a\n", "out-run-2-00000-of-00001": "b\n"} == content(tmp_path)


def test_a_relative_path_is_where_the_program_runs_for_every_worker(tmp_path, monkeypatch):
    """An executor of a cluster has a working directory of its own, in which nothing was prepared."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    sink = text_sink("out/x")
    sink.prepare(TRANSACTION)
    monkeypatch.chdir(tmp_path / "worker")
    tokens = stage(sink, ["a"])
    monkeypatch.chdir(tmp_path / "driver")
    sink.commit(TRANSACTION, tokens)

    assert {"driver/out/x-00000-of-00001": "a\n"} == content(tmp_path)
