"""Types declared with decorators instead of annotations: Beam's `with_input_types` and `with_output_types`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from ...frozen import frozen
from ..errors import TypeHintError
from .simplified import declared

T = TypeVar("T")

_ATTRIBUTE = "_penstock_type_hints"
_OF_ANNOTATIONS = "_penstock_of_annotations"


@frozen
class _Declared:
    inputs: tuple[Any, ...] | None = None
    named: Mapping[str, Any] = attrs.field(factory=dict)
    output: Any = None
    tagged: Mapping[str, Any] = attrs.field(factory=dict)


def with_input_types(*positional: Any, **by_name: Any) -> Callable[[T], T]:
    """Declare the input types of a function, DoFn or transform by position, or by the names of a function's parameters.

    >>> @with_input_types(int)
    ... @with_output_types(str)
    ... def spell(n):
    ...     return str(n)
    >>> declared_hints(spell)
    (<class 'int'>, <class 'str'>)
    """

    inputs = tuple(map(declared, positional))
    named = {name: declared(hint) for name, hint in by_name.items()}
    return lambda target: _declare(target, inputs=inputs, named=named)


def with_output_types(hint: Any = None, **tagged: Any) -> Callable[[T], T]:
    """Declare the result type of a function, or the type of the output elements of a DoFn or transform.

    Args:
      tagged: types of tagged outputs by tag.

    >>> @with_output_types(int, errors=str)
    ... def parsed(text):
    ...     return int(text)
    >>> declared_hints(parsed)[1], declared_tags(parsed)
    (<class 'int'>, {'errors': <class 'str'>})
    """
    by_tag = {tag: declared(one) for tag, one in tagged.items()}
    output = declared(hint)
    return lambda target: _declare(target, output=output, tagged=by_tag)


def _by_position(target: Any, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the types by position, those of named parameters included."""
    fn = target.process if hasattr(target, "process") else target
    try:
        names = [name for name in inspect.signature(fn).parameters if name != "self"]
    except (TypeError, ValueError):
        return inputs
    positions = [names.index(name) for name in named if name in names[len(inputs) :]]
    return inputs + tuple(named.get(name, Any) for name in names[len(inputs) : max(positions, default=-1) + 1])


# A new object each time, so that a subclass doesn't change the declarations of its base.
def _declare(target: T, **declared: Any) -> T:
    hints = attrs.evolve(getattr(target, _ATTRIBUTE, None) or _Declared(), **declared)
    try:
        setattr(target, _ATTRIBUTE, hints)
    except AttributeError:
        raise TypeHintError(
            f"{target!r} can't carry type hints; use .with_input_types() and .with_output_types() of the transform"
        ) from None
    return target


def declared_hints(target: Any) -> tuple[Any, Any]:
    """Return the declared types of the first input and the output, or None for undeclared ones.

    >>> @with_input_types(int)
    ... def spell(n): ...
    >>> declared_hints(spell)
    (<class 'int'>, None)
    """
    inputs = declared_inputs(target)
    return (inputs[0] if inputs else None), _declarations(target).output


def declared_inputs(target: Any) -> tuple[Any, ...] | None:
    """Return the declared types of all inputs, by position, or None if undeclared.

    >>> @with_input_types(int, text=str)
    ... def times(n, text):
    ...     return n * text
    >>> declared_inputs(times)
    (<class 'int'>, <class 'str'>)
    """
    found = _declarations(target)
    return _by_position(target, found.inputs or (), found.named) if found.named else found.inputs


def given_inputs(target: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the declared types of inputs as they were given: by position, and by name."""
    found = _declarations(target)
    return found.inputs or (), found.named


def declared_tags(target: Any) -> Mapping[str, Any]:
    """Return the declared types of tagged outputs by tag.

    >>> declared_tags(with_output_types(int, errors=str)(lambda text: int(text)))
    {'errors': <class 'str'>}
    """
    return _declarations(target).tagged


def of_annotations(method: T) -> T:
    """Mark a `default_type_hints` of the library, which returns the types of annotations."""
    setattr(method, _OF_ANNOTATIONS, True)
    return method


_NOTHING = _Declared()


def _declarations(target: Any) -> _Declared:
    found = getattr(target, _ATTRIBUTE, None)
    found = found if isinstance(found, _Declared) else _NOTHING
    # A class of the user may define Beam's `default_type_hints`.
    defaults = getattr(target, "default_type_hints", None)
    if isinstance(target, type) or getattr(defaults, _OF_ANNOTATIONS, False):
        defaults = None
    hints = None if defaults is None else defaults()
    if hints is None:
        return found
    # Those of an instance count first, then the defaults, then those of its class.
    own = vars(target).get(_ATTRIBUTE) if hasattr(target, "__dict__") else None
    own = own if isinstance(own, _Declared) else _NOTHING
    (inputs, named), (outputs, tagged) = hints.input_types or ((), {}), hints.output_types or ((), {})
    default = declared(outputs[0]) if outputs else None
    return _Declared(
        own.inputs or tuple(map(declared, inputs)) or found.inputs,
        own.named or {name: declared(one) for name, one in named.items()} or found.named,
        next((one for one in (own.output, default, found.output) if one is not None), None),
        own.tagged or {tag: declared(one) for tag, one in tagged.items()} or found.tagged,
    )
