"""The same pipeline in micro-batches on a cluster: a task fails, a speculative attempt wins, an executor dies.

    python unlucky_micro_batches.py --start_time=1700000000 --numbers=2000 --checkpoint_dir=/kept --spark_master=... ...

Each fault happens when a task has written its state, and leaves a file behind.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time

import attrs
from killed_pipeline import KillOptions, build
from pyspark import TaskContext

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner

# The batch of each.
FAILS, HAS_TWO_ATTEMPTS, LOSES_ITS_EXECUTOR = 2, 4, 6


@attrs.frozen
class InjectedFaults:
    """Faults of tasks with state, each injected once.

    Args:
      directory: of the files that record the faults.
    """

    directory: str

    def __call__(self, point: str, batch: int) -> None:
        context = TaskContext.get()
        if context is None or point != "after-state":
            return
        task = f"{batch}-{context.stageId()}-{context.partitionId()}"
        if batch == FAILS and self._is_first("failed"):
            raise RuntimeError("it fails, with its state written")
        if batch == LOSES_ITS_EXECUTOR and self._is_first("lost"):
            # The daemon that has forked this worker is a child of the executor.
            os.kill(_parent(os.getppid()), signal.SIGKILL)
            os._exit(1)
        if batch == HAS_TWO_ATTEMPTS:
            if context.attemptNumber() > 0:
                self._is_first(f"second-attempt-{task}")
            elif self._is_first("slow"):
                while not (pathlib.Path(self.directory) / f"second-attempt-{task}").exists():
                    time.sleep(0.01)

    def _is_first(self, what: str) -> bool:
        try:
            os.close(os.open(os.path.join(self.directory, what), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    """Run until all numbers are processed."""
    options = PipelineOptions(sys.argv[1:])
    own = options.view_as(KillOptions)
    here = os.getcwd()
    with beam.Pipeline(SparkMicroBatchRunner(reached=InjectedFaults(here)), options=options) as p:
        build(p, own.start_time, own.numbers, own.rate, here)


if __name__ == "__main__":
    main()
