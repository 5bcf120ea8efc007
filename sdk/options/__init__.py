"""Options of a pipeline's run.

In reading order: options and their views (`pipeline_options`); penstock's own views (`views`); the flags of a view
(`parser`); flags among arguments (`flags`); values of Beam's templates (`value_provider`); the options in scope
(`context`); Beam's options that have no effect (`accepted`, `beam`), and
their errors (`validation`).
"""

from typing import Any

from .context import OptionsContext, get_pipeline_options, scoped_pipeline_options
from .pipeline_options import PipelineOptions, describe_options
from .views import (
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
    "describe_options",
    "OptionsContext",
    "get_pipeline_options",
    "scoped_pipeline_options",
    # Beam's, imported on first access.
    "AzureOptions",
    "CrossLanguageOptions",
    "DirectOptions",
    "FlinkRunnerOptions",
    "GoogleCloudOptions",
    "HadoopFileSystemOptions",
    "JobServerOptions",
    "PortableOptions",
    "PrismRunnerOptions",
    "S3Options",
    "SparkRunnerOptions",
    "TestDataflowOptions",
    "TestOptions",
    "WorkerOptions",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.beam"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
