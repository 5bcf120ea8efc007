"""How runners are found."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import penstock as beam
from penstock.runners.local import LocalStreamingRunner
from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner, SparkRunner
from penstock.sdk import runner
from penstock.sdk.errors import RunnerError
from penstock.sdk.runner import PipelineState, create_runner


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("local", LocalStreamingRunner),
        ("Local", LocalStreamingRunner),
        ("LocalStreamingRunner", LocalStreamingRunner),
        ("DirectRunner", LocalStreamingRunner),
        ("apache_beam.runners.direct.DirectRunner", LocalStreamingRunner),
        ("spark-batch", SparkBatchRunner),
        ("SparkRunner", SparkRunner),
        ("spark", SparkRunner),
        ("spark-microbatch", SparkMicroBatchRunner),
        (LocalStreamingRunner, LocalStreamingRunner),
        (LocalStreamingRunner(), LocalStreamingRunner),
    ],
)
def test_a_runner_is_found_by_its_names_its_class_and_itself(name: object, expected: type) -> None:
    """Beam's names are taken too."""
    assert expected is type(create_runner(name))


def test_our_own_runners_are_those_that_the_package_offers() -> None:
    """The table that saves looking for them says what the installed package says."""
    offered = {name: point.value for name, point in runner.installed_runners().items() if point.dist.name == "penstock"}

    assert offered == runner.OURS


def test_a_runner_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the group `penstock.runners`."""
    other = EntryPoint("other", "penstock.runners.local:LocalStreamingRunner", runner.ENTRY_POINTS)
    monkeypatch.setattr(runner, "installed_runners", lambda: {"other": other})

    assert isinstance(create_runner("other"), LocalStreamingRunner)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("no_such_module:Runner", "expected module:Class, and No module named 'no_such_module'"),
        ("json:Runner", "expected module:Class, and module 'json' has no attribute 'Runner'"),
        ("json:dumps", "expected a subclass of Runner, got <function dumps"),
        (":Runner", "expected module:Class, and Empty module name"),
    ],
)
def test_a_place_without_a_runner_is_an_error_that_says_what_is_there(place: str, told: str) -> None:
    with pytest.raises(RunnerError) as raised:
        create_runner(place)

    assert str(raised.value).startswith(f"--runner={place}: {told}")


@pytest.mark.parametrize(
    ("name", "hint"), [("spark-bach", "; did you mean 'spark-batch'?"), ("flink-on-the-moon", ".")]
)
def test_an_unknown_runner_is_an_error_that_names_the_nearest(name: str, hint: str) -> None:
    """And those that there are."""
    with pytest.raises(RunnerError) as raised:
        create_runner(name)

    installed = "local, spark, spark-batch, spark-microbatch"
    assert f"--runner={name}: there is no such runner{hint} Installed: {installed}" == str(raised.value)


def test_flags_in_the_place_of_the_runner_are_an_error_that_says_where_they_go() -> None:
    with pytest.raises(RunnerError, match=r"expected a runner or its name, got \['--parallelism=2'\]; .*argv="):
        create_runner(["--parallelism=2"])  # type: ignore[arg-type]


def test_a_runner_runs_a_transform_or_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    runner = LocalStreamingRunner()
    for run in (beam.Create([1]) | beam.Map(print), lambda begin: begin | beam.Create([2]) | beam.Map(print)):
        assert "DONE" == runner.run(run).wait_until_finish()
    assert "1\n2\n" == capsys.readouterr().out


def test_the_states_of_a_run_are_beams() -> None:
    """A stopped or paused run hasn't ended."""
    states = {name for name in vars(PipelineState) if name.isupper()}
    ended = {name for name in states if PipelineState.is_terminal(getattr(PipelineState, name))}

    assert {"DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED"} == ended
    assert {"PAUSING", "PAUSED", "STOPPED", "STARTING", "RESOURCE_CLEANING_UP", "UNRECOGNIZED"} <= states
    assert all(name == getattr(PipelineState, name) for name in states)
