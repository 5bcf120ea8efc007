"""Beam's options: understood, or accepted with a warning."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

import penstock as beam
from penstock.beam.import_hook import install_import_hook
from penstock.beam.options import DirectOptions, GoogleCloudOptions, PortableOptions, WorkerOptions
from penstock.sdk.errors import InvalidKeyError, MissingOptionError, OptionsError, RunnerError
from penstock.sdk.options import (
    CredentialsOptions,
    DebugOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    StreamingOptions,
    TypeOptions,
    get_pipeline_options,
    pipeline_options,
)
from penstock.sdk.runner import create_runner
from penstock.testing import assert_that, equal_to


@pytest.fixture
def _for_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()


@pytest.fixture(autouse=True)
def _unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_options, "_warned_of", set())


class WithOutput(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--input_of_beam", default="in.txt")
        parser.add_argument("--output_of_beam", required=True)


def test_options_without_effect_are_accepted_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Flags, keywords, and options that the program sets, once for each."""
    flags = ["--project=p", "--temp_location", "gs://t", "--sdk_container_image=i", "--label=a=b", "--update"]
    options = PipelineOptions([*flags, "--pickle_library=cloudpickle"], job_name="j", streaming=False)
    options.view_as(SetupOptions).save_main_session = True
    with caplog.at_level(logging.WARNING):
        beam.Pipeline(options=options)
        beam.Pipeline(options=options)

    (record,) = caplog.records
    before, _, names = record.getMessage().partition(": ")
    assert before == "Options of Beam that have no effect in penstock"
    accepted = ["temp_location", "sdk_container_image", "labels", "update", "pickle_library", "job_name"]
    assert {f"--{name}" for name in [*accepted, "save_main_session"]} == set(names.split(", "))


def test_keys_without_a_deterministic_encoding_are_refused_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """With one warning that says what to do, apart from that of other options."""
    options = PipelineOptions(["--allow_non_deterministic_key_coders", "--region=r"])
    p = beam.Pipeline(options=options)
    beam.Pipeline(options=options)
    _ = p | beam.Create([(["a"], 1)]).with_output_types(tuple[Any, int]) | beam.GroupByKey()

    reason, others = (record.getMessage() for record in caplog.records)
    assert reason.startswith("--allow_non_deterministic_key_coders has no effect in penstock: a key whose encoding")
    assert "register a deterministic coder for its type by coders.registry.register_coder" in reason
    assert "Options of Beam that have no effect in penstock: --region" == others
    with pytest.raises(InvalidKeyError, match="GroupByKey: .* can't be a key: use a tuple"):
        p.run()


def test_an_option_set_to_its_default_is_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is an effective one."""
    options = PipelineOptions(["--parallelism=1", "--experiments=a"], project=None)
    options.view_as(WorkerOptions).num_workers = None
    beam.Pipeline(options=options)

    assert [] == caplog.records


def test_beams_views_have_beams_defaults() -> None:
    """Which programs read and change."""
    options = PipelineOptions(["--region=r", "--num_workers=3", "--labels=a", "--labels=b,c", "--no_save_main_session"])
    cloud, worker = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)

    assert (None, "r", ["a", "b,c"]) == (cloud.project, cloud.region, cloud.labels)
    assert (True, False, None) == (cloud.enable_streaming_engine, cloud.no_auth, cloud.staging_location)
    assert "https://dataflow.googleapis.com" == cloud.dataflow_endpoint == GoogleCloudOptions.DATAFLOW_ENDPOINT
    assert (3, None, None, 0) == (
        worker.num_workers,
        worker.machine_type,
        worker.use_public_ips,
        worker.max_cache_memory_usage_mb,
    )
    assert False is options.view_as(SetupOptions).save_main_session
    assert "default" == options.view_as(SetupOptions).pickle_library
    assert (300, "1") == (
        options.view_as(PortableOptions).job_server_timeout,
        options.view_as(PortableOptions).sdk_worker_parallelism,
    )
    cloud.project = "p"
    assert options.view_as(GoogleCloudOptions).project == "p" == options.get_all_options()["project"]
    # An option of the core.
    cloud.impersonate_service_account = "a@p.iam.gserviceaccount.com"
    assert "a@p.iam.gserviceaccount.com" == options.view_as(CredentialsOptions).impersonate_service_account


@pytest.mark.parametrize(
    "options",
    [
        PipelineOptions(["--direct_num_workers=3", "--direct_running_mode=multi_processing"]),
        PipelineOptions([], direct_num_workers=3),
        PipelineOptions.from_dictionary({"direct_num_workers": 3}),
    ],
)
def test_the_direct_runners_workers_are_the_parallelism(options: PipelineOptions) -> None:
    """However they are given."""
    assert (3, 3) == (
        options.view_as(StreamingOptions).parallelism,
        options.view_as(DirectOptions).direct_num_workers,
    )
    options.view_as(DirectOptions).direct_num_workers = 2
    assert options.view_as(StreamingOptions).parallelism == 2


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--experiments=a,b"], ["a", "b"]),
        (["--experiment=a", "--experiments= b ,c=1,d"], ["a", "b", "c=1", "d"]),
        (["--experiments=a,b=c=1,d=2"], ["a", "b=c=1,d=2"]),
    ],
)
def test_experiments_are_separated_by_commas(flags: list[str], expected: list[str]) -> None:
    """Except within a value that has an equals sign itself."""
    assert expected == PipelineOptions(flags).view_as(DebugOptions).experiments


def test_a_missing_option_shows_the_usage_and_ends_the_program_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """As argparse does; the program can catch the error."""
    with pytest.raises(MissingOptionError, match="WithOutput: the option --output_of_beam is required and"):
        PipelineOptions(["--input_of_beam=x"]).view_as(WithOutput)

    shown = capsys.readouterr().err
    assert "usage: " in shown
    assert "[--input_of_beam INPUT_OF_BEAM] --output_of_beam OUTPUT_OF_BEAM" in " ".join(shown.split())


@pytest.mark.parametrize("command", [[], ["-m", "penstock", "run"]])
def test_a_program_ends_with_2_for_a_missing_option(command: list[str], tmp_path: Any) -> None:
    """By itself, and with `penstock run`."""
    program = tmp_path / "program.py"
    program.write_text(
        "from penstock.options.pipeline_options import PipelineOptions\n"
        "class Mine(PipelineOptions):\n"
        "    @classmethod\n"
        "    def _add_argparse_args(cls, parser):\n"
        "        parser.add_argument('--target', required=True)\n"
        "PipelineOptions().view_as(Mine)\n"
    )
    ran = subprocess.run([sys.executable, *command, str(program)], capture_output=True, text=True, check=False)

    usage = "usage: program.py --target TARGET\nMine: the option --target is required and was not given\n"
    assert (2, usage) == (ran.returncode, ran.stderr)


@pytest.mark.parametrize("name", ["FlinkRunner", "DataflowRunner", "PortableRunner", "flink", "a.b.FlinkRunner"])
def test_a_runner_of_beams_that_penstock_lacks_is_answered_with_its_own(name: str) -> None:
    """With the flags to use."""
    runner = create_runner(name)
    with pytest.raises(RunnerError, match=r"--runner=\w+Runner: penstock has no such runner .* use --runner=local"):
        runner.for_options(PipelineOptions([]))


@pytest.mark.parametrize("name", ["InteractiveRunner", "SwitchingDirectRunner", "Direct", "PrismRunner"])
def test_beams_runners_in_this_process_are_the_local_runner(name: str) -> None:
    """By name."""
    assert create_runner(name).for_options(PipelineOptions([])).name == "local"


@pytest.mark.usefixtures("_for_beam")
def test_programs_for_beam_may_have_flags_that_no_view_has(caplog: pytest.LogCaptureFixture) -> None:
    """Beam discards them with a warning; a misspelled option is an error nevertheless."""
    PipelineOptions(["--input=a", "--mine", "--streaming"], theirs=3).check_known()

    assert ["Unknown options, which are ignored: --input, --mine, --theirs"] == [r.message for r in caplog.records]
    with pytest.raises(OptionsError, match=r"unknown option --paralelism; did you mean --parallelism\?"):
        PipelineOptions(["--input=a", "--paralelism=2"]).check_known()
    with pytest.raises(OptionsError, match=r"unknown option 'paralelism'; did you mean parallelism\?"):
        PipelineOptions(["--input=a"], paralelism=2).check_known()


def test_beams_runners_in_this_process_are_classes_of_its_modules() -> None:
    """Programs make instances of them."""
    from penstock.runners.interactive.interactive_runner import InteractiveRunner
    from penstock.runners.portability import fn_api_runner

    for runner in (fn_api_runner.FnApiRunner(), InteractiveRunner()):
        with beam.Pipeline(runner) as p:
            assert_that(p | beam.Create([1]), equal_to([1]))


def test_options_changed_after_the_pipeline_was_created_count() -> None:
    """Those of the checks, of the run and of the program's own views."""
    with beam.Pipeline(options=PipelineOptions([])) as p:
        p.options.view_as(TypeOptions).pipeline_type_check = False
        p.options.view_as(StandardOptions).no_wait_until_finish = True
        words = p | beam.Create([1]).with_output_types(int)
        _ = words | beam.Map(lambda word: word).with_input_types(str)

    assert p.options.view_as(TypeOptions).pipeline_type_check is False


def test_all_options_of_beam_are_among_all_options() -> None:
    """Also with flags that a caller adds."""
    options = PipelineOptions(["--project=p", "--extra_of_mine=3"])
    every = options.get_all_options(add_extra_args_fn=lambda parser: parser.add_argument("--extra_of_mine", type=int))

    assert ("p", 3, None) == (every["project"], every["extra_of_mine"], every["setup_file"])
    assert {"project": "p"} == options.view_as(GoogleCloudOptions).get_all_options(drop_default=True, current_only=True)


def test_unknown_flags_are_retained_where_that_is_asked_for() -> None:
    """As strings, or True for a flag without a value."""
    flags = ["--unheard=1", "--on", "--project=p", "--other", "2", "-i"]
    every = PipelineOptions(flags).get_all_options(drop_default=True, retain_unknown_options=True)

    assert {"unheard": "1", "on": True, "project": "p", "other": "2", "i": True} == every


def test_the_options_of_a_pipeline_are_in_scope_while_it_is_built_and_run() -> None:
    """For `get_pipeline_options` in an expand and in a DoFn."""

    class Named(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            built = _job_name()
            return pcoll | beam.Map(lambda _: (built, _job_name()))

    with beam.Pipeline(options=PipelineOptions(["--job_name=j"])) as p:
        assert_that(p | beam.Create([1]) | Named(), equal_to([("j", "j")]))
    assert get_pipeline_options() is None


def _job_name() -> Any:
    options = get_pipeline_options()
    return None if options is None else options.view_as(GoogleCloudOptions).job_name


def test_versions_of_compatibility_are_compared() -> None:
    """By their numbers."""
    options = PipelineOptions(["--update_compatibility_version=2.9.1"])

    assert [True, False] == [options.is_compat_version_prior_to(version) for version in ("2.10.0", "2.9.0")]
    assert not PipelineOptions([]).is_compat_version_prior_to("2.10.0")


def test_options_are_merged_into_others():
    """As `from_runner_api` of Beam does; the runner stays that of the others."""
    given = PipelineOptions(["--num_workers", "5", "--runner=FnApiRunner", "--labels=a=b"])
    base = PipelineOptions(["--num_workers", "2", "--runner=DirectRunner"])

    made = PipelineOptions.from_runner_api(given.to_runner_api())
    merged = PipelineOptions.from_runner_api(given.to_runner_api(), base)

    assert 5 == made.view_as(WorkerOptions).num_workers == merged.view_as(WorkerOptions).num_workers
    assert ["a=b"] == made.view_as(GoogleCloudOptions).labels
    assert ("FnApiRunner", "DirectRunner") == (
        made.view_as(StandardOptions).runner,
        merged.view_as(StandardOptions).runner,
    )
    with pytest.raises(OptionsError, match="expected the URN of an option"):
        PipelineOptions.from_runner_api({"streaming": True})
