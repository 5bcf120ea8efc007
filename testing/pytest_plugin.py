"""Plugin for pytest.

Pipelines in tests don't read pytest's own flags, and can be simulated.  A failing test shows the frames of the test and
of the pipeline's functions, without penstock's.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pytest

from ..sdk.user_code.own_code import is_ours


def pytest_addoption(parser: Any) -> None:
    """Add the setting that keeps penstock's frames, for its own tests."""
    parser.addini("penstock_frames", "show penstock's own frames in tracebacks", type="bool", default=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Remove penstock's frames from a failure, unless `--full-trace` is given."""
    config = item.config
    if call.excinfo is not None and not config.getoption("fulltrace", False) and not config.getini("penstock_frames"):
        error = call.excinfo.value
        for each in _with_causes(error):
            each.__traceback__ = _without_ours(each.__traceback__)
        call.excinfo = pytest.ExceptionInfo.from_exception(error)
    return (yield)


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without penstock's frames, and without those of context managers that penstock enters."""
    kept = []
    before = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not is_ours(file) and not (file == contextlib.__file__ and is_ours(before)):
            kept.append(traceback)
            before = file
        elif file != contextlib.__file__:
            before = file
        traceback = traceback.tb_next
    for each in reversed(kept):
        traceback = TracebackType(traceback, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return traceback


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, and those of a group."""
    seen: set[int] = set()
    following: list[BaseException | None] = [error]
    while following:
        each = following.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        following += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def pytest_configure(config: Any) -> None:
    """Keep `PipelineOptions()` from reading pytest's command line.  A `sys.argv` that a test sets is read."""
    from ..sdk.options import pipeline_options

    pipeline_options.command_line_of_pytest = list(sys.argv)


@pytest.fixture
def simulate() -> Callable[..., None]:
    """Return `simulate_pipeline`, called as `simulate(pipeline, seeds=20)`."""
    from .simulating import simulate_pipeline

    return simulate_pipeline
