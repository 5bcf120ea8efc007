"""Write the golden checkpoints: interrupt each pipeline, and keep its directory and its results.

    .venv/bin/python tests/golden/write.py            # those that aren't there
    .venv/bin/python tests/golden/write.py "loop"     # one, in place of what is there

A file that has been released is never written again: it shows that this version reads what an earlier one wrote.
"""

from __future__ import annotations

import base64
import io
import json
import pathlib
import pickle
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from golden.pipelines import GOLDEN, Golden, results
from golden.values import CHUNKS, VALUES

from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.streaming.snapshot_chunks import chunks_of, records_of

FILES = pathlib.Path(__file__).parent / "files"

# How many seeds are tried until there is a checkpoint with the kinds of chunks that it is to have.
_SEEDS = 40


def path_of(golden: Golden) -> pathlib.Path:
    """Return the archive of a pipeline's checkpoint."""
    return FILES / f"{golden.name.replace(',', '').replace(' ', '-')}.tar.gz"


def write(golden: Golden) -> None:
    """Write the archive, and the results of a run that isn't interrupted."""
    with tempfile.TemporaryDirectory() as whole:
        golden.run(pathlib.Path(whole))
        expected = results(pathlib.Path(whole))
    for seed in range(_SEEDS):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            golden.interrupt(directory, seed)
            assert results(directory) != expected, f"{golden.name}: everything was written already"
            if golden.kinds <= kinds_in(directory):
                pack(golden, directory, json.dumps(expected).encode())
                return
    raise AssertionError(f"{golden.name}: no checkpoint with {sorted(golden.kinds)}")


def kinds_in(directory: pathlib.Path) -> set[str]:
    """Return the kinds of chunks of the newest checkpoint."""
    store = SnapshotStore(LocalDisk(), str(directory / "kept"))
    if not (directory / "kept" / "files").exists():
        return set()
    checkpoint = store.checkpoints()[0]
    parts = [part for part in checkpoint.parts if part.name not in ("sinks", "driver")]
    records = (records for part in parts for _, records in store.read_part(part))
    return {chunk.kind.partition(" from ")[0] for own in records for chunk in chunks_of(own)}


def pack(golden: Golden, directory: pathlib.Path, expected: bytes) -> None:
    """Archive a directory, with the results that are expected."""
    FILES.mkdir(exist_ok=True)
    with tarfile.open(path_of(golden), "w:gz") as archive:
        for path in sorted(directory.rglob("*")):
            archive.add(path, str(path.relative_to(directory)), recursive=False, filter=_anonymous)
        entry = tarfile.TarInfo("expected.json")
        entry.size = len(expected)
        archive.addfile(entry, io.BytesIO(expected))


def write_bytes(name: str, made: dict[str, bytes]) -> None:
    """Add to a file the bytes, by name, that aren't in it."""
    path = FILES / name
    kept = json.loads(path.read_text()) if path.exists() else {}
    encoded = {each: base64.b64encode(data).decode() for each, data in made.items()}
    path.write_text(json.dumps(encoded | kept, indent=1, sort_keys=True) + "\n")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    write_bytes("values.json", {name: pickle.dumps(value, protocol=5) for name, value in VALUES.items()})
    write_bytes("chunks.json", {name: b"".join(records_of([chunk])) for name, chunk in CHUNKS.items()})
    for each in GOLDEN:
        if each.name in sys.argv[1:] or (not sys.argv[1:] and not path_of(each).exists()):
            write(each)
            print(f"{path_of(each).name}: {path_of(each).stat().st_size} bytes")
