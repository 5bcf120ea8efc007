"""Errors of Beam's options, for programs that check them before they are deployed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.beam.options_validation import PipelineOptionsValidator
from penstock.beam.sdk import pickler
from penstock.options.pipeline_options import GoogleCloudOptions, PipelineOptions, WorkerOptions
from penstock.testing import TestPipeline

RIGHT = ["--project=a-project", "--region=europe-west1", "--temp_location=gs://bucket/tmp"]


class DataflowRunner:
    """Of the name of Beam's runner."""


class Matcher:
    """As PyHamcrest's."""

    def matches(self, item: Any) -> bool:
        return True

    def describe_to(self, description: Any) -> None:
        description.append_text("anything")


def errors(*flags: str, runner: Any = "DataflowRunner") -> list[str]:
    return PipelineOptionsValidator(PipelineOptions(list(flags)), runner).validate()


def test_right_options_have_no_errors() -> None:
    assert [] == errors(*RIGHT, "--job_name=a-job", runner=DataflowRunner()) == errors(runner="local")


def test_required_options_of_dataflow_are_named() -> None:
    missing = errors()
    for name in ("project", "region", "temp_location", "staging_location"):
        assert [name] == [name for error in missing if name in error]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--job_name=Job", "Invalid job_name"),
        ("--project=12345", "Invalid Project ID"),
        ("--num_workers=0", "num_workers. Value needs to be positive"),
        ("--dataflow_endpoint=foo and bar", "Invalid url"),
        ("--update", "job_name"),
        ('--transform_name_mapping={"a": "b"}', "only useful when --update and --streaming"),
    ],
)
def test_a_wrong_option_of_dataflow_is_an_error_there_only(flag: str, message: str) -> None:
    (error,) = errors(*RIGHT, flag)
    assert message in error
    assert [] == errors(flag, runner="local")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--environment_type=process"], "process_command is required"),
        (["--environment_type=loopback", "--environment_config=a"], "environment_config"),
        (["--environment_options=docker_container_image=a"], "docker_container_image is not compatible"),
        (["--sdk_container_image=a", "--worker_harness_container_image=b"], "older name of sdk_container_image"),
        (["--template_location=a", "--dataflow_job_file=b"], "mutually exclusive"),
        (["--type_check_additional=all,other"], "Unrecognized --type_check_additional feature: other"),
        (["--profiler_agent=a", "--profile_cpu"], "mutually exclusive"),
        (["--on_success_matcher=abc"], "can't be unpickled"),
    ],
)
def test_other_wrong_options_are_errors_for_each_runner(flags: list[str], message: str) -> None:
    (error,) = errors(*flags, runner="local")
    assert message in error


def test_places_of_workers_exclude_each_other() -> None:
    (error,) = errors(*RIGHT, "--zone=a", "--worker_region=b", "--experiments=worker_region=c")
    assert "zone and worker_region and the experiment worker_region are mutually exclusive." == error


def test_options_that_stand_for_others_are_filled_in() -> None:
    options = PipelineOptions([*RIGHT, "--zone=here", "--sdk_container_image=image"])
    assert [] == PipelineOptionsValidator(options, DataflowRunner()).validate()
    workers = options.view_as(WorkerOptions)
    assert (None, "here", "image") == (workers.zone, workers.worker_zone, workers.worker_harness_container_image)
    assert "gs://bucket/tmp" == options.view_as(GoogleCloudOptions).staging_location


def test_a_service_on_this_machine_is_none() -> None:
    validator = PipelineOptionsValidator(PipelineOptions(["--dataflow_endpoint=http://localhost:1"]), "DataflowRunner")
    assert not validator.is_service_runner()


def test_a_matcher_is_an_option_by_its_pickle() -> None:
    (flag,) = TestPipeline().get_full_options_as_args(on_success_matcher=Matcher())
    assert [] == errors(flag, runner="local")
    assert "expected a matcher of PyHamcrest" in errors(f"--on_success_matcher={pickler.dumps(5).decode()}")[0]


def test_views_validate_themselves():
    """Beam's validator collects their errors."""

    class Positive(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--my_count", type=int, default=1)

        def validate(self, validator):
            return [] if self.my_count > 0 else [f"--my_count is {self.my_count} on {validator.runner}"]

    assert [] == PipelineOptionsValidator(PipelineOptions(["--my_count=2"]), "local").validate()
    assert ["--my_count is 0 on local"] == PipelineOptionsValidator(
        PipelineOptions(["--my_count=0"]), "local"
    ).validate()
