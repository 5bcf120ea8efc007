"""Options: how a pipeline is to be run.

In reading order: options and their views (`pipeline_options`); the views that penstock
itself reads (`views`); one view's flags (`parser`); values of Beam's templates
(`value_provider`); the options in scope (`context`).
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
