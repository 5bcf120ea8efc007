"""What the annotations of a function, or of a DoFn, say of its elements."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..dofn import (
    CallableDoFn,
    DoFn,
    DoFnParam,
    ExpressionDoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from ..signatures import is_bare, signature
from .decorators import declared_hints, declared_inputs
from .parts import element_of
from .simplified import NoneType, members, simplified, union_of

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def hints_of_callable(fn: Any, skip_self: bool = False) -> tuple[tuple[Any, ...] | None, Any]:
    """The annotated types of a callable's positional parameters, and of its result.

    None stands for what isn't annotated at all; `Any` for single parameters that aren't,
    and for names that can't be resolved.  A class is a function that returns its
    instances.  Of what Python knows no signature, (None, None).

    Args:
      skip_self: leave out the first parameter, of a method that is bound to nothing.

    >>> def repeat(text: str, times: int) -> list[str]: ...
    >>> hints_of_callable(repeat)
    ((<class 'str'>, <class 'int'>), list[str])
    """
    if is_bare(fn):
        return None, None
    if isinstance(fn, type):
        constructor = inspect.getattr_static(fn, "__init__")
        return hints_of_callable(constructor, skip_self=True)[0] if inspect.isfunction(constructor) else None, fn
    # A method of a built-in class, such as str.upper, takes an instance of it.
    owner = getattr(fn, "__objclass__", None)
    if owner is not None and inspect.ismethoddescriptor(fn):
        return (owner,), None
    try:
        found = signature(fn)
    except (TypeError, ValueError, NameError):
        return None, None
    parameters = [p for p in found.parameters.values() if p.kind in _POSITIONAL][1 if skip_self else 0 :]
    is_annotated = any(p.annotation is not inspect.Parameter.empty for p in parameters)
    has_result = found.return_annotation is not inspect.Signature.empty
    if not is_annotated and not has_result:
        return None, None
    resolve = _resolver(fn)
    inputs = tuple(resolve(p.annotation) for p in parameters) if is_annotated else None
    return inputs, resolve(found.return_annotation) if has_result else None


def _resolver(fn: Any) -> Callable[[Any], Any]:
    """A function that turns an annotation into a type, in the scope where `fn` was defined."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    fn = inspect.unwrap(getattr(fn, "__func__", fn))
    scope = dict(getattr(fn, "__globals__", {}))
    code = getattr(fn, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(fn, "__closure__", None) or ()):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            # Not assigned yet, so it can't be resolved either.
            scope.pop(name, None)

    def resolve(annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, scope)
            except Exception:
                return Any
        return NoneType if annotation is None else annotation

    return resolve


def hints_of_dofn(dofn: DoFn) -> tuple[Any, Any]:
    """The type of the elements that a DoFn takes and of those that it produces; None where nothing is known.

    What was declared with the decorators comes before annotations.

    >>> class Split(DoFn):
    ...     def process(self, line: str) -> list[str]:
    ...         return line.split()
    >>> hints_of_dofn(Split())
    (<class 'str'>, <class 'str'>)
    """
    declared_input, declared_output = declared_hints(dofn)
    if isinstance(dofn, CallableDoFn):
        accepted, produced = _of_wrapped(dofn)
    elif isinstance(dofn, ExpressionDoFn):
        accepted, produced = None, None
    else:
        accepted, produced = _of_process(dofn)
    return (
        accepted if declared_input is None else declared_input,
        produced if declared_output is None else declared_output,
    )


def _of_wrapped(dofn: CallableDoFn) -> tuple[Any, Any]:
    inputs, output = hints_of_callable(dofn.fn)
    inputs = declared_inputs(dofn.fn) or inputs
    declared_output = declared_hints(dofn.fn)[1]
    output = output if declared_output is None else declared_output
    # Where the element is unpacked, further arguments may follow: how many are its own isn't known.
    is_unpacked = isinstance(dofn, (MapTupleDoFn, FlatMapTupleDoFn))
    accepted = inputs[0] if inputs and not is_unpacked else None
    if isinstance(dofn, (FilterDoFn, TimestampDoFn)):
        return accepted, None
    if output is None:
        return accepted, None
    return accepted, element_of(output) if isinstance(dofn, FlatMapDoFn) else _without_wrappers(output)


def _of_process(dofn: DoFn) -> tuple[Any, Any]:
    inputs, output = hints_of_callable(dofn.process)
    accepted = None
    if inputs:
        parameters = [p for p in signature(dofn.process).parameters.values() if p.kind in _POSITIONAL]
        candidates = [hint for p, hint in zip(parameters, inputs) if _is_element(p.default)]
        accepted = candidates[0] if candidates else None
    return accepted, None if output is None else _without_wrappers(element_of(output))


def _is_element(default: Any) -> bool:
    return not isinstance(default, DoFnParam) or default is DoFn.ElementParam


# TaggedOutput and the like stand beside plain values in a union; without them, the main output's type is left.
def _without_wrappers(hint: Any) -> Any:
    alternatives = members(hint)
    if alternatives is None:
        return simplified(hint)
    return union_of([one for one in alternatives if simplified(one) is not Any] or [Any])
