"""A format of the user's own, as in Beam, has the guarantee of the others."""

from __future__ import annotations

import penstock as beam
from penstock.testing import TestPipeline


def content(directory):
    """The files below a directory, hidden ones as well, by name."""
    return {
        str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()
    }


class Lines(beam.io.FileBasedSink):
    """A user's own format, as in Beam."""

    def open(self, temp_path):
        """With a header."""
        handle = super().open(temp_path)
        handle.write(b"[begin]")
        return handle

    def write_encoded_record(self, file_handle, encoded_value):
        """One value."""
        file_handle.write(b"[" + encoded_value + b"]")

    def close(self, file_handle):
        """With a footer."""
        file_handle.write(b"[end]")
        super().close(file_handle)


def test_a_format_of_the_users_own_has_the_same_guarantee(tmp_path):
    """Beam's FileBasedSink, written by Write, sharded or not."""
    sink = Lines(str(tmp_path / "a"), beam.coders.ToBytesCoder(), ".x")
    with TestPipeline() as p:
        values = p | beam.Create(["a", "b"])
        _ = values | "a" >> beam.io.Write(sink)
        _ = values | "b" >> beam.io.Write(Lines(str(tmp_path / "b"), beam.coders.ToBytesCoder(), num_shards=1))
    assert {"a-00000-of-00001.x": "[begin][a][b][end]", "b-00000-of-00001": "[begin][a][b][end]"} == content(tmp_path)
