"""SparkRunner: batch or micro-batches, as the pipeline has an end or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...sdk.graph import Graph
from ...sdk.options import PipelineOptions
from ...sdk.redaction import logger_of
from ...sdk.runner import Capability, PipelineResult, Runner
from .batch.runner import SparkBatchRunner
from .micro_batch.runner import SparkMicroBatchRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logger_of(__name__)


class SparkRunner(Runner):
    """`--runner=spark`: `spark-batch` for a pipeline whose input ends, `spark-microbatch` for any other.

    It logs which of the two it is.

    Args:
      spark_session: the session to run in, as theirs.
    """

    name = "spark"

    def __init__(self, spark_session: SparkSession | None = None) -> None:
        self._session = spark_session

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Start the pipeline with the runner that it needs."""
        unending = [node.producer for node in graph.pcollections.values() if not node.is_bounded]
        if unending:
            _logger.warning("--runner=spark runs this as spark-microbatch: the output of %s has no end", unending[0])
            return SparkMicroBatchRunner(self._session).run_pipeline(graph, options)
        _logger.warning("--runner=spark runs this as spark-batch: all of its input ends")
        return SparkBatchRunner(self._session).run_pipeline(graph, options)

    @classmethod
    def capabilities(cls) -> Mapping[Capability, str]:
        # What it picks can do, and a DataFrame is made where all of the input ends.
        return {**SparkMicroBatchRunner.capabilities(), Capability.DATAFRAMES: "yes"}
