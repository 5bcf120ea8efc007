"""A subtask with a million keys: its worker's memory and the time of batches, with and without `--state_memory`.

20 batches add 50,000 keys each, 10 batches change 10,000 keys each, and then the window closes.  At the end another
worker restores the state from before that.  There is no Spark: each worker is a process that runs the subtasks of a
pipeline as Spark's workers do, with a store on the local disk.  Times are CPU times of the worker, RocksDB included.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from harness.keeping_sink import KeepingSink
from harness.processes import output_of_program, peak_memory
from harness.timing import Figure, Figures

import penstock as beam
from penstock.runners.execution.checkpoints.manifest import PartReference
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.spark.micro_batch.commit_log import StatePart
from penstock.runners.spark.micro_batch.exchange import SubtaskResult, addressed
from penstock.runners.spark.micro_batch.plan import PlannedBatch, ScriptedElements
from penstock.runners.spark.micro_batch.subtask import Program, SubtaskCache
from penstock.sdk.elements.bundle import BUNDLE_SIZE, Bundle
from penstock.windowing.timestamp import MAX_MICROS

KEYS, FILLING, CHANGED, CHANGING = 1_000_000, 20, 10_000, 10
DAY = 24 * 60 * 60
STRIDE = 7_919
# About a tenth of the memory of the windows.
LIMIT = 40 << 20


class Worker:
    """Runs the batches of sums by key, with one subtask of each task."""

    def __init__(self, store: SnapshotStore, limit: int | None) -> None:
        p = beam.Pipeline()
        stream = p | "Pairs" >> beam.testing.TestStream().add_elements([(0, 0)])
        sums = stream | beam.WindowInto(beam.window.FixedWindows(DAY)) | beam.CombinePerKey(sum)
        sums | beam.io.Write(KeepingSink())
        graph = p.graph()
        self._pcollection = next(i for t in graph.transforms if t.label == "Pairs" for i in t.outputs.values())
        cut_graph = cut(fuse(graph, lambda *_: False), 1, by_level=True)
        self._program = Program(cut_graph, store, state=StateSettings(limit) if limit else None)
        self._store = store
        self._cache = SubtaskCache(self._program)
        self.parts: dict[SubtaskId, PartReference] = {}

    def run(self, number: int, keys: Any, watermark: int) -> None:
        """Run and commit one batch."""
        bundles = []
        for start in range(0, len(keys), BUNDLE_SIZE):
            pairs = [(key, 1) for key in keys[start : start + BUNDLE_SIZE]]
            bundles.append(ScriptedElements("Pairs", self._pcollection, Bundle(pairs, 0)))
        batch = PlannedBatch(number, 0, "", tuple(bundles), {self._pcollection: watermark})
        self._store.begin(number)
        rows: list[Any] = [pickle.dumps(batch.splits_of(0, 1))]
        results: list[SubtaskResult] = []
        for task in range(self._program.tasks):
            id = SubtaskId(task, 0)
            parts = [StatePart(self.parts[id], 0, 1)] if id in self.parts else []
            subtask = self._cache.take(id, batch, parts)
            sent = [addressed(row) for _, row in subtask.run(batch, rows)]
            rows = [data for to, data in sent if to < self._program.tasks]
            results += [pickle.loads(data) for to, data in sent if to == self._program.tasks]
            self._cache.subtasks[id] = subtask
        self.parts = {result.id: result.part for result in results if result.part is not None}
        self._store.commit(number, list(self.parts.values()))


def measured(limit: int | None, directory: str) -> dict[str, Any]:
    """Measure a run: CPU seconds of batches, and the worker's peak in MB with all keys and after the windows close."""
    store = SnapshotStore(disk_of(directory), directory, retain=1)
    store.take_over()
    worker = Worker(store, limit)
    seconds: list[float] = []
    size = KEYS // FILLING
    for number in range(1, FILLING + CHANGING + 1):
        before = time.process_time()
        if number <= FILLING:
            worker.run(number, range((number - 1) * size, number * size), 0)
        else:
            worker.run(number, [(number * CHANGED + n) * STRIDE % KEYS for n in range(CHANGED)], 0)
        seconds.append(time.process_time() - before)
    kept = peak_memory()
    parts = worker.parts
    with open(f"{directory}/parts", "wb") as file:
        pickle.dump(parts, file)
    before = time.process_time()
    worker.run(FILLING + CHANGING + 1, [], MAX_MICROS)
    return {
        "filling": median(seconds[1:FILLING]),
        "changing": median(seconds[FILLING:]),
        "closing": time.process_time() - before,
        "kept": kept,
        "closed": peak_memory(),
    }


def taken_over(limit: int | None, directory: str) -> dict[str, Any]:
    """Measure a worker that restores the state of the batch before last: CPU seconds of its first batch, and peak."""
    store = SnapshotStore(disk_of(directory), directory, retain=1)
    store.take_over()
    worker = Worker(store, limit)
    with open(f"{directory}/parts", "rb") as file:
        worker.parts = pickle.load(file)
    before = time.process_time()
    worker.run(FILLING + CHANGING + 2, [1], 0)
    return {"loading": time.process_time() - before, "loaded": peak_memory()}


# By what was measured, the row.
PEAKS = {
    "kept": "peak with a million keys",
    "closed": "peak after their window has closed in one batch",
    "loaded": "peak of another worker that restores the state",
}
SECONDS = {
    "filling": "a batch of 50,000 new keys",
    "changing": "a batch that changes 10,000 keys",
    "closing": "the batch that closes a million windows",
    "loading": "another worker restores the state: its first batch",
}


def run() -> Iterator[Figures]:
    found: list[dict[str, Any]] = []
    for limit in (0, LIMIT):
        with tempfile.TemporaryDirectory() as directory:
            found.append({})
            for what in ("measured", "taken over"):
                found[-1] |= json.loads(output_of_program(__file__, what, str(limit), directory).splitlines()[-1])
    without, limited = found
    columns = "without a limit", f"`--state_memory={LIMIT >> 20}MB`"
    for name, row in PEAKS.items():
        peaks = Figure(without[name], "MB", limit=2000), Figure(limited[name], "MB", limit=500)
        yield Figures(row, dict(zip(columns, peaks, strict=True)))
    for name, row in SECONDS.items():
        times = Figure(without[name], "s", 2), Figure(limited[name], "s", 2, limit=20 * without[name])
        yield Figures(row, dict(zip(columns, times, strict=True)))


if __name__ == "__main__":
    what, limit, directory = sys.argv[1:]
    work = {"measured": measured, "taken over": taken_over}[what]
    print(json.dumps(work(int(limit) or None, directory)))
