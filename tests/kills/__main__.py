"""Kill workers and coordinators, one run after the other: `python tests/kills --workers=100 --coordinators=20`.

With `--drivers=10` so many of Spark's drivers are killed, with their JVM and workers, and one more at each point of a
commit; and then so many clients of Spark Connect.  With `--executors=40` so many runs of pipelines in batch lose
executors of a cluster, shuffle files and tasks, and one run more over Spark Connect.
"""

from __future__ import annotations

import argparse
import pathlib
import secrets
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from kills.killed_drivers import POINTS, drivers_killed
from kills.killed_executors import executors_killed
from kills.killing import killed_once
from servers.spark_connect import running_connect_server

from penstock.runners.spark.micro_batch.commit_log import DRIVER_POINTS


def main() -> None:
    """Run until so many of each have been killed; the first wrong result ends it, with the seed to repeat it."""
    parser = argparse.ArgumentParser(prog="tests/kills", description=__doc__)
    parser.add_argument("--workers", type=int, default=100, help="how many workers to kill, at least")
    parser.add_argument("--coordinators", type=int, default=20, help="how many coordinators to kill, at least")
    parser.add_argument("--drivers", type=int, default=0, help="how many drivers of micro-batches to kill")
    parser.add_argument("--executors", type=int, default=0, help="how many runs in batch to take executors from")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    began = time.monotonic()
    for whom, wanted in (("worker", options.workers), ("coordinator", options.coordinators)):
        kills = runs = 0
        while kills < wanted:
            with tempfile.TemporaryDirectory(prefix="penstock-kills-") as directory:
                kills += killed_once(pathlib.Path(directory), whom, f"{options.seed}-{whom}-{runs}")
            runs += 1
        print(f"{kills} kills of a {whom} in {runs} runs: all results as without", flush=True)
    if options.drivers:
        with tempfile.TemporaryDirectory(prefix="penstock-kills-") as directory:
            kills = drivers_killed(pathlib.Path(directory), options.seed, options.drivers, POINTS)
        print(f"{kills} kills of a driver with its JVM and workers, at every point of a commit: all results as without")
        with tempfile.TemporaryDirectory(prefix="penstock-kills-") as directory:
            server, run = pathlib.Path(directory, "server"), pathlib.Path(directory, "run")
            for each in (server, run):
                each.mkdir()
            with running_connect_server(server) as url:
                where = f"--spark_remote={url}"
                kills = drivers_killed(run, options.seed, options.drivers, DRIVER_POINTS, where=where)
        print(f"{kills} kills of a client of Spark Connect: all results as without")
    if options.executors:
        with tempfile.TemporaryDirectory(prefix="penstock-kills-") as directory:
            losses = executors_killed(pathlib.Path(directory), options.seed, options.executors)
        print(f"{losses} losses in {options.executors} runs in batch: all results as without")
    print(f"seed {options.seed}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
