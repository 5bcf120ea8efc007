"""Options of a pipeline's run.

In reading order: options and their views (`pipeline_options`); penstock's own views (`views`); the flags of a view
(`parser`); values of Beam's templates (`value_provider`); the options in scope (`context`).
"""

from .context import get_pipeline_options, scoped_pipeline_options
from .pipeline_options import PipelineOptions, describe_options
from .views import (
    DebugOptions,
    MicroBatchOptions,
    ProfilingOptions,
    ProgressOptions,
    SetupOptions,
    SinkOptions,
    SparkOptions,
    StandardOptions,
    StreamingOptions,
    TypeOptions,
)

__all__ = [
    "PipelineOptions",
    "StandardOptions",
    "StreamingOptions",
    "MicroBatchOptions",
    "TypeOptions",
    "SetupOptions",
    "DebugOptions",
    "SparkOptions",
    "SinkOptions",
    "ProgressOptions",
    "ProfilingOptions",
    "describe_options",
    "get_pipeline_options",
    "scoped_pipeline_options",
]
