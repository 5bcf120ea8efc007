"""Importing penstock is quick, and so are small pipelines: what only some need is imported by those."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["click", "datasketches", "fastavro", "numpy", "pandas", "pyarrow", "pyspark", "rich", "zstandard"]

# What jobs need, that have subtasks, channels and checkpoints.
OF_JOBS = [
    "multiprocessing",
    "penstock.io.files",
    "penstock.testing.util",
    "penstock.runners.local.job.job",
    "socket",
    "sqlite3",
]

# What few pipelines need, and takes a tenth of the time of a small one.
RARE = [
    "penstock.runners.execution.state.stateful_pardo",
    "penstock.runners.execution.streaming.task_program",
    "shutil",
    "zoneinfo",
]

# What groupings need besides.
OF_GROUPINGS = [
    "msgspec",
    "penstock.runners.execution.shuffle.blocks",
    "penstock.runners.execution.windows.cell_table",
]

# The clients of connectors, of which a program needs those that it uses.
CLIENTS = [
    "botocore",
    "confluent_kafka",
    "deltalake",
    "fsspec",
    "nats",
    "paho",
    "psycopg",
    "pyiceberg",
    "redis",
    "s3fs",
    "sqlalchemy",
]

CONNECTORS = """
import penstock as beam
beam.io.FromDebezium(), beam.io.ReadFromText("in"), beam.io.WriteToSQLite
beam.io.ReadFromDelta, beam.io.ReadFromDeltaChanges, beam.io.WriteToDelta
beam.io.ReadFromIceberg, beam.io.ReadFromIcebergChanges, beam.io.WriteToIceberg
beam.io.ReadFromKafka, beam.io.ReadFromMqtt, beam.io.ReadFromNats
beam.io.ReadFromPostgresChanges, beam.io.ReadFromRedisStream, beam.io.ReadFromSQL
"""

TEN_ELEMENTS = """
import penstock as beam
with beam.Pipeline() as p:
    p | beam.Create(range(10)) | beam.Map(lambda x: (x % 2, x)) | beam.CombinePerKey(sum) | beam.Filter(bool)
"""


WITHOUT_A_GROUPING = TEN_ELEMENTS.replace("| beam.CombinePerKey(sum)", "")


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("import penstock", [*HEAVY, *OF_JOBS, *RARE, *OF_GROUPINGS]),
        (WITHOUT_A_GROUPING, [*HEAVY, *OF_JOBS, *RARE, *OF_GROUPINGS]),
        (TEN_ELEMENTS, [*HEAVY, *OF_JOBS]),
        (CONNECTORS, CLIENTS),
    ],
    ids=["import", "without a grouping", "pipeline", "connectors"],
)
def test_what_is_not_needed_is_not_imported(program: str, names: list[str]) -> None:
    """In an interpreter of its own, which has imported nothing before."""
    code = f"{program}\nimport sys; print([name for name in {names!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "[]" == ran.stdout.strip()


TWO_WORKERS = """
import sys
import penstock as beam
from penstock.sdk.options import PipelineOptions
from penstock.sdk.userstate import ReadModifyWriteStateSpec

class Imported(beam.DoFn):
    LAST = ReadModifyWriteStateSpec("last")

    def process(self, element, last=beam.DoFn.StateParam(LAST)):
        last.write(element)
        known = TEMPLATE
        print(sorted(name for name in sys.modules if name.startswith("penstock.") and name not in known))

with beam.Pipeline("local", PipelineOptions(["--parallelism=2"])) as p:
    pairs = p | beam.Create([(1, 1)])
    sums = pairs | beam.CombinePerKey(sum)
    groups = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, values: (key, len(values)))
    (sums, groups) | beam.Flatten() | beam.ParDo(Imported())
"""


def test_workers_import_nothing_of_their_own() -> None:
    """Each of them would take the time again."""
    modules = "penstock.runners.local.worker_template, penstock.runners.local.batch.workers"
    imported = f"import sys, {modules}; print(sorted(sys.modules))"
    template = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, check=True)
    program = TWO_WORKERS.replace("TEMPLATE", template.stdout.strip())
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ["[]", "[]"] == ran.stdout.splitlines()


# What the template of a batch run's workers leaves to those of jobs.
OF_STREAMS = [
    "penstock.io.files",
    "penstock.runners.execution.checkpoints.manifest",
    "penstock.runners.execution.streaming",
    "penstock.runners.local.channels.channel",
]

START_OF_THE_TEMPLATE = """
import sys
import penstock as beam
from penstock.runners.local.workers import template
from penstock.sdk.options import PipelineOptions

def begin_template(module):
    __import__(module) if IMPORTS else None
    sys.exit(str([name for name in NAMES if name in sys.modules]))

template.begin_template = begin_template
p = beam.Pipeline("local", PipelineOptions(["--parallelism=2"]))
p | beam.Create([1])
p.run()
"""


@pytest.mark.parametrize(
    ("imports", "names"),
    [(False, ["penstock.runners.execution.stages", "penstock.runners.execution.plan.fusion"]), (True, OF_STREAMS)],
    ids=["before the program's imports", "what it imports"],
)
def test_the_template_is_ready_soon(imports: bool, names: list[str]) -> None:
    """It starts before the program imports its runner, and a batch run's has nothing of streams."""
    program = START_OF_THE_TEMPLATE.replace("IMPORTS", str(imports)).replace("NAMES", str(names))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "[]" == ran.stderr.strip()


SPECIALIZED = """
import dis
import penstock as beam

def function():
    return beam.Row, beam.window.TimestampedValue, beam.io

for _ in range(100):
    function()
print(*(i.opname for i in dis.get_instructions(function, adaptive=True) if i.opname.startswith("LOAD_ATTR")))
"""


def test_accesses_to_names_are_specialized() -> None:
    """Functions of elements say `beam.window.TimestampedValue`; a module with a `__getattr__` makes that slower."""
    ran = subprocess.run([sys.executable, "-c", SPECIALIZED], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ["LOAD_ATTR_MODULE"] * 4 == ran.stdout.split()
