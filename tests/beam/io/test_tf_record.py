"""TFRecord files: their bytes, and damage."""

from __future__ import annotations

import gzip
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.io.tfrecordio import ReadAllFromTFRecord, ReadFromTFRecord, WriteToTFRecord
from penstock.sdk.errors import MissingExtraError, SourceError
from penstock.testing import TestPipeline, assert_that, equal_to

# The record b"foo" as TensorFlow writes it.
FOO = b64decode(b"AwAAAAAAAACwmUkOZm9vYYq+/g==")


def read(path: Path, **how: Any) -> None:
    with TestPipeline() as p:
        _ = p | ReadFromTFRecord(str(path), **how)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_records_are_read_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    """In any number of files, of more than a bundle, empty ones too."""
    records = [b"", *(b"%d" % n for n in range(3000))]
    with TestPipeline() as p:
        _ = p | beam.Create(records) | WriteToTFRecord(tmp_path / "out", file_name_suffix=suffix, num_shards=2)
    with TestPipeline() as p:
        assert_that(p | ReadFromTFRecord(f"{tmp_path}/out*"), equal_to(records), "read")
        named = p | beam.Create([f"{tmp_path}/out-00000*"]) | ReadAllFromTFRecord(with_filename=True)
        assert_that(named | beam.Keys() | beam.Distinct(), equal_to([f"{tmp_path}/out-00000-of-00002{suffix}"]), "all")


def test_a_file_has_the_bytes_of_tensorflow(tmp_path: Path) -> None:
    with TestPipeline() as p:
        _ = p | beam.Create(["foo"]) | WriteToTFRecord(tmp_path / "out", beam.coders.StrUtf8Coder())
    assert FOO == (tmp_path / "out-00000-of-00001").read_bytes()
    with TestPipeline() as p:
        strings = p | ReadFromTFRecord(f"{tmp_path}/out*", coder=beam.coders.StrUtf8Coder())
        assert_that(strings, equal_to(["foo"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FOO[:-1], "ends within a record"),
        (FOO + FOO[:5], "ends within a record"),
        (b"\x04" + FOO[1:], "checksum of a record's length"),
        (FOO.replace(b"foo", b"fox"), "the checksum of a record is wrong"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(SourceError, match=rf"ReadFromTFRecord: '.*/a' can't be read as TFRecords: .*{message}"):
        read(tmp_path / "a")


def test_compression_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(FOO))
    read(tmp_path / "a", compression_type="gzip")
    with pytest.raises(SourceError, match="can't be read as TFRecords"):
        read(tmp_path / "a")


def test_the_extra_is_named_when_the_pipeline_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """By each of the transforms."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    for transform in (lambda: ReadFromTFRecord("a"), ReadAllFromTFRecord, lambda: WriteToTFRecord("a")):
        with pytest.raises(MissingExtraError, match=r"TFRecord needs .*pip install 'penstock\[tfrecord\]'"):
            transform()
