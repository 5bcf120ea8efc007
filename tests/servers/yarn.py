"""A real YARN cluster of one node on the loopback interface: Hadoop's MiniYARNCluster, from Maven Central."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import sys
import urllib.request
from collections.abc import Iterator

import attrs
from servers.spark_standalone import Daemon

CACHE = pathlib.Path(__file__).parents[2] / ".hadoop"

# The version of Hadoop whose jars PySpark has.
HADOOP = "3.5.0"
# The cluster, and what it needs besides PySpark's jars: paths in the repository, with checksums.
REPOSITORY = "https://repo1.maven.org/maven2"
JARS = {
    f"org/apache/hadoop/hadoop-client-minicluster/{HADOOP}/hadoop-client-minicluster-{HADOOP}.jar": (
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
    ),
    "org/junit/jupiter/junit-jupiter-api/5.13.3/junit-jupiter-api-5.13.3.jar": (
        "1a15a52253a972c82c0dbf77759a983f5afed0583585cdc5b2a3beaa1f4ae0ac"
    ),
    "org/junit/platform/junit-platform-commons/1.13.3/junit-platform-commons-1.13.3.jar": (
        "02cd66a55df750a123d8f761e6503e455ac108ff1b365d446e874ba3bc56ca89"
    ),
    "org/opentest4j/opentest4j/1.3.0/opentest4j-1.3.0.jar": (
        "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b"
    ),
    "org/bouncycastle/bcprov-jdk18on/1.82/bcprov-jdk18on-1.82.jar": (
        "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce"
    ),
    "org/bouncycastle/bcpkix-jdk18on/1.82/bcpkix-jdk18on-1.82.jar": (
        "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63"
    ),
    "org/bouncycastle/bcutil-jdk18on/1.82/bcutil-jdk18on-1.82.jar": (
        "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d"
    ),
}


@attrs.frozen
class Yarn:
    """A running cluster.

    Attributes:
      directory: of its logs; `conf` in it is for HADOOP_CONF_DIR.
    """

    directory: pathlib.Path

    def submitting(self, deploy_mode: str) -> list[str]:
        """Return spark-submit with the options of this cluster."""
        import pyspark

        home = pathlib.Path(pyspark.__file__).parent
        settings = {
            # Otherwise each application would upload all jars.
            "spark.yarn.jars": f"local:{home}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.directory}/staging",
            "spark.yarn.am.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "2",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        options = [option for key, value in settings.items() for option in ("--conf", f"{key}={value}")]
        return [str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", deploy_mode, *options]

    def environment(self) -> dict[str, str]:
        """Return the variables of its clients."""
        return {"HADOOP_CONF_DIR": str(self.directory / "conf"), "JAVA_HOME": java_home(), **loopback(self.directory)}

    def logs(self) -> str:
        """Return the logs of the containers."""
        files = sorted(self.directory.glob("target/**/std*"))
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-4000:]}" for file in files)


def java_home() -> str:
    """Return the home of the Java on the path, which containers need."""
    if home := os.environ.get("JAVA_HOME"):
        return home
    java = shutil.which("java")
    assert java is not None
    return str(pathlib.Path(java).resolve().parents[1])


def loopback(directory: pathlib.Path) -> dict[str, str]:
    """Return variables that make this host's names those of the loopback interface, for each JVM."""
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()} {socket.getfqdn()}\n")
    return {"JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts}", "SPARK_LOCAL_IP": "127.0.0.1"}


def fetched_jars() -> list[pathlib.Path]:
    """Return the jars.  Fetches them."""
    import pyspark

    (found,) = (pathlib.Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert f"hadoop-client-api-{HADOOP}.jar" == found.name, (
        "the mini cluster has to be of the version of PySpark's jars"
    )
    return [_fetched(f"{REPOSITORY}/{path}", checksum) for path, checksum in JARS.items()]


def _fetched(url: str, checksum: str) -> pathlib.Path:
    jar = CACHE / url.rpartition("/")[2]
    if not jar.exists():
        part = jar.with_suffix(".part")
        part.parent.mkdir(exist_ok=True)
        with urllib.request.urlopen(url, timeout=60) as answer, part.open("wb") as file:
            shutil.copyfileobj(answer, file)
        assert checksum == hashlib.sha256(part.read_bytes()).hexdigest(), f"{url} is another file"
        part.rename(jar)
    return jar


@contextlib.contextmanager
def running_yarn(directory: pathlib.Path) -> Iterator[Yarn]:
    """A cluster that lives as long as the block."""
    program, jars = pathlib.Path(__file__).with_name("mini_yarn.py"), os.pathsep.join(map(str, fetched_jars()))
    arguments = [str(program), jars, str(directory)]
    cluster = Yarn(directory)
    server = Daemon("yarn", arguments, directory, program=sys.executable, more=cluster.environment())
    try:
        server.wait_for(r"(?m)^ready$")
        yield cluster
    finally:
        server.stop()
