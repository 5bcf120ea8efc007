"""Runners of Beam that a program names, in whose place one of penstock's runs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import penstock as beam
from penstock.beam.runners.named_runners import runner_of_beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import UnknownRunnerError
from penstock.sdk.runner import PipelineState, create_runner

BUILT = {
    "a class": "beam.Pipeline(runner=DataflowRunner())",
    "a name": "beam.Pipeline(runner='DataflowRunner')",
    "a flag": "beam.Pipeline(options=PipelineOptions(['--runner=DataflowRunner']))",
    "a keyword": "beam.Pipeline(options=PipelineOptions(runner='DataflowRunner'))",
    "a view": "beam.Pipeline(options=viewed())",
    "Flink": "beam.Pipeline(runner=FlinkRunner())",
    "portable": "beam.Pipeline(runner=PortableRunner())",
}
PROGRAM = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners import DataflowRunner
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.portable_runner import PortableRunner

def viewed():
    options = PipelineOptions()
    options.view_as(StandardOptions).runner = "DataflowRunner"
    return options

p = {built}
p | beam.Create([1, 2]) | beam.CombineGlobally(sum) | beam.Map(print)
result = p.run()
result.wait_until_finish()
print(p.runner.name, result.state, result.job_id() == result.job_id(), result.is_in_terminal_state())
"""


def run(directory: pathlib.Path, built: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the program as one for Beam."""
    (directory / "program.py").write_text(PROGRAM.format(built=built))
    command = [sys.executable, "-m", "penstock", "run", "--beam", "program.py", *flags]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, env=os.environ)


@pytest.mark.parametrize("built", BUILT)
def test_the_local_runner_runs_what_names_another_one(tmp_path: pathlib.Path, built: str) -> None:
    """With one warning."""
    ran = run(tmp_path, BUILT[built])

    assert "3\nlocal DONE True True\n" == ran.stdout, ran.stderr
    assert 1 == ran.stderr.count("is a runner of Beam's: --runner=local runs the pipeline")


@pytest.mark.parametrize("arguments", [["--runner=spark-batch"], ["--runner", "spark-batch", "--input=x"]])
def test_the_command_line_wins(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """Also over `--beam_runner`, which a program's own flags may have."""
    monkeypatch.setattr(sys, "argv", ["program.py", *arguments])

    assert "spark-batch" == create_runner("DataflowRunner").for_options(PipelineOptions(["--beam_runner=local"])).name


def test_a_flag_chooses_the_runner_instead() -> None:
    options = PipelineOptions(["--runner=DataflowRunner", "--beam_runner=spark-batch"])

    assert "spark-batch" == beam.Pipeline(options=options).runner.name


def test_a_runner_of_beam_on_the_command_line_is_refused(tmp_path: pathlib.Path) -> None:
    ran = run(tmp_path, "beam.Pipeline()", "--runner=DataflowRunner")

    assert "--runner=DataflowRunner: penstock has no such runner of Beam's" in ran.stderr
    assert 0 != ran.returncode


def test_a_runner_of_beam_is_refused_in_a_program_for_penstock() -> None:
    """Whose author can choose another one."""
    with pytest.raises(UnknownRunnerError, match="--runner=FlinkRunner: penstock has no such runner of Beam's"):
        create_runner("FlinkRunner").for_options(PipelineOptions([]))


def test_a_runner_of_beam_in_place_of_another_is_refused() -> None:
    with pytest.raises(UnknownRunnerError, match="--beam_runner=FlinkRunner: expected one of penstock's runners"):
        create_runner("DataflowRunner").for_options(PipelineOptions(["--beam_runner=FlinkRunner"]))


@pytest.mark.parametrize(
    ("name", "instead"), [("PrismRunner", "local"), ("InteractiveRunner", "local"), ("SparkRunner", "spark")]
)
def test_runners_that_do_the_same_need_no_warning(name: str, instead: str) -> None:
    assert instead == create_runner(name).for_options(PipelineOptions([])).name


def test_an_interactive_runner_has_another_one_below() -> None:
    from penstock.beam.runners.named_runners import InteractiveRunner

    assert "spark-batch" == InteractiveRunner("spark-batch").for_options(PipelineOptions([])).name


@pytest.mark.parametrize("name", ["dataflow", "apache_beam.runners.DaskRunner", "RayRunner"])
def test_names_are_found_in_each_form(name: str) -> None:
    found = runner_of_beam(name)

    assert found is not None
    assert name.rpartition(".")[2].lower().removesuffix("runner") in found.name.lower()


def test_all_states_of_beam_are_there() -> None:
    names = "UNKNOWN STARTING STOPPED RUNNING DONE FAILED CANCELLED UPDATED DRAINING DRAINED PENDING CANCELLING"

    assert all(getattr(PipelineState, name) == name for name in names.split())
