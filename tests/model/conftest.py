"""Runners of the model's tests: those of every test, and variants of the local runner as a job."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from support.runners import local_variants
from support.runners.local_variants import IN_PROCESSES, IN_SIMULATION, runner_of

RUNNERS = ["local", "spark-batch"]

# What a job with checkpoints does, `local-4` shows with several subtasks.
IN_THIS_PROCESS = [name for name in local_variants.IN_THIS_PROCESS if name != "local-job"]

# Forking takes longer than most of these tests, and so do micro-batches: of each kind of thing that travels between
# processes, one or two.
TRIED_IN_PROCESSES = {
    "test_batches_are_not_made_of_elements_again",
    "test_windows_side_inputs_tags_and_metrics",
    "test_figure_10_sums_each_two_minutes_in_one_pane",
    "test_plain_functions_and_combiners_report_as_well",
    "test_combiners_of_each_keys_values",
    "test_combiners_of_columns",
    "test_elements_of_a_key_come_in_the_order_of_their_times_or_of_their_coming",
    "test_event_time_timers_fire_when_the_input_is_over",
    "test_a_stateful_pardo_may_follow_another_and_a_grouping",
    "test_a_sink_is_prepared_written_staged_and_committed",
    "test_a_failing_sink_fails_the_run",
    "test_a_failed_run_aborts_every_sink",
    "test_a_pipeline_without_results_publishes_an_empty_file",
    "test_an_unhashable_key_can_not_be_grouped_by",
    "test_state_belongs_to_the_bytes_of_a_key",
    "test_a_failing_equality_or_hash_fails_the_run",
    "test_a_failing_coder_fails_the_run",
    "test_a_pipeline_without_transforms_does_nothing",
    "test_every_view_of_a_side_input",
    "test_side_inputs_are_complete_before_they_are_seen",
    "test_groupings_of_a_flatten_of_groupings",
    "test_a_failing_function_is_told_with_transform_element_file_and_line",
    "test_the_cause_has_the_users_frames_and_no_others",
    "test_an_exception_of_any_class_is_an_instance_of_it",
    "test_what_is_no_pair_can_not_be_grouped",
    "test_a_failing_method_of_a_dofn_fails_the_run",
}


# A micro-batch takes a tenth of a second, and a script is many of them: of figures the one that is about them,
# one about the end of a window, and one that ends in a chain of groupings.
STREAMED_IN_MICRO_BATCHES = {
    "test_panes_are_compared_with_all_that_comes_with_them",
    "test_figure_11_has_panes_for_each_micro_batch",
    "test_a_window_is_complete_at_its_end_and_kept_until_the_lateness_is_over",
    "test_a_grouping_after_figure_14_ends_with_the_counts_of_a_batch",
    "test_the_latest_pane_is_seen",
    "test_a_trigger_without_a_grouping_fires_for_the_view",
    "test_a_retraction_may_come_before_its_addition",
    "test_a_reshuffle_passes_retractions_on_as_they_are",
}


# A job on Spark takes a second or more.  Of these tests' values only some are tried there, by their ids, and all on the
# local runner.  Errors of any class and method go the same way from a worker.
VALUES_ON_SPARK = {
    "test_an_exception_of_any_class_is_an_instance_of_it": {"raised0", "raised4"},
    "test_a_failing_method_of_a_dofn_fails_the_run": {"setup", "process", "teardown"},
    "test_a_failing_method_of_a_combiner_fails_the_run": {"add_input", "merge_accumulators", "teardown"},
}

# All sources of columns are tried on every runner with expressions, windows, aggregates, errors and sinks.  Other
# operations don't know where their columns are from: all sources are tried on the local runner, and on other runners
# and its variants two.  So are windows of times in all forms.
VALUES_ELSEWHERE = {
    "test_windows_are_assigned_again_in_each_window": {"parquet", "rows"},
    "test_combiners_of_columns": {"parquet", "rows"},
    "test_each_form_of_a_timestamp_has_its_window": {"60-7", "60-0.25"},
    "test_elements_are_grouped_by_expressions": {"parquet", "rows"},
    "test_groups_and_joins_of_columns_are_those_of_rows": {"parquet", "rows"},
    "test_side_inputs_tags_and_state_see_rows": {"parquet", "rows"},
    "test_dead_letters_of_expressions": {"parquet", "rows"},
}


@pytest.fixture(params=[*RUNNERS, "spark-microbatch", *IN_THIS_PROCESS, *IN_PROCESSES, *IN_SIMULATION])
def runner_name(request: pytest.FixtureRequest) -> str:
    """The name of each runner in turn, and of each variant."""
    if request.param.startswith("spark"):
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture(params=["local", "spark-microbatch", *IN_THIS_PROCESS, *IN_PROCESSES, *IN_SIMULATION])
def streaming_runner(request: pytest.FixtureRequest) -> Any:
    """Each runner that takes a TestStream, in turn."""
    if request.param != "spark-microbatch":
        return runner_of(request.param)
    from penstock.runners.spark import SparkMicroBatchRunner

    return SparkMicroBatchRunner(spark_session=request.getfixturevalue("spark"))


HERE = str(pathlib.Path(__file__).parent) + os.sep


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The hook is given the tests of all folders.
    items[:] = [item for item in items if not str(item.path).startswith(HERE) or is_tried(item)]


def is_tried(item: pytest.Item) -> bool:
    """Whether a test is for the variant that it would be run on."""
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("runner_name", "local") if callspec else "local"
    test = getattr(item, "originalname", "")
    if callspec and callspec.params.get("streaming_runner") == "spark-microbatch":
        return test in STREAMED_IN_MICRO_BATCHES
    few = VALUES_ELSEWHERE if name != "local" else {}
    if name.startswith("spark"):
        few = few | VALUES_ON_SPARK
    if test in few and few[test].isdisjoint(callspec._idlist):
        return False
    if name == "spark-microbatch" or name in IN_PROCESSES or name in IN_SIMULATION:
        return test in TRIED_IN_PROCESSES
    # A flag can't name a variant.
    return name in RUNNERS or "runner" in getattr(item, "fixturenames", ())
