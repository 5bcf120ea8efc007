"""Runs on a cluster that loses executors, shuffle files, cached blocks and tasks: the results are those without."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from kafka.broker import KafkaBroker
from kafka.packages import why_there_is_no_broker
from kills.lossy_program import PIPELINES, Losses, Program
from servers.spark_connect import running_connect_server
from servers.spark_standalone import running_cluster
from support.programs.spark_programs import environment

PROGRAM = pathlib.Path(__file__).with_name("lossy_program.py")

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.default.parallelism": "8",
    "spark.ui.enabled": "false",
    "spark.task.maxFailures": "8",
    "spark.stage.maxConsecutiveAttempts": "8",
}

# Tasks begin when both executors are there, so that each has some of the first stage's output.
BOTH = SETTINGS | {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}

# The tasks that tick, at least, in a run without losses.
TASKS = dict.fromkeys(PIPELINES, 16) | {"hot_key_fanout": 8, "fanout": 8, "side_input": 9}

# What a run loses, by its number: see `lossy_program.Losses`.  "moment" is an executor at a random moment.
KINDS = (("executor",), ("files", "moment"), ("executor", "time"), ("task", "executor"))


class LossyRun:
    """One run of a pipeline.

    Args:
      directory: a new one.
      lost: by the number of tasks, what is lost then.
      settings: of Spark.
    """

    def __init__(
        self, directory: pathlib.Path, name: str, size: int, lost: Sequence[tuple[int, str]], settings: dict[str, str]
    ) -> None:
        directory.mkdir()
        # Beside the package's other files it would pass for a part of it.
        shutil.copy(PROGRAM, directory / "program.py")
        self.directory = directory
        self.name = name
        self.size = size
        self._lost = lost
        self._settings = settings
        self.log = ""

    def run(self, flags: Sequence[str], broker: str = "", while_it_runs: Callable[[], Any] = lambda: None) -> None:
        """Run to the end, and compare the results."""
        command = [sys.executable, "program.py", self.name, f"--directory={self.directory}", f"--size={self.size}"]
        command += [f"--lose={at}:{kind}" for at, kind in self._lost]
        command += [f"--broker={broker}", "--runner=spark-batch", *flags]
        command += [f"--spark_conf={name}={value}" for name, value in self._settings.items()]
        with open(self.directory / "log", "wb") as log:
            program = subprocess.Popen(
                command, cwd=self.directory, env=environment(PYTHONDONTWRITEBYTECODE="1"), stdout=log, stderr=log
            )
            try:
                while_it_runs()
                program.wait(500)
            finally:
                program.kill()
        self.log = (self.directory / "log").read_text(errors="replace")
        assert program.returncode == 0, self.log[-4000:]
        wrong = Program(self.size, Losses(str(self.directory), ()), broker).wrong(self.name)
        assert not wrong, wrong

    @property
    def losses(self) -> list[str]:
        """What was lost."""
        place = self.directory / "losses"
        return sorted(file.name for file in place.iterdir()) if place.is_dir() else []

    @property
    def repetitions(self) -> int:
        """How often segments ran again, since several attempts were read."""
        return self.log.count("running this segment again")


def kill_an_executor(cluster: pathlib.Path, choose: random.Random, run: pathlib.Path) -> None:
    """Kill an executor of a cluster some seconds after the first task of a run; note it as a loss."""
    waited = threading.Event()
    for _ in range(1200):
        if (run / "tasks").is_dir() and any((run / "tasks").iterdir()):
            break
        waited.wait(0.1)
    waited.wait(choose.uniform(0, 8))
    alive = sorted(_executors(cluster))
    if alive:
        os.kill(choose.choice(alive), signal.SIGKILL)
        (run / "losses" / "moment").touch()


def _executors(cluster: pathlib.Path) -> Iterator[int]:
    for process in pathlib.Path("/proc").iterdir():
        with suppress(OSError):
            is_executor = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if is_executor and (process / "cwd").resolve().is_relative_to(cluster.resolve()):
                yield int(process.name)


def executors_killed(
    directory: pathlib.Path,
    seed: str,
    runs: int,
    size: int = 20_000,
    names: Sequence[str] = PIPELINES,
    report: Callable[[str], Any] = print,
) -> int:
    """Run the pipelines in turn; return how often something was lost.

    Raises `AssertionError` for other results than those of runs without losses.
    """
    losses = 0
    needs_broker = "kafka" in [names[number % len(names)] for number in range(runs)]
    if needs_broker:
        missing = why_there_is_no_broker()
        assert missing is None, missing
    with (
        running_cluster(directory, 3) as url,
        KafkaBroker.running() if needs_broker else nullcontext() as broker,
    ):
        for number in range(runs):
            name = names[number % len(names)]
            choose = random.Random(f"{seed}-{number}")
            # In the first turn, each kind of loss already.
            kinds = KINDS[(number + number // len(names)) % len(KINDS)]
            at = sorted(choose.sample(range(1, TASKS[name] + 1), len(kinds)))
            lost = [(n, kind) for n, kind in zip(at, kinds, strict=True) if kind != "moment"]
            settings = SETTINGS | (SPECULATION if "time" in kinds else {})
            if "task" in kinds:
                settings |= {"spark.python.worker.reuse": "false"}
            place = directory / f"run-{number}"
            run = LossyRun(place, name, size, lost, settings)
            address = ""
            if name == "kafka":
                assert broker is not None
                broker.create_topic(place.name, 2)
                address = broker.address

            def kill(place: pathlib.Path = place, choose: random.Random = choose) -> None:
                kill_an_executor(directory, choose, place)

            try:
                run.run([f"--spark_master={url}"], address, kill if "moment" in kinds else lambda: None)
            except BaseException:
                report(f"seed {seed}, run {number}, {name}, {lost}: {run.losses}")
                raise
            found = run.losses
            losses += len(found)
            report(f"run {number}: {name} lost {', '.join(found) or 'nothing'}; repeated {run.repetitions} times")
        run = killed_over_spark_connect(directory, url, size)
        report(f"over Spark Connect: {run.name} lost {', '.join(run.losses)}; repeated {run.repetitions} times")
    return losses + len(run.losses)


def killed_over_spark_connect(directory: pathlib.Path, url: str, size: int) -> LossyRun:
    """Run a pipeline that loses an executor, with a Spark Connect server as the driver of the cluster.

    Its random ids are the same in both sinks, or this raises `AssertionError`.
    """
    run = LossyRun(directory / "run-over-connect", "ids", size, [(13, "executor")], {})
    settings = [part for name, value in BOTH.items() for part in ("--conf", f"{name}={value}")]
    with running_connect_server(directory, *settings, master=url) as server:
        run.run([f"--spark_remote={server}"])
    assert ["13-executor"] == run.losses
    assert 1 <= run.repetitions
    return run
