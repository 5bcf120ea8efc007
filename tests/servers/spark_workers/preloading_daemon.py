"""PySpark's daemon of Python workers, with what each of them imports.

A worker ends with a task that fails, and hundreds of tests let one fail.  The next worker would import PySpark and
penstock again, for half a second.  Forked from here it has them.

The directory is on the path of workers.  It holds nothing else, because tests can't be imported there by their names.
"""

import importlib
import os

import pyspark.daemon

# Modules that start no threads: a fork would not have those.
MODULES = [
    "pyspark.worker",
    "penstock.runners.spark.batch.partition_function",
    "penstock.runners.spark.micro_batch.spark_job",
    "penstock.runners.spark.micro_batch.subtask",
    "penstock.testing",
]

if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    threads = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else [""]
    if len(threads) > 1:
        raise RuntimeError(f"expected one thread in the daemon, got {len(threads)}: leave out a module of MODULES")
    pyspark.daemon.manager()
