"""SparkRunner: a batch run for a bounded pipeline, micro-batches for any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...sdk.graph import Graph
from ...sdk.options import PipelineOptions
from ...sdk.redaction import logger_of
from ...sdk.runner import Capability, PipelineResult
from ...sdk.runs.run_transform import TransformRunner
from .batch.runner import SparkBatchRunner
from .installed import what_is_missing
from .micro_batch.runner import SparkMicroBatchRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logger_of(__name__)


class SparkRunner(TransformRunner):
    """`--runner=spark`: `spark-batch` for a bounded pipeline, `spark-microbatch` for any other.

    It logs the runner that it chooses.

    Args:
      spark_session: the session to run in; see `SparkBatchRunner`.
    """

    name = "spark"

    def __init__(self, spark_session: SparkSession | None = None) -> None:
        self._session = spark_session

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run the pipeline with the runner that it needs."""
        unbounded = [node.producer for node in graph.pcollections.values() if not node.is_bounded]
        if unbounded:
            _logger.warning("--runner=spark runs this as spark-microbatch: the output of %s is unbounded", unbounded[0])
            return SparkMicroBatchRunner(self._session).run_pipeline(graph, options)
        _logger.warning("--runner=spark runs this as spark-batch: all of its input is bounded")
        return SparkBatchRunner(self._session).run_pipeline(graph, options)

    @classmethod
    def missing(cls) -> str | None:
        return what_is_missing()

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        # It has the capabilities of both.
        return {**SparkMicroBatchRunner.capabilities(), Capability.DATAFRAMES: "yes"}
