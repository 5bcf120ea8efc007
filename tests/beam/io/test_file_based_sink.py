"""FileBasedSink: its own steps, which a program may call or override."""

import os

import pytest

import penstock as beam
from penstock.beam.io.file_system import BeamIOError
from penstock.beam.sdk.display import DisplayData


class Lines(beam.io.FileBasedSink):
    """A line for each value, between brackets."""

    def __init__(self, path, **arguments):
        super().__init__(path, coder=beam.coders.ToBytesCoder(), file_name_suffix=".txt", **arguments)

    def open(self, temp_path):
        handle = super().open(temp_path)
        handle.write(b"(")
        return handle

    def close(self, file_handle):
        file_handle.write(b")")
        super().close(file_handle)


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def written(sink):
    """Two temporary files."""
    begun = sink.initialize_write()
    results = []
    for uid in "1", "2":
        writer = sink.open_writer(begun, uid)
        writer.write(uid)
        results.append(writer.close())
    return begun, results


def test_its_steps_publish_temporary_files_once(tmp_path):
    sink = Lines(str(tmp_path / "out"))
    begun, results = written(sink)
    assert os.path.basename(begun).startswith("beam-temp-out-")
    (tmp_path / "out-00001-of-00002.txt").write_text("of an earlier run")
    prepared = sink.pre_finalize(begun, results)
    assert [os.path.basename(begun)] == [path.name for path in tmp_path.iterdir()]
    names = [str(tmp_path / f"out-0000{i}-of-00002.txt") for i in (0, 1)]
    assert names == list(sink.finalize_write(begun, results, prepared))
    assert {"out-00000-of-00002.txt": "(1)", "out-00001-of-00002.txt": "(2)"} == contents(tmp_path)
    assert [] == list(sink.finalize_write(begun, results, prepared))


def test_a_temporary_file_that_is_gone_is_an_error(tmp_path):
    sink = Lines(str(tmp_path / "out"))
    begun, results = written(sink)
    os.remove(results[0])
    with pytest.raises(BeamIOError, match=r"Lines: the temporary file .* does not exist"):
        list(sink.finalize_write(begun, results, None))


@pytest.mark.parametrize("limit", [{"max_records_per_shard": 2}, {"max_bytes_per_shard": 3}])
def test_a_writer_is_at_capacity_by_values_or_bytes(tmp_path, limit):
    writer = Lines(str(tmp_path / "out"), **limit).open_writer(str(tmp_path), "1")
    assert [False, True] == [(writer.write(value), bool(writer.at_capacity()))[1] for value in "ab"]
    writer.close()


def test_overridden_steps_are_called(tmp_path):
    class Published(Lines):
        def finalize_write(self, init_result, writer_results, pre_finalize_result):
            yield from super().finalize_write(init_result, writer_results, pre_finalize_result)
            (tmp_path / "SUCCESS").write_text(str(len(writer_results)))

    with beam.Pipeline() as p:
        _ = p | beam.Create(["a"]) | beam.io.Write(Published(str(tmp_path / "out")))
    assert {"out-00000-of-00001.txt": "(a)", "SUCCESS": "1"} == contents(tmp_path)


def test_limits_hold_in_a_pipeline(tmp_path):
    with beam.Pipeline() as p:
        _ = p | beam.Create(["a", "b", "c"]) | beam.io.Write(Lines(str(tmp_path / "out"), max_bytes_per_shard=3))
    assert ["(ab)", "(c)"] == sorted(contents(tmp_path).values())


def test_it_tells_its_names_and_refuses_wrong_arguments(tmp_path):
    items = {item.key: item.value for item in DisplayData.create_from(Lines("/out", num_shards=3)).items}
    assert {
        "file_pattern": "/out-%(shard_num)05d-of-%(num_shards)05d.txt",
        "compression": "auto",
        "shards": 3,
    } == items
    with pytest.raises(TypeError, match="compression_type must be one of"):
        Lines(str(tmp_path), compression_type=5)
    with pytest.raises(ValueError, match="a directory and a name"):
        Lines("/", shard_name_template="S").initialize_write()
