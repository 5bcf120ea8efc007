"""Checkpoints that earlier versions wrote are restored, and results are exact."""

from __future__ import annotations

import base64
import json
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any

import pytest
from golden.archives import unpacked
from golden.pipelines import GOLDEN, Golden, results
from golden.values import CHUNKS, VALUES
from golden.write import FILES

import penstock as beam
from penstock.io.files.filesystem import FileMetadata
from penstock.persistence import tags
from penstock.runners.execution.stages.side_inputs import ViewChangeKind
from penstock.runners.execution.streaming.snapshot_chunks import bodies, chunks_of
from penstock.sdk.coders.key_encoding import encode_key
from penstock.sdk.coders.sharded_key import ShardedKey


@pytest.mark.parametrize(
    ("golden", "parallelism"),
    [
        pytest.param(golden, parallelism, id=f"{golden.name}-{parallelism}")
        for golden in GOLDEN
        for parallelism in golden.parallelisms
    ],
)
def test_a_checkpoint_of_an_earlier_version_is_resumed(
    golden: Golden, parallelism: int, tmp_path: pathlib.Path
) -> None:
    """By as many subtasks as wrote it, by one, and by more."""
    expected = unpacked(golden, tmp_path)
    assert expected != results(tmp_path)
    golden.run(tmp_path, parallelism)
    assert expected == results(tmp_path)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_no_file_names_a_module_of_the_package(golden: Golden, tmp_path: pathlib.Path) -> None:
    """But for `penstock.stored`, so that every class of the package can be moved."""
    golden.interrupt(tmp_path)
    for path in tmp_path.joinpath("kept").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "planned":
                content += base64.b64decode(json.loads(content.splitlines()[1])["batch"])
            assert [] == re.findall(rb"penstock\.(?!stored\b)[\w.]+", content), path.name


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_of_an_earlier_version_is_read(name: str) -> None:
    """Of each stored type one; as its fields, since not all of them can be compared."""
    kept = json.loads((FILES / "values.json").read_text())
    restored = pickle.loads(base64.b64decode(kept[name]))
    assert type(VALUES[name]) is type(restored)
    assert pickle.dumps(VALUES[name]) == pickle.dumps(restored)


READ_IN_NEW_PROCESSES = """
import base64, json, os, pathlib, pickle, sys

value = base64.b64decode(json.loads(pathlib.Path(sys.argv[1]).read_text())["row/1"])
assert pickle.loads(value) and "penstock" in sys.modules
for name, value in json.loads(pathlib.Path(sys.argv[1]).read_text()).items():
    pid = os.fork()
    if not pid:
        try:
            pickle.loads(base64.b64decode(value))
        except Exception as error:
            print(f"{name}: {error}", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_stored_type_is_found_by_its_tag_alone() -> None:
    """In a process that has imported nothing but `pickle`, each on its own."""
    command = [sys.executable, "-c", READ_IN_NEW_PROCESSES, str(FILES / "values.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert [] == ran.stdout.splitlines()


OF_BEAM = {"generated-row/1", "unbounded-part/1"}


def test_every_stored_type_has_a_golden_value() -> None:
    """In each version that can be read.  Those of Beam's package are in tests/beam."""
    kept = json.loads((FILES / "values.json").read_text())
    names = {f"{tag}/{version}" for tag, versions in tags().items() for version in versions}
    assert {name for name in names if not name.startswith("doctest-")} - OF_BEAM == set(kept)


@pytest.mark.parametrize("name", sorted(CHUNKS))
def test_a_chunk_of_an_earlier_version_is_read(name: str) -> None:
    """Of each kind one."""
    kept = json.loads((FILES / "chunks.json").read_text())
    (chunk,) = chunks_of([base64.b64decode(kept[name])])
    assert repr(CHUNKS[name]) == repr(chunk)


def test_every_kind_of_chunks_has_a_golden_one() -> None:
    """In each version that can be read."""
    kept = json.loads((FILES / "chunks.json").read_text())
    assert {f"{tag}/{version}" for tag, body in bodies().items() for version in body.readers} == set(kept)


KEYS = {
    "row": (beam.Row(a=1, b="x"), b"penstock.stored:row"),
    "sharded key": (ShardedKey("k", b"1"), b"penstock.stored:sharded-key"),
    "file metadata": (FileMetadata("a.txt", 5, 1.5), b"penstock.stored:file-metadata"),
}


@pytest.mark.parametrize(("key", "name"), KEYS.values(), ids=KEYS)
def test_the_key_group_of_a_key_does_not_depend_on_the_module_of_its_class(key: Any, name: bytes) -> None:
    """State by key is found by the encoding of the key, in which the class is named."""
    encoded = encode_key(key)
    assert name in encoded
    assert type(key).__module__.encode() not in encoded


def test_changes_of_side_inputs_are_stored_by_names_that_stay() -> None:
    """A checkpoint has the name of each kind; one that is added later is another name."""
    names = {"ALL": "all", "PANE": "pane", "COME": "come", "GONE": "gone", "EARLY": "early", "FREED": "freed"}
    assert names == {kind.name: kind.value for kind in ViewChangeKind}
