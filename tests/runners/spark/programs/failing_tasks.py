"""Tasks that fail once, or always while others write.  Reports the outcome of each case."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock as beam
from penstock.sdk.metrics import Metrics

# The number of keys, and of values of each; the task of one key fails.
KEYS, VALUES, CULPRIT = 8, 50, 3


class Fail(beam.DoFn):
    """Outputs its input, and fails in between.

    Args:
      how: the kind of failure: an exception, or the end of the worker's process.
      times: the number of failures, which files in `directory` count.
    """

    def __init__(self, how: str, times: int, directory: str) -> None:
        self.how = how
        self.times = times
        self.directory = Path(directory)

    def process(self, element: Any) -> Any:
        key, values = element
        for value in values:
            Metrics.counter("tests", "values").inc()
            yield f"{key} {value}"
        if key == CULPRIT:
            (self.directory / f"attempt-{time.time_ns()}").touch()
            if len(list(self.directory.glob("attempt-*"))) <= self.times:
                if self.how == "exit":
                    os._exit(9)
                raise ConnectionResetError("it can't be reached")
        elif self.times > 100:
            # Still writing when the other task has failed for the last time.
            time.sleep(1)


def run(how: str, times: int, directory: Path) -> dict[str, Any]:
    p = beam.Pipeline(runner="spark-batch")
    pairs = p | beam.Create([(i % KEYS, i // KEYS) for i in range(KEYS * VALUES)])
    lines = pairs | beam.GroupByKey() | beam.ParDo(Fail(how, times, str(directory)))
    # A sink in the segment that fails, and one behind another shuffle.
    lines | "write lines" >> beam.io.WriteToText(str(directory / "lines"))
    counts = lines | beam.Map(lambda line: line.split()[0]) | beam.combiners.Count.PerElement()
    counts | beam.MapTuple("{} {}".format) | "write counts" >> beam.io.WriteToText(str(directory / "counts"))
    try:
        result = p.run()
    except Exception as error:
        report: dict[str, Any] = {
            "error": str(error),
            "cause": str(error.__cause__),
            "kinds": [kind.__name__ for kind in type(error).__mro__],
            "left": left_in(directory),
        }
        # No task writes any more.
        time.sleep(3)
        report["left later"] = left_in(directory)
        return report
    return {counter.key.metric.name: counter.committed for counter in result.metrics().query()["counters"]}


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("attempt-"))


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--master", required=True)
    own = parser.parse_args(argv)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(own.master).config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    for name, how, times in [("raises", "raise", 1), ("exits", "exit", 1), ("for good", "raise", 1000)]:
        directory = own.directory / name
        directory.mkdir()
        report = run(how, times, directory)
        (own.directory / f"{name}.json").write_text(json.dumps(report))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
