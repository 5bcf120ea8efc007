"""Options of a pipeline's run.

In reading order: options and their views (`pipeline_options`); penstock's own views (`views`); the flags of a view
(`parser`); flags among arguments (`flags`); values of Beam's templates (`value_provider`); the options in scope
(`context`); flags that have no effect (`accepted`).
"""

from .context import OptionsContext, get_pipeline_options, scoped_pipeline_options
from .pipeline_options import PipelineOptions, describe_options
from .views import (
    CredentialsOptions,
    DebugOptions,
    MicroBatchOptions,
    PageOptions,
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
    "PageOptions",
    "ProfilingOptions",
    "CredentialsOptions",
    "describe_options",
    "OptionsContext",
    "get_pipeline_options",
    "scoped_pipeline_options",
]
