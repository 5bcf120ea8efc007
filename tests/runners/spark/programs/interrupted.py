"""A run that is interrupted, as by Ctrl-C, while tasks write, and another run in the same session."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock as beam


class Slow(beam.DoFn):
    """Takes minutes, and writes a file when it begins."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def process(self, element: Any) -> Any:
        (self.directory / f"begun-{element}").touch()
        for i in range(600):
            yield f"{element} {i}"
            time.sleep(0.2)


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    output = directory / "output"
    output.mkdir()
    p = beam.Pipeline(runner="spark-batch")
    p | beam.Create(range(2)) | beam.ParDo(Slow(str(directory))) | beam.io.WriteToText(str(output / "slow"))
    report: dict[str, Any] = {}
    try:
        p.run()
    except KeyboardInterrupt:
        report["active"] = len(session.sparkContext.statusTracker().getActiveJobsIds())
        report["left"] = left_in(output)
        time.sleep(1)
        report["left later"] = left_in(output)
    p = beam.Pipeline(runner="spark-batch")
    p | beam.Create([1, 2]) | beam.CombineGlobally(sum) | beam.io.WriteToText(str(output / "next"))
    p.run()
    report["next"] = [line for path in output.glob("next*") for line in path.read_text().splitlines()]
    (directory / "report.json").write_text(json.dumps(report))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
