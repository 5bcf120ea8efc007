"""Two programs on each deployment: commits in sessions with retractions, and a windowed word count, into SQLite."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Sequence

import pytest
from deploy.services import Service
from deployments.environments import Environments
from deployments.programs import PROGRAMS, ROOT, run, spark_submit
from servers.yarn import Yarn
from support.programs.running_program import wait_until

pytestmark = pytest.mark.spark

# Runs `program.py` in a directory to its end, with flags.
Deployment = Callable[[pathlib.Path, Sequence[str]], None]

BATCH = "--runner=spark-batch"


@pytest.fixture
def standalone(standalone_cluster: str) -> Deployment:
    """spark-submit to a standalone cluster."""

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        command = [*spark_submit(standalone_cluster), "program.py", *flags, BATCH]
        run(command, directory, PYSPARK_PYTHON=sys.executable)

    return deploy


@pytest.fixture
def standalone_micro_batches(standalone_cluster: str) -> Deployment:
    """spark-submit to a standalone cluster, in micro-batches."""

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        ours = ["--runner=spark-microbatch", f"--checkpoint_dir={directory / 'kept'}"]
        command = [*spark_submit(standalone_cluster), "program.py", *flags, *ours]
        run(command, directory, PYSPARK_PYTHON=sys.executable)

    return deploy


def on_yarn(yarn: Yarn, environments: Environments, mode: str, *more: str) -> Deployment:
    """Return spark-submit to YARN, with the environment in an archive."""
    shipped = "./environment/bin/python"
    settings = [f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={shipped}", f"spark.executorEnv.PYSPARK_PYTHON={shipped}"]
    options = ["--archives", f"{environments.archive}#environment"]
    options += [option for setting in settings for option in ("--conf", setting)]

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        drivers = {"PYSPARK_DRIVER_PYTHON": sys.executable} if mode == "client" else {}
        command = [*yarn.submitting(mode), *options, "program.py", *flags, *(more or [BATCH])]
        try:
            run(command, directory, PYSPARK_PYTHON=shipped, **drivers, **yarn.environment())
        except AssertionError as error:
            raise AssertionError(f"{error}\n{yarn.logs()}") from None

    return deploy


@pytest.fixture
def yarn_client(yarn: Yarn, environments: Environments) -> Deployment:
    """The driver in this machine's environment, and executors in containers."""
    return on_yarn(yarn, environments, "client")


@pytest.fixture
def yarn_cluster(yarn: Yarn, environments: Environments) -> Deployment:
    """The driver in a container, too."""
    return on_yarn(yarn, environments, "cluster")


@pytest.fixture
def connect(spark_connect: str) -> Deployment:
    """A program that is a client of a Spark Connect server."""

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        run([sys.executable, "program.py", *flags, BATCH, f"--spark_remote={spark_connect}"], directory)

    return deploy


@pytest.fixture
def container(tmp_path: pathlib.Path) -> Deployment:
    """The entry point of the container, without a container engine."""

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        entry = str(ROOT / "deploy" / "container" / "entrypoint.sh")
        health = {"PENSTOCK_HEALTH_PORT": "0", "PENSTOCK_HEALTH_HOST": "127.0.0.1"}
        run([entry, "program.py", *flags], directory, PENSTOCK_CHECKPOINT_DIR=str(tmp_path / "kept"), **health)

    return deploy


class Supervised(Service):
    """The program as a service."""

    def install(self, program: pathlib.Path, flags: Sequence[str]) -> None:
        """Make it the current release, with its flags."""
        release = self.release("1.0")
        (release / "pipeline.py").write_text(program.read_text())
        self.use(release)
        ours = [f"--health_port={self.port}", "--checkpoint_interval=0.2"]
        (self.root / "etc" / "penstock" / "clicks.conf").write_text(f"FLAGS={' '.join([*flags, *ours])}\n")

    def has_committed(self, than: int = 0) -> int:
        """Return the number of the newest checkpoint if it is larger than another, else 0."""
        numbers = [int(file.name.split("-")[1]) for file in self.checkpoints.glob("manifest-*")]
        newest = max(numbers, default=0)
        return newest if newest > than else 0


@pytest.fixture
def systemd(tmp_path: pathlib.Path) -> Deployment:
    """A service that is killed once, stopped once and started again."""

    def deploy(directory: pathlib.Path, flags: Sequence[str]) -> None:
        service = Supervised(tmp_path / "machine")
        service.install(directory / "program.py", flags)
        try:
            assert 0 == service.manage("start"), service.journal
            wait_until(lambda: service.has_committed() or service.state == "inactive", "a checkpoint")
            assert service.state == "inactive" or 200 == service.health("/healthz")
            before = service.pid
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: service.pid != before and service.state == "active", f"a restart: {service.journal}")
            newest = service.has_committed()
            wait_until(lambda: service.has_committed(newest) or service.state == "inactive", "another checkpoint")
            assert 0 == service.manage("stop")
            assert 0 == service.manage("start")
            wait_until(lambda: service.state in ("inactive", "failed"), "the end of the job")
            assert "manager: failed with status -9, restart 1\n" in service.journal
            assert service.journal.endswith("manager: deactivated with status 0\n")
        finally:
            service.manage("stop")

    return deploy


LOCAL = ("systemd", "container")
DEPLOYMENTS = ["standalone", "standalone_micro_batches", "yarn_client", "yarn_cluster", "connect", *LOCAL]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_rows_are_those_of_one_process(
    name: str, deployment: str, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    """Row by row."""
    program, found = PROGRAMS[name], tmp_path / "found"
    deploy: Deployment = request.getfixturevalue(deployment)
    # The local runner gets the commits as they arrived, 91 days at a time, and words as time goes by.
    as_it_comes = {"sessions": "--together_days=91", "words": f"--start_time={time.time():.0f}"}
    more = [as_it_comes[name]] if deployment in LOCAL else []
    deploy(found, [*program.install(found), *more])
    expected = program.rows_of_one_process(tmp_path / "expected", *more)
    assert expected == program.rows(found)
    assert 10 <= len(expected)
