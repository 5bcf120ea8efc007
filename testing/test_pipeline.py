"""TestPipeline: a pipeline for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sdk.options import PipelineOptions
from ..sdk.pipeline import Pipeline
from ..sdk.runner import PipelineResult, Runner


class TestPipeline(Pipeline):
    """A pipeline that ignores the command line, and blocks until it has finished.

    >>> from penstock.testing import TestPipeline, assert_that, equal_to
    >>> import penstock as beam
    >>> with TestPipeline() as p:
    ...     assert_that(p | beam.Create([1, 2]) | beam.Map(lambda x: x * x), equal_to([4, 1]))
    """

    # Keep pytest from collecting it as a test.
    __test__ = False

    def __init__(
        self,
        runner: Runner | str | type[Runner] | None = None,
        options: PipelineOptions | None = None,
        argv: Sequence[str] | None = None,
        is_integration_test: bool = False,
        blocking: bool = True,
        additional_pipeline_args: Sequence[str] | None = None,
        display_data: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        if options is None:
            options = PipelineOptions([*(argv or []), *(additional_pipeline_args or [])])
        super().__init__(runner, options, display_data=display_data)
        self.blocking = blocking
        self.timeout = timeout

    def run(self, test_runner_api: bool = True) -> PipelineResult:
        """Run the pipeline, and wait until it has finished if it is blocking."""
        result = super().run()
        if self.blocking:
            result.wait_until_finish(self.timeout)
        return result

    def get_pipeline_options(self) -> PipelineOptions:
        """Return its options."""
        return self.options
