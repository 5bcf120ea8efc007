"""What it costs to move a shard: a worker restores the state of a subtask, by number of keys.

One worker fills the state with sums by key, another one restores it and runs a batch of one key.  For comparison the
first worker runs that batch too.  As in `state_memory` there is no Spark: each worker is a process that runs a subtask
as workers of Spark do, with a store on the local disk.  Times are CPU times of the worker.
"""

from __future__ import annotations

import json
import pathlib
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from harness.processes import output_of_program, peak_memory
from harness.timing import Figure, Figures

from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from spark.state_memory import Worker

KEYS = (10_000, 100_000, 1_000_000)
BATCHES = 20


def stayed(keys: int, directory: str) -> dict[str, Any]:
    """Fill the state, and measure a batch of one key with it, and the size of its files."""
    worker = _worker(directory)
    size = keys // BATCHES
    for number in range(1, BATCHES + 1):
        worker.run(number, range((number - 1) * size, number * size), 0)
    pathlib.Path(directory, "parts").write_bytes(pickle.dumps(worker.parts))
    files = sum(file.length for part in worker.parts.values() for file in part.files)
    before = time.process_time()
    worker.run(BATCHES + 1, [1], 0)
    return {"seconds": time.process_time() - before, "files": files / 1e6, "memory": peak_memory()}


def moved(keys: int, directory: str) -> dict[str, Any]:
    """Measure the first batch of another worker."""
    worker = _worker(directory)
    worker.parts = pickle.loads(pathlib.Path(directory, "parts").read_bytes())
    before, memory = time.process_time(), peak_memory()
    worker.run(BATCHES + 2, [1], 0)
    return {"seconds": time.process_time() - before, "memory": peak_memory() - memory}


def _worker(directory: str) -> Worker:
    store = SnapshotStore(disk_of(directory), directory, retain=2)
    store.take_over()
    return Worker(store, None)


def run() -> Iterator[Figures]:
    for keys in KEYS:
        with tempfile.TemporaryDirectory() as directory:
            first, other = (
                json.loads(output_of_program(__file__, what, str(keys), directory).splitlines()[-1])
                for what in ("stayed", "moved")
            )
        found = {
            "its files": Figure(first["files"], "MB", 1, limit=200),
            "the batch where the state is": Figure(first["seconds"], "s", 3, limit=1),
            "the first batch where it has moved to": Figure(other["seconds"], "s", 2, limit=40),
            "memory of the restored state": Figure(other["memory"], "MB", limit=2000),
        }
        yield Figures(f"{keys:,}", found, "keys in the shard")


if __name__ == "__main__":
    what, keys, directory = sys.argv[1:]
    print(json.dumps({"stayed": stayed, "moved": moved}[what](int(keys), directory)))
