"""The views of penstock's own options."""

from __future__ import annotations

from typing import Any

from ..errors import OptionsError
from .accepted import accept
from .pipeline_options import PipelineOptions


class StandardOptions(PipelineOptions):
    """The runner and its mode.

    >>> PipelineOptions(["--runner=local"]).view_as(StandardOptions).runner
    'local'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--runner", help="The runner's name or class. Default: the local runner.")
        parser.add_argument("--streaming", default=False, action="store_true", help="Run as a stream, not as a batch.")
        help = "Don't wait for the end of a pipeline that runs when its `with` block ends."
        parser.add_argument("--no_wait_until_finish", default=False, action="store_true", help=help)
        help = "Append a number to the label of a transform that another transform has."
        parser.add_argument("--auto_unique_labels", default=False, action="store_true", help=help)
        accept(parser, "resource_hints,resource_hint*", default=[])


class TypeOptions(PipelineOptions):
    """Checks of types and triggers.

    >>> import penstock as beam
    >>> options = beam.options.PipelineOptions(["--allow_unsafe_triggers"])
    >>> options.view_as(beam.options.TypeOptions).allow_unsafe_triggers
    True
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        _switch(parser, "pipeline_type_check", True, "Compare the type hints of neighbouring transforms.")
        _switch(parser, "runtime_type_check", False, "Check each element against the type hints.")
        _switch(parser, "performance_runtime_type_check", False, "The same as runtime_type_check.")
        _switch(parser, "allow_unsafe_triggers", False, "Allow triggers that finish and then drop later elements.")
        parser.add_argument(
            "--type_check_strictness",
            default="DEFAULT_TO_ANY",
            choices=["ALL_REQUIRED", "DEFAULT_TO_ANY"],
            help="With ALL_REQUIRED, each transform must declare the type of its output.",
        )
        accept(
            parser,
            "disable_beartype? exclude_infer_dataclass_field_type? force_cloudpickle_deterministic_coders?",
        )
        accept(
            parser,
            "allow_non_deterministic_key_coders?",
            "a key whose encoding varies would be in several groups, and lose its state at a restart. A transform that "
            "gets such a key refuses it; use a tuple of simple values or a frozen dataclass, or register a "
            "deterministic coder for its type by coders.registry.register_coder",
        )
        accept(parser, "type_check_additional", default="")


class SetupOptions(PipelineOptions):
    """Set-up of the workers.

    >>> PipelineOptions(["--requirements_file=requirements.txt"]).view_as(SetupOptions).requirements_file
    'requirements.txt'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        # Globals of the main module that functions use are always pickled with them.
        accept(
            parser,
            "save_main_session?None requirements_file requirements_cache requirements_cache_only_sources? setup_file "
            "beam_plugins,beam_plugin* pickle_library=default sdk_location=default extra_packages,extra_package* "
            "files_to_stage,file_to_stage* prebuild_sdk_container_engine prebuild_sdk_container_base_image "
            "cloud_build_machine_type docker_registry_push_url user_agent maven_repository_url",
        )
        accept(parser, "no_save_main_session!", dest="save_main_session", default=None)
        help = "Beam's; refused, since groupings would not be encrypted.  Use GroupByEncryptedKey."
        parser.add_argument("--gbek", help=help)


class DebugOptions(PipelineOptions):
    """Experiments: named behaviours that may change.

    >>> options = PipelineOptions(["--experiments", "fast,size=3", "--experiments", "new"])
    >>> options.view_as(DebugOptions).lookup_experiment("size")
    '3'
    """

    experiments: list[str] | None

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        from .parser import CommaSeparated

        help = "Names, or name=value, separated by commas; repeatable."
        parser.add_argument("--experiments", "--experiment", action=CommaSeparated, help=help)
        accept(parser, "dataflow_job_file number_of_worker_harness_threads#")

    def add_experiment(self, experiment: str) -> None:
        """Add an experiment, unless it is present."""
        if experiment not in (self.experiments or []):
            self.experiments = [*(self.experiments or []), experiment]

    def lookup_experiment(self, key: str, default: Any = None) -> Any:
        """Return the value of `key=value`, True for a `key` alone, or else `default`."""
        for experiment in self.experiments or []:
            name, is_pair, value = experiment.partition("=")
            if name == key:
                return value if is_pair else True
        return default


class SparkOptions(PipelineOptions):
    """The Spark session of the Spark runners.

    >>> PipelineOptions(["--spark_conf", "spark.ui.enabled=false"]).view_as(SparkOptions).conf()
    {'spark.ui.enabled': 'false'}
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--spark_master", help="The master's URL, such as local[4]. Default: spark-submit's.")
        parser.add_argument("--spark_remote", help="The URL of a Spark Connect server, such as sc://host:15002.")
        parser.add_argument("--spark_app_name", help="The application's name in Spark's own pages.")
        parser.add_argument("--spark_shuffle_partitions", type=int, help="The number of partitions of a shuffle.")
        parser.add_argument("--spark_conf", action="append", help="A setting of Spark, as key=value; repeatable.")
        from .parser import CommaSeparated

        help = "Modules or packages that executors can't import, separated by commas: they are sent by value."
        parser.add_argument("--pickle_by_value", action=CommaSeparated, help=help)

    def conf(self) -> dict[str, str]:
        """Return `spark_conf` as a dictionary.  Raises `OptionsError` for an entry that is not `key=value`."""
        entries = self.spark_conf or []
        if isinstance(entries, dict):
            return {str(key): str(value) for key, value in entries.items()}
        settings = {}
        for entry in entries:
            key, is_pair, value = entry.partition("=")
            if not is_pair or not key:
                raise OptionsError(f"option --spark_conf: expected key=value, got {entry!r}")
            settings[key] = value
        return settings


class StreamingOptions(PipelineOptions):
    """Parallelism, checkpoints and recovery of streaming runs.

    >>> PipelineOptions(["--parallelism=4", "--checkpoint_interval=0.5"]).view_as(StreamingOptions).parallelism
    4
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        help = "The number of subtasks of each task; 1 runs in this process, 0 uses all cores."
        add("--parallelism", "--direct_num_workers", type=int, default=1, help=help)
        add("--workers", type=int, help="The number of worker processes. Default: one for each subtask.")
        add("--metrics_port", type=int, help="Serve metrics to Prometheus at this port; 0 for a free port.")
        add("--metrics_host", default="127.0.0.1", help="The address to serve metrics at.")
        add("--health_port", type=int, help="Serve /healthz and /readyz at this port; 0 for a free port.")
        add("--health_host", default="127.0.0.1", help="The address to serve the health at.")
        help = "Seconds without progress after which a run is no longer healthy."
        add("--health_timeout", type=float, default=60.0, help=help)
        help = "What SIGTERM and Ctrl-C do. Default: stop with a savepoint if there is a checkpoint_dir, else drain."
        add("--on_signal", choices=["savepoint", "drain", "cancel"], help=help)
        help = "The start of worker processes. Default: forkserver, a fork of a template process, if the system has it."
        add("--start_method", metavar="{forkserver,spawn}", help=help)
        add("--worker_timeout", type=float, default=10.0, help="Seconds after which a worker that hangs is killed.")
        add("--checkpoint_dir", help="The directory of checkpoints, a path or URL, from which the next start resumes.")
        add("--checkpoint_interval", type=float, default=10.0, help="Seconds between the starts of two checkpoints.")
        add(
            "--checkpoint_timeout",
            type=float,
            default=600.0,
            help="Seconds after which an unfinished checkpoint fails.",
        )
        help = "The least number of seconds between two checkpoints. Default: the duration of the last one, at most 1."
        add("--checkpoint_min_pause", type=float, help=help)
        add("--checkpoint_retention", type=int, default=3, help="The number of checkpoints to retain.")
        modes = ["aligned", "unaligned"]
        add("--checkpoint_mode", choices=modes, default="aligned", help="The alignment of barriers.")
        help = "Seconds after which an aligned checkpoint changes over to unaligned. Default: never."
        add("--alignment_timeout", type=float, help=help)
        help = "Where windows and keyed state are: in memory, or, what is not in use, in RocksDB on the local disk."
        add("--state_backend", choices=["memory", "rocksdb"], default="memory", help=help)
        help = "The approximate memory of a worker's state with --state_backend=rocksdb, such as 2GB. Default: 512MB."
        add("--state_memory", help=help)
        help = "The directory of RocksDB's files. Default: the one for temporary files."
        add("--state_dir", help=help)
        help = "The basis of exactly once: barriers (checkpoints), or productions of each subtask, logged or not."
        add("--delivery", choices=["barriers", "strong", "weak"], default="barriers", help=help)
        help = "The tasks to restart after a failure: all, or the failover region of the failed ones."
        add("--recovery", choices=["graph", "region"], default="graph", help=help)
        add(
            "--max_restarts",
            type=int,
            default=3,
            help="The largest number of restarts between checkpoints.",
        )
        add(
            "--restart_delay",
            type=float,
            default=0.1,
            help="Seconds before a restart; doubled each time.",
        )
        _switch(parser, "allow_dropped_state", False, "Drop a checkpoint's state of removed steps.")
        help = "Resume from the checkpointed offsets of sources that have changed, such as those with another address."
        _switch(parser, "allow_changed_sources", False, help)
        help = "Resume although a step's keys are of other types than those in the checkpoint."
        _switch(parser, "allow_new_key_types", False, help)
        help = "Read checkpoints from a directory that other users can write to."
        _switch(parser, "allow_untrusted_checkpoints", False, help)
        accept(parser, "update_compatibility_version")


class PageOptions(PipelineOptions):
    """The page of a running pipeline.

    >>> PipelineOptions(["--ui_port=8081"]).view_as(PageOptions).ui_port
    8081
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        add("--ui_port", type=int, help="Serve a page with the state of the run at this port; 0 for a free port.")
        add("--ui_host", default="127.0.0.1", help="The address to serve the page at.")


class SinkOptions(PipelineOptions):
    """The treatment of records that a sink's target refuses.

    >>> PipelineOptions(["--on_commit_error=dead_letter"]).view_as(SinkOptions).on_commit_error
    'dead_letter'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        help = "For a record that a sink can't commit: fail the run, or write it to the sink's dead letters."
        parser.add_argument("--on_commit_error", choices=["fail", "dead_letter"], default="fail", help=help)


class MicroBatchOptions(PipelineOptions):
    """Size and frequency of Spark's micro-batches.

    >>> PipelineOptions(["--batch_interval=0.5"]).view_as(MicroBatchOptions).batch_interval
    0.5
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        add(
            "--batch_interval",
            type=float,
            default=0.0,
            help="Seconds between micro-batches, at least.",
        )
        add(
            "--max_records_per_batch",
            type=int,
            default=1_000_000,
            help="The largest number of elements of a micro-batch.",
        )
        add("--max_bytes_per_batch", type=int, help="The approximate number of bytes that it reads of each partition.")
        _switch(parser, "available_now", False, "Read the input available at the start, and end.")


class ProgressOptions(PipelineOptions):
    """Display of progress, or None for a display if there is a terminal.

    >>> import penstock as beam
    >>> beam.options.PipelineOptions(["--no_progress"]).view_as(beam.options.ProgressOptions).progress
    False
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        _switch(parser, "progress", None, "Show progress while the pipeline runs.")


class CredentialsOptions(PipelineOptions):
    """Credentials of clients.

    >>> account = "reader@shop.iam.gserviceaccount.com"
    >>> options = PipelineOptions([f"--impersonate_service_account={account}"])
    >>> options.view_as(CredentialsOptions).impersonate_service_account == account
    True
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--impersonate_service_account",
            metavar="ACCOUNT[,...]",
            help="The service account that clients of Google Cloud act as: the last of a list, by way of the others.",
        )


class ProfilingOptions(PipelineOptions):
    """Profiles of the workers.

    >>> PipelineOptions(["--profile_location=/tmp/profiles"]).view_as(ProfilingOptions).profile_location
    '/tmp/profiles'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--profile_cpu", default=False, action="store_true", help="Profile the workers' CPU time.")
        parser.add_argument("--profile_location", help="The directory that profiles are written to.")
        accept(
            parser,
            "profile_memory? profiler_agent profiler_extra_args,profiler_extra_arg+ profile_temp_location "
            "profiler_extra_env_vars,profiler_extra_env_var+ profile_upload_interval_sec#=300 "
            "profiler_stop_after_sec#=0 profiler_stop_after_crash? profile_postprocess_interval_sec#=600",
        )
        accept(parser, "profile_sample_rate", type=float, default=1.0)


def _switch(parser: Any, name: str, default: bool | None, help: str) -> None:
    """Add a flag `--name` and its opposite `--no_name`."""
    parser.add_argument(f"--{name}", dest=name, action="store_true", default=default, help=help)
    parser.add_argument(f"--no_{name}", dest=name, action="store_false", default=default, help=f"Not --{name}.")
