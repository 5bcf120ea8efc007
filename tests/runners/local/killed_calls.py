"""Async calls in processes that are killed: `python killed_calls.py PARALLELISM NUMBERS RATE START ORDERED`.

It stops with a savepoint, or drains, when there is a file called `stop` or `drain`.
"""

from __future__ import annotations

import asyncio
import pathlib
import random
import sys
import uuid
from typing import Any

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.runner import PipelineState


async def answer(pair: tuple[int, int]) -> tuple[int, int]:
    """A call that takes up to 0.4 s."""
    await asyncio.sleep(random.uniform(0, 0.4))
    return pair


def main(parallelism: str, numbers: str, rate: str, start: str, ordered: str) -> None:
    """Ask for each number, and write the answers into a table."""
    flags: dict[str, Any] = {"checkpoint_interval": 0.1, "max_restarts": 1000, "restart_delay": 0.01}
    options = PipelineOptions([], parallelism=int(parallelism), checkpoint_dir="kept", **flags)
    p = beam.Pipeline("local", options=options)
    read = beam.io.GenerateSequence(0, int(numbers), int(rate), 1, partitions=3, start_time=int(start))
    order: Any = {"no": False, "all": True, "key": "key"}[ordered]
    asked = p | read | beam.Map(lambda n: (n % 7, n)) | beam.Reshuffle()
    answers = asked | beam.AsyncMap(answer, concurrency=100, ordered=order)
    # A number that was answered twice would have two rows.
    rows = answers | beam.MapTuple(lambda key, n: {"id": uuid.uuid4().hex, "n": n})
    _ = rows | beam.io.WriteToSQLite("out.db", "numbers", "id", {"id": str, "n": int})
    result = p.run()
    stop, drain = pathlib.Path("stop"), pathlib.Path("drain")
    while not PipelineState.is_terminal(result.state):
        result.wait_until_finish(100)
        if stop.exists():
            result.stop_with_savepoint()
        elif drain.exists():
            result.drain()
    print("ended:", result.state, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
