"""Readers of unbounded sources, polled as a runner does, and held to what every one of them promises."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from penstock.sdk.elements.bundle import Bundle, expanded
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing import Timestamp


def elements(bundle: Bundle | None) -> list[tuple[Any, int]]:
    """Values with their timestamps in microseconds."""
    if bundle is None:
        return []
    return list(zip(bundle.values, expanded(bundle.timestamps, len(bundle)), strict=True))


def polled(reader: UnboundedReader[Any], now: Any, max_elements: int = 1000) -> list[Any]:
    """The values that there are now, poll by poll until nothing comes."""
    values: list[Any] = []
    while bundle := reader.poll(max_elements, Timestamp.of(now)):
        assert len(bundle) <= max_elements
        values += bundle.values
    return values


def check_replay(source: UnboundedSource[Any], partition: Any, now: Any, max_elements: int = 2) -> list[Any]:
    """Read a partition in small polls, and again from every offset on the way: the same must come.

    Micro-batches, each read by a reader of its own, must add up to the same.  Gives the values.
    """
    at = Timestamp.of(now)
    source = pickle.loads(cloudpickle.dumps(source))
    reader = source.open(partition, None)
    parts, offsets = [], [reader.offset()]
    while bundle := reader.poll(max_elements, at):
        parts.append(bundle.values)
        offsets.append(reader.offset())
    # What isn't an element, such as a header, may have been passed.
    finally_at = reader.offset()
    reader.close()
    for i, offset in enumerate(offsets):
        again = source.open(partition, pickle.loads(pickle.dumps(offset)))
        assert [v for part in parts[i:] for v in part] == polled(again, now, max_elements)
        assert finally_at == again.offset()
        again.close()
    planner, batches, start = source.open(partition, None), [], offsets[0]
    while (end := planner.admit(max_elements, None, at)) != start:
        executor = source.open(partition, start)
        batches.append([v for bundle in executor.read_to(end, at) for v in bundle.values])
        assert len(batches[-1]) <= max_elements
        assert end == executor.offset()
        executor.close()
        start = end
    planner.close()
    values = [v for part in parts for v in part]
    assert values == [v for batch in batches for v in batch]
    return values
