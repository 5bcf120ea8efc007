"""The options of the pipeline that is being built or run, for code without access to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from typing import Any

from .pipeline_options import PipelineOptions

_current: ContextVar[PipelineOptions | None] = ContextVar("pipeline_options", default=None)

# The options that a program was started with, for all of its threads.
_of_program: PipelineOptions | None = None

# Whether a pipeline runs in this thread.
_is_inside: ContextVar[bool] = ContextVar("inside_a_run", default=False)


def get_pipeline_options() -> PipelineOptions | None:
    """Return the options in scope, or None.

    >>> with scoped_pipeline_options(PipelineOptions([], streaming=True)):
    ...     get_pipeline_options()
    PipelineOptions(streaming=True)
    """
    found = _current.get()
    return _of_program if found is None else found


def options_in_scope() -> PipelineOptions | None:
    """Return the options of the pipeline that this thread builds or runs, or None.

    >>> with scoped_pipeline_options(PipelineOptions([], streaming=True)):
    ...     options_in_scope()
    PipelineOptions(streaming=True)
    """
    return _current.get()


def is_inside_a_run() -> bool:
    """Return True if a pipeline runs in this thread.

    >>> with inside_a_run():
    ...     is_inside_a_run()
    True
    """
    return _is_inside.get()


def options_of_new_pipeline() -> PipelineOptions | None:
    """Return the default options of a new pipeline: those in scope, unless another pipeline is running in this thread.

    A pipeline that a DoFn runs must not use the outer pipeline's checkpoint directory, metrics port and so on.

    >>> with scoped_pipeline_options(PipelineOptions([], streaming=True)), inside_a_run():
    ...     options_of_new_pipeline()
    """
    return None if is_inside_a_run() else get_pipeline_options()


@contextmanager
def scoped_pipeline_options(options: PipelineOptions | None) -> Iterator[None]:
    """Set the options that `get_pipeline_options` returns in this thread within the block.

    >>> with scoped_pipeline_options(PipelineOptions(["--parallelism=2"])):
    ...     get_pipeline_options().get_all_options()["parallelism"]
    2
    """
    token, inside = _current.set(options), _is_inside.set(False)
    try:
        yield
    finally:
        _is_inside.reset(inside)
        _current.reset(token)


@contextmanager
def options_of_program(options: PipelineOptions) -> Iterator[None]:
    """Set the options that `get_pipeline_options` returns within the block, in all threads without their own."""
    global _of_program
    before, _of_program = _of_program, options
    try:
        yield
    finally:
        _of_program = before


@contextmanager
def inside_a_run() -> Iterator[None]:
    """Mark this thread as running a pipeline within the block."""
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)


class OptionsContext(ContextDecorator):
    """Set options of all pipelines that are created within the block, or within the decorated function.

    Args:
      overrides: options by name.

    >>> with OptionsContext(streaming=True):
    ...     get_pipeline_options()
    PipelineOptions(streaming=True)
    """

    def __init__(self, **overrides: Any) -> None:
        self.overrides = overrides
        self._scopes: list[Any] = []

    def __enter__(self) -> OptionsContext:
        outer = get_pipeline_options()
        given = {} if outer is None else outer.get_all_options(drop_default=True)
        scope = scoped_pipeline_options(PipelineOptions([], **{**given, **self.overrides}))
        scope.__enter__()
        self._scopes.append(scope)
        return self

    def __exit__(self, *error: Any) -> None:
        self._scopes.pop().__exit__(*error)
