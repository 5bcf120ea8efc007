"""The same pipeline in micro-batches on Spark, in a process that is killed together with its child processes.

    python killed_micro_batches.py --start_time=1700000000 --numbers=2000 --checkpoint_dir=kept --die=after-state ...

With `--die=POINT` all processes of its session kill themselves there, in the second batch of this start.
"""

from __future__ import annotations

import os
import pathlib
import sys

import attrs
from killed_pipeline import KillOptions, build
from sessions import kill_session

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner


@attrs.define
class Death:
    """Comes to the whole session, from whichever process is at the point first in its second batch.

    Attributes:
      died: the file that tells of it.
    """

    point: str | None
    died: str
    batches: set[int] = attrs.field(factory=set)

    def __call__(self, point: str, batch: int) -> None:
        if point != self.point:
            return
        self.batches.add(batch)
        if len(self.batches) >= 2:
            pathlib.Path(self.died).write_text(f"{point}, batch {batch}")
            kill_session(os.getsid(0))


def main() -> None:
    """Run until all numbers are processed."""
    options = PipelineOptions(sys.argv[1:])
    own = options.view_as(KillOptions)
    here = os.getcwd()
    death = Death(own.die, os.path.join(here, "died"))
    with beam.Pipeline(SparkMicroBatchRunner(reached=death), options=options) as p:
        build(p, own.start_time, own.numbers, own.rate, here)
    print("ended:", p.result.state, flush=True)


if __name__ == "__main__":
    main()
