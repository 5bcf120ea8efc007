"""Runners that run a transform without a pipeline: `runner.run(transform)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..options import PipelineOptions
from ..pipeline import Pipeline
from ..ptransform import PTransform
from ..pvalue import PBegin
from ..runner import PipelineResult, Runner


class TransformRunner(Runner):
    """Base class of runners that make a pipeline for a transform."""

    def run(
        self, transform: PTransform | Callable[[PBegin], Any], options: PipelineOptions | None = None
    ) -> PipelineResult:
        """Start a pipeline of one transform, or of what a function applies to the pipeline's begin.

        >>> import penstock as beam
        >>> beam.runners.DirectRunner().run(beam.Create([1, 2]) | beam.Map(print)).wait_until_finish()
        1
        2
        'DONE'
        """
        pipeline = Pipeline(self, options)
        if isinstance(transform, PTransform):
            _ = pipeline | transform
        else:
            transform(PBegin(pipeline))
        return pipeline.run()
