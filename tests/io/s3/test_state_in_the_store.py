"""`penstock state` and `penstock checkpoints migrate` of checkpoints in a store with the API of S3."""

from __future__ import annotations

import pathlib
import sys

import pytest
import s3fs
from click.testing import CliRunner
from golden.archives import unpacked
from golden.pipelines import GOLDEN
from servers.s3_server import S3Server

from penstock.__main__ import main

MIGRATION = "def doubled(entry):\n    return entry.with_value(2 * entry.value) if entry.step == 'Sum' else entry\n"


def test_state_in_the_store_is_read_and_migrated(
    directory: str, s3: S3Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original is there still; the differences are the converted values."""
    (golden,) = (golden for golden in GOLDEN if golden.name == "windows, aligned")
    unpacked(golden, tmp_path)
    s3fs.S3FileSystem().put(str(tmp_path / "kept"), f"{directory}/kept", recursive=True)
    (tmp_path / "doubling.py").write_text(MIGRATION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    run = CliRunner().invoke
    line = 'window\t"key 1"\t[1970-01-01T00:00:20Z, 1970-01-01T00:00:40Z)\t'
    one = ["state", f"{directory}/kept", "--step=Sum", "--key=key 1"]

    assert f"{line}270\n" == run(main, one).output
    migrated = run(main, ["checkpoints", "migrate", f"{directory}/kept", "--with=doubling:doubled"])

    assert "savepoint 5 has the state of checkpoint 4: 10 entries changed" in migrated.output, migrated.output
    assert (f"{line}540\n", f"{line}270\n") == (run(main, one).output, run(main, [*one, "--epoch=4"]).output)
    compared = run(main, ["checkpoints", "diff", f"{directory}/kept@4", f"{directory}/kept", "--keys=0"]).output
    assert "window: 5 -> 5 entries, 5 changed" in compared
