"""The Spark runners: `SparkBatchRunner`, `SparkMicroBatchRunner`, and `SparkRunner`, which chooses one of the two.

`session` finds Java and starts the SparkSession, `jobs` runs Spark jobs and explains failed ones, `dataframes` turns
DataFrames into blocks and back, and `private` has all uses of private API of PySpark.  `data_source` has the sources
and sinks of programs of DataFrames.
"""

from .batch.runner import SparkBatchRunner
from .data_source.registration import register_data_source
from .micro_batch.runner import SparkMicroBatchRunner
from .runner import SparkRunner

__all__ = ["SparkBatchRunner", "SparkMicroBatchRunner", "SparkRunner", "register_data_source"]
