"""Methods of the results of Beam's services, such as `DataflowPipelineResult`, for those of penstock's runs."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from ...sdk.errors import PenstockError
from ...sdk.runner import PipelineResult, PipelineState
from ...sdk.runs import preview

# What `DataflowRunner` raises for a run that has failed: `except DataflowRuntimeException` catches our errors.
DataflowRuntimeException = PenstockError
DataflowPipelineResult = PipelineResult

_ids: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def job_id(result: PipelineResult) -> str:
    """Return an id of the run that no other run has."""
    if result not in _ids:
        # Which takes longer to import than all of this package.
        from uuid import uuid4

        _ids[result] = f"penstock-{uuid4()}"
    return _ids[result]


def has_job(result: PipelineResult) -> bool:
    """Whether the run was started: always."""
    return True


def is_in_terminal_state(result: PipelineResult) -> bool:
    """Return whether the run has ended."""
    return PipelineState.is_terminal(result.state)


def api_jobstate(result: PipelineResult) -> str:
    """Return the state of the run, as `result.state`."""
    return result.state


def get(result: PipelineResult, pcoll: Any, include_window_info: bool = False) -> list[Any]:
    """Return the elements of a bounded PCollection, which is computed again: for `InteractiveRunner`.

    Args:
      include_window_info: returns `WindowedValue`s.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> words = p | beam.Create(["tea", "milk"])
    >>> get(p.run(), words)
    ['tea', 'milk']
    """
    found: list[Any] = preview.collect_windowed(pcoll) if include_window_info else preview.collect(pcoll)
    return found
