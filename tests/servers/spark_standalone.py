"""A real Spark standalone cluster on the loopback interface: one master and two workers, a process each."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from servers import archived_java

STARTUP_SECONDS = 180.0
SHUTDOWN_SECONDS = 30.0
# One for each worker.  They are two to Spark, or it would not speculate: not on a host where the slow attempt is.
HOSTS = ["127.0.0.1", "localhost", "127.0.0.1"]


class Daemon:
    """One of Spark's JVMs, in a process group of its own, together with the executors that it starts.

    Args:
      program: another program than Spark's, which gets the arguments.
      more: further variables of its environment.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        directory: pathlib.Path,
        memory: str = "256m",
        *,
        program: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        import pyspark

        home = pathlib.Path(pyspark.__file__).parent
        environment = (
            os.environ
            | archived_java.settings()
            | {
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": memory,
                "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
                **(more or {}),
            }
        )
        self.name = name
        self.log = directory / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program or str(home / "bin" / "spark-class"), *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the log has `pattern`; what stops or stays silent is an error that shows the log."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            # Asked before the log is read, so that the last lines of a process that stopped are seen.
            stopped = self.process.poll() is not None
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found
            if stopped:
                break
            time.sleep(0.05)
        raise RuntimeError(f"The {self.name} did not start; its log:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(SHUTDOWN_SECONDS)
        # Also when the daemon itself has ended: an executor may have outlived it.
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@contextlib.contextmanager
def running_cluster(directory: pathlib.Path, size: int = 2) -> Iterator[str]:
    """The `spark://` address of a cluster that lives as long as the block; each worker has 1 core and 1 GB."""
    with contextlib.ExitStack() as started:

        def start(name: str, *arguments: str) -> Daemon:
            daemon = Daemon(name, list(arguments), directory)
            started.callback(daemon.stop)
            return daemon

        # Port 0 lets the system choose; the log says what it chose.
        address = ["--port", "0", "--webui-port", "0"]
        master = start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", *address)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)").group(1)
        limits = ["--cores", "1", "--memory", "1g"]
        workers = [
            start(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                host,
                *address,
                *limits,
                "--work-dir",
                str(directory / f"worker-{number}"),
                url,
            )
            for number, host in enumerate(HOSTS[:size])
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield url
