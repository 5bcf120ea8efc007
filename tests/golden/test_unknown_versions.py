"""Formats of other versions are refused, with the name of the file, the version found, and the versions supported."""

from __future__ import annotations

import base64
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any
from zlib import crc32

import msgspec
import pytest
from golden.archives import unpacked
from golden.pipelines import GOLDEN

from penstock.io.files.filesystem import LocalFileSystem
from penstock.io.files.sinks.commit_plan import read_plan
from penstock.persistence import restores
from penstock.runners.execution.checkpoints.log_listing import LogListing
from penstock.runners.execution.checkpoints.manifest import VERSION, unsealed
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.serialization.records import unpickled
from penstock.runners.execution.sinks.committer import decode_staged
from penstock.runners.local.channels.channel import decode_control_message
from penstock.runners.local.productions.production import decode_ended, production_of
from penstock.runners.spark.micro_batch.plan import PlannedBatch
from penstock.sdk.errors import SinkError, UnknownFormatError

RECORDS: dict[str, Callable[[bytes, str], Any]] = {
    "production": production_of,
    "inherited": production_of,
    "ended": decode_ended,
    "staged": decode_staged,
    "planned batch": PlannedBatch.of_record,
    "watermark": decode_control_message,
    "percentile watermark": decode_control_message,
    "clock": decode_control_message,
    "signal": decode_control_message,
}


@pytest.mark.parametrize("tag", RECORDS)
def test_a_record_of_another_version_is_refused_by_name(tag: str) -> None:
    """Of each type that a file may have."""
    record = msgspec.msgpack.encode([tag, 9, 1, 2])
    with pytest.raises(UnknownFormatError) as error:
        RECORDS[tag](record, "kept/file")
    assert str(error.value).startswith(f"kept/file: found the record {tag!r}, version 9; expected version 1 of it. ")


def test_a_record_of_an_unknown_type_is_refused_by_name() -> None:
    """The error names those that are known."""
    message = "kept/file: found the record 'parcel', version 1; expected one of 'production', 'inherited'"
    with pytest.raises(UnknownFormatError, match=message):
        production_of(msgspec.msgpack.encode(["parcel", 1]), "kept/file")


@pytest.mark.parametrize("version", [2, VERSION + 1])
def test_a_sealed_file_of_another_version_is_refused_by_name(version: int) -> None:
    """An earlier version's checksum is that of the second line alone."""
    body = b'["a"]'
    crc = crc32(body) if version == 2 else crc32(body, crc32(f"penstock plan {version}".encode()))
    head = json.dumps({"format": "penstock plan", "version": version, "length": len(body), "crc32": crc}).encode()
    message = f"kept/planned: found the file 'penstock plan', version {version}; expected version {VERSION} of it"
    with pytest.raises(UnknownFormatError, match=message):
        unsealed("kept/planned", head + b"\n" + body + b"\n", "penstock plan", list[str])


def test_a_list_of_logs_of_another_version_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    """It stands beside the logs."""
    path = tmp_path / "listed-1"
    path.write_bytes(b"PENSTOCKLOGLIST\x09".ljust(128, b"\0"))
    message = "listed-1: found the file 'list of logs', version 9; expected version 1 of it"
    with pytest.raises(UnknownFormatError, match=message):
        LogListing(LocalDisk(), str(path)).entry(0)


def test_a_plan_of_renamings_of_another_version_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    """It stands among a sink's staged files."""
    (tmp_path / "plan.json").write_text('{"version": 9, "renamings": []}')
    with pytest.raises(SinkError, match=r"plan\.json: found a plan of version 9, expected version 1"):
        read_plan(LocalFileSystem(), str(tmp_path))


def test_a_value_of_an_unknown_type_is_refused_by_name() -> None:
    """A token of a sink, or a position of a source."""
    data = b"\x80\x05\x8c\x0fpenstock.stored\x8c\x07token/3\x93."
    message = "kept/file: found the stored type 'token', version 3; expected a tag that this version knows"
    with pytest.raises(UnknownFormatError, match=message):
        unpickled(data, "What a sink has staged", "kept/file")


def test_a_tag_is_registered_once() -> None:
    """Two types of one tag couldn't be told apart."""
    with pytest.raises(ValueError, match=r"got 'row/1'"):
        restores("row", 1)(lambda: None)


def test_a_job_with_a_manifest_of_another_version_does_not_start(tmp_path: pathlib.Path) -> None:
    """Rather than go back to a checkpoint before it, behind which sinks have published."""
    golden = next(each for each in GOLDEN if each.name == "state, aligned")
    unpacked(golden, tmp_path)
    newest = max(tmp_path.joinpath("kept").glob("manifest-*"))
    _, body, _ = newest.read_bytes().split(b"\n")
    crc = crc32(body, crc32(b"penstock manifest 9"))
    head = json.dumps({"format": "penstock manifest", "version": 9, "length": len(body), "crc32": crc}).encode()
    newest.write_bytes(head + b"\n" + body + b"\n")
    found = rf"{re.escape(str(newest))}: found the file 'penstock manifest', version 9"
    message = rf"{found}; expected versions {VERSION} and {VERSION + 1} of"
    with pytest.raises(UnknownFormatError, match=message):
        golden.run(tmp_path)


def test_a_planned_batch_of_another_version_is_refused(tmp_path: pathlib.Path) -> None:
    """Its record is in the sealed file."""
    golden = next(each for each in GOLDEN if each.name == "windows, planned batch")
    unpacked(golden, tmp_path)
    planned = tmp_path / "kept" / "planned"
    head, body, _ = planned.read_bytes().split(b"\n")
    written = json.loads(body)
    record = base64.b64decode(written["batch"]).replace(b"planned batch\x01", b"planned batch\x09")
    body = json.dumps(written | {"batch": base64.b64encode(record).decode()}).encode()
    crc = crc32(body, crc32(f"penstock plan {VERSION}".encode()))
    head = json.dumps(json.loads(head) | {"length": len(body), "crc32": crc}).encode()
    planned.write_bytes(head + b"\n" + body + b"\n")
    with pytest.raises(UnknownFormatError, match="planned: found the record 'planned batch', version 9; expected"):
        golden.run(tmp_path)
