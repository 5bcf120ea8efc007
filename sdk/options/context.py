"""The options of the pipeline that is being built or run, for code that is not handed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .pipeline_options import PipelineOptions

_current: ContextVar[PipelineOptions | None] = ContextVar("pipeline_options", default=None)


def get_pipeline_options() -> PipelineOptions | None:
    """The options in scope, or None.

    >>> with scoped_pipeline_options(PipelineOptions([], streaming=True)):
    ...     get_pipeline_options()
    PipelineOptions(streaming=True)
    """
    return _current.get()


@contextmanager
def scoped_pipeline_options(options: PipelineOptions | None) -> Iterator[None]:
    """Inside of the `with` block, `get_pipeline_options` gives `options`."""
    token = _current.set(options)
    try:
        yield
    finally:
        _current.reset(token)
