"""A program in which no fork is safe: it runs a pipeline in two workers, so many times.

A thousand threads wait, some of them with locks; others log to a queue, and take the lock of imports.  A Kafka client,
a channel of gRPC, a database of RocksDB and threads of Arrow and NumPy are there.

    python busy_program.py RUNS --start_method=spawn
"""

from __future__ import annotations

import _imp
import contextlib
import logging.handlers
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

THREADS = 1000


def hold(lock: threading.Lock) -> None:
    """Hold a lock for ever."""
    with lock:
        threading.Event().wait()


def log() -> None:
    """Log for ever."""
    while True:
        logging.getLogger("busy").info("a line")
        time.sleep(0.001)


def import_in_turn() -> None:
    """Have the lock of imports half of the time."""
    while True:
        _imp.acquire_lock()
        try:
            time.sleep(0.002)
        finally:
            _imp.release_lock()
        time.sleep(0.002)


@contextlib.contextmanager
def clients(directory: str) -> Iterator[None]:
    """Libraries with threads of their own, at work."""
    import confluent_kafka
    import grpc
    import numpy
    import pyarrow.compute
    import rocksdict

    producer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:9", "log_level": 0})
    producer.produce("topic", b"value")
    channel = grpc.insecure_channel("127.0.0.1:9")
    channel.subscribe(lambda state: None, try_to_connect=True)
    database: Any = rocksdict.Rdict(directory)
    database["key"] = "value"
    numpy.ones((300, 300)) @ numpy.ones((300, 300))
    pyarrow.compute.sum(pyarrow.array(range(1000)))
    pyarrow.table({"n": range(10_000)}).sort_by("n")
    yield
    channel.close()
    database.close()
    producer.purge()


def begin_threads() -> None:
    """Start them; all end with the program."""
    threading.stack_size(256 * 1024)
    for _ in range(THREADS):
        threading.Thread(target=hold, args=[threading.Lock()], daemon=True).start()
    threading.stack_size(0)
    records: queue.Queue[Any] = queue.Queue()
    logging.root.addHandler(logging.handlers.QueueHandler(records))
    logging.root.setLevel(logging.INFO)
    logging.handlers.QueueListener(records, logging.FileHandler("/dev/null")).start()
    for target in (log, import_in_turn):
        threading.Thread(target=target, daemon=True).start()


def run_once(results: str, flags: list[str]) -> None:
    """Run a pipeline with a shuffle, which logs."""

    def keyed(n: int) -> tuple[int, int]:
        logging.getLogger("worker").debug("%s", n)
        return n % 7, n

    with beam.Pipeline(options=PipelineOptions(flags)) as p:
        sums = p | beam.Create(range(100)) | beam.Map(keyed) | beam.CombinePerKey(sum)
        _ = sums | beam.Map(str) | beam.io.WriteToText(results, num_shards=1, shard_name_template="")
    with open(results) as file:
        found = sorted(file.read().splitlines())
    expected = sorted(str((key, sum(range(key, 100, 7)))) for key in range(7))
    assert expected == found, found


def main() -> None:
    """Run it so many times, and say how often it has."""
    runs, flags = int(sys.argv[1]), ["--parallelism=2", *sys.argv[2:]]
    with tempfile.TemporaryDirectory() as directory, clients(f"{directory}/database"):
        begin_threads()
        for number in range(1, runs + 1):
            run_once(f"{directory}/sums", flags)
            print(number, flush=True)


if __name__ == "__main__":
    main()
