"""Types of a composite's elements: the annotations of its `expand`, and the parameters of its class."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, get_args, get_origin

from ..adapters import typehint_of
from .callables import hints_of_callable
from .class_parameters import class_parameters
from .simplified import simplified

_logger = logging.getLogger(__name__)


@lru_cache(maxsize=1000)
def types_of_expand(expand: Any) -> tuple[Any, Any]:
    """Return the types of elements of an `expand` from PCollection[..] to PCollection[..]; None for unknown ones."""
    inputs, output = hints_of_callable(expand, skip_self=True)
    return _type_in_pcollection(inputs[0] if inputs else None), _type_in_pcollection(output)


@lru_cache(maxsize=1000)
def types_of_class(kind: Any, base: Any) -> tuple[Any, Any]:
    """Return the types of a composite's elements by its annotations and its parameters; None for unknown ones.

    Args:
      kind: the class of the composite.
      base: `PTransform`, whose parameters they are.
    """
    accepted, produced = types_of_expand(kind.expand)
    if accepted is None or produced is None:
        parameters = class_parameters(kind, base) or (None, None)
        accepted = _type_in_pcollection(parameters[0]) if accepted is None else accepted
        produced = _type_in_pcollection(parameters[1]) if produced is None else produced
    return accepted, produced


def annotated_types(expand: Any) -> tuple[Any, Any]:
    """Return the types of elements of an annotated `expand`, `Any` for those that it doesn't tell; else None.

    Annotations that are no PCollections are ignored with a warning.
    """
    if expand.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return None, None
    inputs, output = hints_of_callable(expand, skip_self=True)
    if inputs is None and output is None:
        return None, None
    hints = inputs[0] if inputs else Any, Any if output is None else output
    found: list[Any] = []
    for hint, side, others in zip(hints, ("input", "output"), ("PBegin", "PDone or None"), strict=True):
        kind = get_origin(hint) or hint
        is_of_pipeline = getattr(kind, "__name__", "") in ("PCollection", "PBegin", "PDone", "DoOutputsTuple")
        is_known = is_of_pipeline or (kind is type(None) and side == "output") or simplified(hint) is Any
        if not is_known:
            _logger.warning(
                "%s: the %s is annotated as %s, which is ignored; expected PCollection[..], or %s",
                *(expand.__qualname__, side, hint, others),
            )
        element_type = _type_in_pcollection(hint)
        found.append(None if not is_known else Any if element_type is None else element_type)
    return found[0], found[1]


def _type_in_pcollection(hint: Any) -> Any:
    if getattr(get_origin(hint), "__name__", "") != "PCollection":
        return None
    element_type = typehint_of(get_args(hint)[0])
    return None if simplified(element_type) is Any else element_type
