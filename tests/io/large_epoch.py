"""Writes one large transaction through a sink: `python large_epoch.py KIND SERVER PLACE RECORDS`.

It prints by how many MB the process grew at most, after a small transaction.  Of four elements of a sink that accepts
retractions, the second takes back the first.
"""

from __future__ import annotations

import pathlib
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import LabelledSink

BUNDLE = 5_000


def value_of(n: int) -> str:
    """A value of some 70 bytes, half of which differs from those of its neighbours."""
    return f'{{"user": {n * 7919 % 1_000_003}, "session": "{n * 0x9E3779B97F4A7C15 % 2**128:032x}"}}'


def pair(key: str, n: int) -> Any:
    return key, value_of(n)


def pair_of_bytes(key: str, n: int) -> Any:
    return key.encode(), value_of(n).encode()


def message(key: str, n: int) -> Any:
    return value_of(n).encode()


def row(key: str, n: int) -> Any:
    return {"key": key, "value": value_of(n)}


def transform_of(kind: str, server: str, place: str) -> tuple[Any, Callable[[str, int], Any], bool]:
    """Return the transform that writes, what makes its elements, and whether it accepts retractions."""
    match kind:
        case "redis":
            return beam.io.WriteToRedis(server, f"{place}:"), pair, True
        case "redis stream":
            return beam.io.WriteToRedisStream(server, place), row, False
        case "kafka":
            return beam.io.WriteToKafka({"bootstrap.servers": server}, place), pair_of_bytes, False
        case "kafka upserts":
            write = beam.io.WriteToKafka({"bootstrap.servers": server}, place, retractions="upsert")
            return write, pair_of_bytes, True
        case "nats":
            return beam.io.WriteToNats(server, f"{place}.n"), message, False
        case "mqtt":
            return beam.io.WriteToMqtt(server, place), message, False
        case "iceberg":
            import pyarrow

            schema = pyarrow.schema([("key", pyarrow.string()), ("value", pyarrow.string())])
            catalog = {"warehouse": server}
            return beam.io.WriteToIceberg(place, catalog_properties=catalog, schema=schema, key="key"), row, True
        case "delta":
            import pyarrow

            schema = pyarrow.schema([("key", pyarrow.string()), ("value", pyarrow.string())])
            return beam.io.WriteToDelta(place, schema, key="key"), row, True
    raise ValueError(kind)


def bundles(element: Callable[[str, int], Any], first: int, records: int, retracting: bool) -> Iterator[Bundle]:
    """Yield the elements of an epoch, in bundles of a time each."""
    for start in range(first, first + records, BUNDLE):
        numbers = range(start, min(start + BUNDLE, first + records))
        if not retracting:
            yield Bundle([element(f"user-{n}", n) for n in numbers], start)
            continue
        taken_back = [n - 1 if n % 4 == 1 else n for n in numbers]
        signs = [-1 if n % 4 == 1 else 1 for n in numbers]
        yield Bundle([element(f"user-{n}", n) for n in taken_back], start, signs=signs)


def written(sink: LabelledSink, transaction: str, elements: Iterator[Bundle]) -> None:
    """Write a transaction as a runner does; its token goes through a checkpoint."""
    sink.prepare(transaction)
    writer = sink.sink.open_writer(sink.context(transaction, "unit"))
    for bundle in elements:
        writer.write(bundle)
    token = pickle.dumps(writer.stage(), protocol=5)
    del writer
    staged = [pickle.loads(token)]
    del token
    sink.precommit({transaction: staged})
    sink.commit(transaction, staged)


def status(name: str) -> float:
    """The process's memory of this name, in MB."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(name))


def main() -> None:
    """Print the growth of the process."""
    kind, server, place, records = sys.argv[1:]
    transform, element, retracting = transform_of(kind, server, place)
    sink = LabelledSink(transform.sink, "Write", many_transactions=True)
    series = uuid.uuid4().hex[:8]
    written(sink, f"00000001-{series}", bundles(element, 0, 1_000, retracting))
    # The peak begins anew.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    written(sink, f"00000002-{series}", bundles(element, 1_000, int(records), retracting))
    print(status("VmHWM") - before)
    sink.close()


if __name__ == "__main__":
    main()
