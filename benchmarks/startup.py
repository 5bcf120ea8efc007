"""Start-up: the import, a pipeline of ten elements after it, and two workers after it."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from harness.processes import cpu_of, output_of
from harness.timing import RUNS, Quantity

_TEN_ELEMENTS = """
import time
import penstock as beam
before = time.process_time()
with beam.Pipeline() as p:
    p | beam.Create(range(10)) | "Add" >> beam.Map(lambda x: x + 1) | "Drop" >> beam.Filter(lambda x: False)
print(time.process_time() - before)
"""

# Each of two elements waits until both workers are at work.  The first run starts the template process.
_TWO_WORKERS = """
import os, tempfile, time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def wait(n):
    ready = time.monotonic()
    with open(f"{directory}/{n}", "w") as file:
        file.write(str(ready))
    while len(os.listdir(directory)) < 2:
        time.sleep(0.001)

for _ in range(2):
    with tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        with beam.Pipeline(options=PipelineOptions(["--parallelism=2"])) as p:
            _ = p | beam.Create([0, 1], reshuffle=False) | beam.Map(wait)
        print(max(float(open(f"{directory}/{n}").read()) for n in range(2)) - began)
"""

_HEAVY = """
import sys
import penstock
print(*(name for name in ("pyarrow", "pyspark", "numpy") if name in sys.modules))
"""


def write_bytecode() -> None:
    """As an installation has it: where Python writes none, what has changed is compiled at each start."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", _TEN_ELEMENTS], env=environment, check=True, stdout=subprocess.DEVNULL)


def run() -> list[Quantity]:
    write_bytecode()
    imported, empty, ten, workers = [], [], [], []
    for _ in range(2 * RUNS + 1):
        imported.append(cpu_of("-c", "import penstock"))
        empty.append(cpu_of("-c", "pass"))
        ten.append(float(output_of("-c", _TEN_ELEMENTS)))
        workers.append([1000 * float(seconds) for seconds in output_of("-c", _TWO_WORKERS).split()])
    heavy = output_of("-c", _HEAVY).split()
    assert not heavy, f"import penstock has imported {heavy}"
    return [
        Quantity("import penstock", 1000 * (median(imported) - median(empty)), 150, "ms"),
        Quantity("a pipeline of ten elements, after the import", 1000 * median(ten), 50, "ms"),
        Quantity("two workers ready, after the import", median(first for first, _ in workers), 150, "ms"),
        Quantity("two workers ready, in the second run", median(second for _, second in workers), 100, "ms"),
    ]
