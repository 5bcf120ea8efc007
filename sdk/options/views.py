"""The views that penstock itself reads."""

from __future__ import annotations

from typing import Any

from ..errors import OptionsError
from .pipeline_options import PipelineOptions


class StandardOptions(PipelineOptions):
    """Which runner, and in which mode.

    >>> PipelineOptions(["--runner=local"]).view_as(StandardOptions).runner
    'local'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--runner", help="The runner's name or class; the local runner when not given.")
        parser.add_argument("--streaming", default=False, action="store_true", help="Run as a stream, not as a batch.")


class TypeOptions(PipelineOptions):
    """How strictly types are checked while the pipeline is built."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        _switch(parser, "pipeline_type_check", True, "Compare the type hints of neighbouring transforms.")
        _switch(parser, "runtime_type_check", False, "Check each element against the type hints.")
        _switch(parser, "allow_unsafe_triggers", False, "Allow triggers that finish and then drop what still comes.")


class SetupOptions(PipelineOptions):
    """What the workers need before they start."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        help = "Beam's; accepted. What functions use of the main module travels with them in any case."
        _switch(parser, "save_main_session", False, help)


class DebugOptions(PipelineOptions):
    """Experiments: named behaviours that are not settled yet.

    >>> options = PipelineOptions(["--experiments", "fast", "--experiments", "size=3"])
    >>> options.view_as(DebugOptions).lookup_experiment("size")
    '3'
    """

    experiments: list[str] | None

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--experiments", "--experiment", action="append", help="A name, or name=value; repeatable.")

    def add_experiment(self, experiment: str) -> None:
        """Add one, unless it is there already."""
        if experiment not in (self.experiments or []):
            self.experiments = [*(self.experiments or []), experiment]

    def lookup_experiment(self, key: str, default: Any = None) -> Any:
        """The value of `key=value`; True for a `key` alone; else `default`."""
        for experiment in self.experiments or []:
            name, is_pair, value = experiment.partition("=")
            if name == key:
                return value if is_pair else True
        return default


class SparkOptions(PipelineOptions):
    """The Spark session that the Spark runners use.

    >>> PipelineOptions(["--spark_conf", "spark.ui.enabled=false"]).view_as(SparkOptions).conf()
    {'spark.ui.enabled': 'false'}
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--spark_master", help="The master's URL, such as local[4]; else what spark-submit says.")
        parser.add_argument("--spark_app_name", help="The application's name in Spark's own pages.")
        parser.add_argument("--spark_shuffle_partitions", type=int, help="Into how many parts a shuffle splits.")
        parser.add_argument("--spark_conf", action="append", help="A setting of Spark's, as key=value; repeatable.")

    def conf(self) -> dict[str, str]:
        """`spark_conf` as a dictionary.  Raises `OptionsError` for an entry that is not `key=value`."""
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
    """How the local runner streams: side by side, with checkpoints, and again after a failure.

    >>> PipelineOptions(["--parallelism=4", "--checkpoint_interval=0.5"]).view_as(StreamingOptions).parallelism
    4
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        add("--parallelism", type=int, default=1, help="How many subtasks each task has; 1 stays in this process.")
        add("--workers", type=int, help="How many processes they run in; as many as subtasks when not given.")
        add("--metrics_port", type=int, help="Serve metrics to Prometheus at this port; 0 for one that is free.")
        add("--metrics_host", default="127.0.0.1", help="The address to serve them at; else only to this machine.")
        help = "How their processes begin; fork where there is one."
        add("--worker_start", choices=["fork", "spawn"], help=help)
        add("--worker_timeout", type=float, default=10.0, help="Seconds until a worker that hangs is killed.")
        add("--checkpoint_dir", help="Where checkpoints are kept, and found again by the next start: a path or URL.")
        add("--checkpoint_interval", type=float, default=10.0, help="Seconds from one checkpoint to the next.")
        add("--checkpoint_timeout", type=float, default=600.0, help="Seconds until a checkpoint has failed.")
        help = "Seconds between checkpoints, at least; as long as the last one took, up to one, when not given."
        add("--checkpoint_min_pause", type=float, help=help)
        add("--checkpoint_retention", type=int, default=3, help="How many checkpoints are kept.")
        modes = ["aligned", "unaligned", "synchronous"]
        add("--checkpoint_mode", choices=modes, default="aligned", help="How barriers are dealt with.")
        help = "What exactly once rests on: barriers through all, or productions of each subtask, logged or not."
        add("--delivery", choices=["barriers", "strong", "weak"], default="barriers", help=help)
        help = "What starts again after a failure: the whole graph, or the region of it that has to."
        add("--recovery", choices=["graph", "region"], default="graph", help=help)
        add("--max_restarts", type=int, default=3, help="How often to start again, without a checkpoint in between.")
        add("--restart_delay", type=float, default=0.1, help="Seconds before the first such start; doubled each time.")
        _switch(parser, "allow_dropped_state", False, "Drop a checkpoint's state of steps that are gone.")
        help = (
            "Resume from the checkpointed positions of sources that have changed, such as those with another address."
        )
        _switch(parser, "allow_changed_sources", False, help)
        help = "Go on although a step's keys are of other types than those in the checkpoint."
        _switch(parser, "allow_new_key_types", False, help)
        help = "Read checkpoints from a directory that other users can write to."
        _switch(parser, "allow_untrusted_checkpoints", False, help)


class SinkOptions(PipelineOptions):
    """What becomes of a record that a sink's target refuses.

    >>> PipelineOptions(["--on_commit_error=dead_letter"]).view_as(SinkOptions).on_commit_error
    'dead_letter'
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        help = "For a record that a sink can't commit: fail the run, or write it to the sink's dead letters."
        parser.add_argument("--on_commit_error", choices=["fail", "dead_letter"], default="fail", help=help)


class MicroBatchOptions(PipelineOptions):
    """How Spark's micro-batches are driven.

    >>> PipelineOptions(["--batch_interval=0.5"]).view_as(MicroBatchOptions).batch_interval
    0.5
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add = parser.add_argument
        add("--batch_interval", type=float, default=0.0, help="Seconds from one micro-batch to the next, at least.")
        add("--max_records_per_batch", type=int, default=1_000_000, help="How many elements a micro-batch reads.")
        add("--max_bytes_per_batch", type=int, help="About how many bytes it reads of each partition of a source.")
        help = "Keyed state that a subtask has in memory, about, such as 512MB; the rest is in RocksDB."
        add("--shard_memory", help=help)
        _switch(parser, "available_now", False, "Read what is there when the pipeline starts, and end.")


class ProgressOptions(PipelineOptions):
    """Whether progress is shown; None leaves it to whether there is a terminal to show it on."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        _switch(parser, "progress", None, "Show progress while the pipeline runs.")


class ProfilingOptions(PipelineOptions):
    """Profiles of the workers."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--profile_cpu", default=False, action="store_true", help="Profile the workers' CPU time.")
        parser.add_argument("--profile_location", help="The directory that profiles are written to.")


def _switch(parser: Any, name: str, default: bool | None, help: str) -> None:
    """A flag `--name` and its contrary `--no_name`."""
    parser.add_argument(f"--{name}", dest=name, action="store_true", default=default, help=help)
    parser.add_argument(f"--no_{name}", dest=name, action="store_false", default=default, help=f"Not --{name}.")
