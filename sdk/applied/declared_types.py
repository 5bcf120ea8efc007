"""Declared types of a transform's inputs and outputs, which are checked when it is applied."""

from __future__ import annotations

from typing import Any

from .. import typehints
from ..errors import PipelineError, TypeHintError
from ..options import TypeOptions
from ..ptransform import PTransform
from ..pvalue import DoOutputsTuple, PCollection, PipelineUnderConstruction
from ..typehints.forms import constraint_of
from ..typehints.simplified import simplified


def check_inputs(pipeline: PipelineUnderConstruction, transform: PTransform, pvalue: Any, label: str) -> None:
    """Raise `TypeHintError` for inputs of other types than declared, and `PipelineError` for another pipeline's."""
    pcolls = _pcollections_in(pvalue)
    for pcoll in pcolls:
        if pcoll.pipeline is not pipeline:
            raise PipelineError(f"{label}: its input {pcoll!r} belongs to another pipeline")
    if not pipeline.type_options.pipeline_type_check:
        return
    for pcoll, accepted in _typed_inputs(transform, pvalue, pcolls):
        if not typehints.is_compatible(pcoll.hint, accepted, not pcoll.has_declared_type):
            expected, found = constraint_of(accepted), constraint_of(pcoll.hint)
            raise TypeHintError(transform.input_type_violation(label, expected, found, pcoll.producer_label))


def check_strictness(options: TypeOptions, transform: PTransform, label: str, around: PTransform | None) -> None:
    """Raise `TypeHintError` for a transform of the user without an output type, if all types are required."""
    if options.type_check_strictness != "ALL_REQUIRED":
        return
    is_own = around is None or not type(around).__module__.startswith(f"{__name__.partition('.')[0]}.")
    if is_own and transform.get_type_hints().output_types is None:
        error = TypeHintError(
            f"Pipeline type checking is enabled, however no output type-hint was found for the PTransform "
            f"{type(transform).__name__}({label})"
        )
        error.add_note("--type_check_strictness=ALL_REQUIRED needs with_output_types()")
        raise error


def with_declared_type(options: TypeOptions, transform: PTransform, result: Any, label: str) -> Any:
    """Return the output with its declared type.  Raises `TypeHintError` for one that isn't of that type."""
    _, produced = transform.element_types()
    if produced is None or not isinstance(result, PCollection):
        return result
    is_inferred, result.has_declared_type = not result.has_declared_type, True
    if simplified(result.hint) is Any:
        result.hint = produced
    elif options.pipeline_type_check and not typehints.is_compatible(result.hint, produced, is_inferred):
        expected, found = constraint_of(produced), constraint_of(result.hint)
        raise TypeHintError(f"Output type hint violation at {label}: expected {expected!r}, got {found!r}")
    return result


def _typed_inputs(
    transform: PTransform, pvalue: Any, pcolls: list[PCollection[Any]]
) -> list[tuple[PCollection[Any], Any]]:
    """Return the inputs that have a declared type, with that type."""
    positional, named = transform.types_of_inputs()
    if isinstance(pvalue, dict) and named:
        return [(pvalue[key], hint) for key, hint in named.items() if isinstance(pvalue.get(key), PCollection)]
    if isinstance(pvalue, (tuple, list)) and len(positional) > 1:
        return [(part, hint) for part, hint in zip(pvalue, positional) if isinstance(part, PCollection)]
    accepted, _ = transform.element_types()
    return [] if accepted is None else [(pcoll, accepted) for pcoll in pcolls]


def _pcollections_in(value: Any) -> list[PCollection[Any]]:
    if isinstance(value, PCollection):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list, DoOutputsTuple)):
        return [pcoll for item in value for pcoll in _pcollections_in(item)]
    return []
