"""TestPipeline: a pipeline for tests."""

from __future__ import annotations

import shlex
import sys
from base64 import b64encode
from collections.abc import Sequence
from typing import Any
from unittest import SkipTest

from ..sdk.options import PipelineOptions
from ..sdk.pipeline import Pipeline
from ..sdk.runner import PipelineResult, Runner
from ..sdk.user_code.pickler import pickled


class TestPipeline(Pipeline):
    """A pipeline that ignores the command line, and blocks until it has finished.

    With `is_integration_test=True`, raises `unittest.SkipTest` unless the flag `--test-pipeline-options` is given.

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
        flag = "--test-pipeline-options"
        if is_integration_test and not any(given.startswith(flag) for given in (sys.argv if argv is None else argv)):
            raise SkipTest(f"an integration test, which is skipped without {flag}")
        self.options_list = [*_test_options(argv or []), *(additional_pipeline_args or [])]
        self.is_integration_test = is_integration_test
        if options is None:
            options = PipelineOptions(self.options_list)
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

    def get_option(self, opt_name: str, bool_option: bool = False) -> Any:
        """Return the value of a flag that the pipeline was given as a string, or None.

        Args:
          opt_name: the flag's name, such as "input".
          bool_option: returns True or False, for a flag without a value.

        >>> TestPipeline(additional_pipeline_args=["--streaming", "--job_name=a"]).get_option("job_name")
        'a'
        """
        flag = f"--{opt_name.removeprefix('--')}"
        if bool_option:
            return flag in self.options_list
        for i, given in enumerate(self.options_list):
            name, equals, value = given.partition("=")
            if name == flag:
                return value if equals else next(iter(self.options_list[i + 1 : i + 2]), None)
        return None

    def get_full_options_as_args(self, **extra_opts: Any) -> list[str]:
        """Return its flags and those of the arguments: `--name=value`, `--name` for True, none for a false value.

        The value of a matcher is its pickle, as of `apache_beam.internal.pickler`.

        >>> TestPipeline(additional_pipeline_args=["--streaming"]).get_full_options_as_args(output="a", quiet=True)
        ['--streaming', '--output=a', '--quiet']
        """
        given = {name: value for name, value in extra_opts.items() if value}
        extra = [f"--{name}" if value is True else f"--{name}={_as_text(value)}" for name, value in given.items()]
        return [*self.options_list, *extra]


def _as_text(value: Any) -> Any:
    if not (hasattr(value, "matches") and hasattr(value, "describe_to")):
        return value
    return b64encode(pickled(value)).decode()


def _test_options(argv: Sequence[str]) -> list[str]:
    """Return flags with the content of `--test-pipeline-options` in place of it."""
    flags: list[str] = []
    given = iter(argv)
    for flag in given:
        name, equals, value = flag.partition("=")
        flags += shlex.split(value if equals else next(given, "")) if name == "--test-pipeline-options" else [flag]
    return flags
