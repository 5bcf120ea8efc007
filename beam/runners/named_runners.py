"""Runners of Beam that a program names in its code, and in whose place one of penstock's runs.

The runner of the command line, `--runner=spark`, wins.  Without one it is `--beam_runner`, or else the local runner; a
warning says so.

>>> from penstock.beam.runners.named_runners import DataflowRunner
>>> from penstock.options.pipeline_options import PipelineOptions
>>> DataflowRunner().for_options(PipelineOptions(["--beam_runner=spark-batch"])).name
'spark-batch'
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any, ClassVar

from ...sdk.errors import UnknownRunnerError
from ...sdk.graph import Graph
from ...sdk.options.flags import flags_with_values
from ...sdk.options.pipeline_options import PipelineOptions
from ...sdk.runner import DEFAULT_RUNNER, PipelineResult, Runner, create_runner
from ..import_hook import is_hook_installed
from ..options import BeamRunnerOptions

_logger = logging.getLogger(__name__)


class NamedRunner(Runner):
    """A runner of Beam, for services and clusters that penstock doesn't run on: a name, in whose place another runs.

    Args: Beam's, which have no effect.
    """

    name: ClassVar[str]

    # The runner of penstock that is equivalent, so that no warning is logged; None if there is none.
    instead: ClassVar[str | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def for_options(self, options: PipelineOptions) -> Runner:
        """Return penstock's runner in the place of this one.

        Raises `UnknownRunnerError` if the command line names this runner, and for a program that isn't Beam's.
        """
        named = _of_command_line()
        if named is not None and not isinstance(named, NamedRunner):
            return named
        if chosen := options.view_as(BeamRunnerOptions).beam_runner:
            runner = create_runner(chosen)
            if isinstance(runner, NamedRunner):
                raise UnknownRunnerError(f"--beam_runner={chosen}: expected one of penstock's runners, such as spark")
            return runner
        if self.instead is None:
            if named is not None or not is_hook_installed():
                raise UnknownRunnerError(
                    f"--runner={self.name}: penstock has no such runner of Beam's, and runs the pipeline itself: use "
                    "--runner=local, with --parallelism=0 for all cores, or --runner=spark-batch or spark-microbatch "
                    "for a cluster"
                )
            _warn(self.name)
        return create_runner(self.instead or DEFAULT_RUNNER)

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        return self.for_options(options).run_pipeline(graph, options)


def _of_command_line() -> Runner | None:
    given = dict(flags_with_values(sys.argv[1:])).get("runner")
    return create_runner(given) if isinstance(given, str) else None


@cache
def _warn(name: str) -> None:
    _logger.warning(
        "%s, which the program names, is a runner of Beam's: --runner=%s runs the pipeline; choose another one by "
        "--runner, or by --beam_runner where the program sets --runner itself",
        name,
        DEFAULT_RUNNER,
    )


class DataflowRunner(NamedRunner):
    """Google's service."""

    name = "DataflowRunner"


class TestDataflowRunner(DataflowRunner):
    """Google's service, for tests."""

    name = "TestDataflowRunner"
    __test__ = False


class PortableRunner(NamedRunner):
    """A job server of Beam's."""

    name = "PortableRunner"


class FlinkRunner(PortableRunner):
    """Apache Flink."""

    name = "FlinkRunner"


class SparkRunner(PortableRunner):
    """Apache Spark, through a job server: penstock's runner needs none."""

    name = "SparkRunner"
    instead = "spark"


class PrismRunner(PortableRunner):
    """Beam's runner in Go, on one machine."""

    name = "PrismRunner"
    instead = DEFAULT_RUNNER


class InteractiveRunner(NamedRunner):
    """Beam's runner for notebooks.

    Args:
      underlying_runner: runs the pipelines; None for the local runner.
    """

    name = "InteractiveRunner"
    instead = DEFAULT_RUNNER

    def __init__(self, underlying_runner: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._underlying = underlying_runner

    def for_options(self, options: PipelineOptions) -> Runner:
        if self._underlying is None:
            return super().for_options(options)
        return create_runner(self._underlying).for_options(options)


# Other runners of Beam, by their names in lower case.
_OTHERS = (
    "DaskRunner",
    "RayRunner",
    "SamzaRunner",
    "Twister2Runner",
    "JetRunner",
    "NemoRunner",
    "UniversalLocalRunner",
    "KafkaStreamsRunner",
)
_BY_NAME: dict[str, type[NamedRunner]] = {
    kind.name.lower(): kind
    for kind in (DataflowRunner, TestDataflowRunner, PortableRunner, FlinkRunner, PrismRunner, InteractiveRunner)
} | {name.lower(): type(name, (NamedRunner,), {"name": name, "__doc__": "A runner of Beam's."}) for name in _OTHERS}


def runner_of_beam(name: str) -> NamedRunner | None:
    """Return the runner of a name, such as "DataflowRunner" or "dataflow"; None if Beam has none.

    >>> runner_of_beam("apache_beam.runners.dataflow.DataflowRunner").name, runner_of_beam("nothing")
    ('DataflowRunner', None)
    """
    kind = _BY_NAME.get(name.rsplit(".", 1)[-1].lower().removesuffix("runner") + "runner")
    return None if kind is None else kind()
