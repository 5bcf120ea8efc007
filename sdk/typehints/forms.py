"""Forms of type hints that an extension has: constraints, and the hints of inputs and outputs that programs read.

The core reads hints of `typing`.  Constraints, and what `get_type_hints` of transforms and DoFns returns, are made when
a program asks for them, and for errors and checks of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..names.extensions import extension_point


@extension_point
def constraint_form(hint: Any) -> Any:
    """Return the constraint for a hint of `typing`."""


@extension_point
def windowed_form(hint: Any) -> Any:
    """Return the constraint for values of a type with their timestamps and windows."""


@extension_point
def check_value(constraint: Any, value: Any) -> None:
    """Raise `TypeError` for a value that isn't of the type of a constraint."""


@extension_point
def io_hints(inputs: tuple[Any, ...] | None, output: Any, tagged: Mapping[str, Any]) -> Any:
    """Return the hints of a transform as one object; None is unknown.

    Args:
      tagged: the types of tagged outputs, by tag.
    """


@extension_point
def io_hints_of_declarations(target: Any) -> Any:
    """Return the hints that decorators declare for a function, DoFn or transform."""


@extension_point
def io_hints_of_results(fn: Callable[..., Any]) -> Any:
    """Return the hints of a function that returns an iterable: its inputs, and the elements of its results."""


@extension_point
def io_hints_of_built_in(transform: Any) -> Any:
    """Return the hints of a transform of penstock, in terms of type variables; None for other transforms."""


def constraint_of(hint: Any) -> Any:
    """Return the constraint for a hint; without an extension that has constraints, the hint itself.

    >>> constraint_of(dict[str, int])
    Dict[<class 'str'>, <class 'int'>]
    """
    return constraint_form(hint) if constraint_form.is_provided() else hint
