"""Type hints of a function's elements, from its annotations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from ..adapters import typehint_of
from ..user_code.signatures import is_bare, signature
from .describe import describe
from .simplified import NoneType, class_and_args, simplified

Function = TypeVar("Function", bound=Callable[..., Any])

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


# Set to False by `disable_type_annotations`.
_are_used = True


def disable_type_annotations() -> None:
    """Ignore all annotations from now on; declared types still count.

    It holds for the whole program, so a test runs it in a process of its own.

    >>> import subprocess, sys
    >>> program = '''
    ... import penstock as beam
    ... from penstock.typehints import disable_type_annotations
    ... def double(n: int) -> int:
    ...     return n * 2
    ... disable_type_annotations()
    ... with beam.Pipeline() as p:
    ...     _ = p | beam.Create(["tea"]) | beam.Map(double) | beam.Map(print)
    ... '''
    >>> print(subprocess.check_output([sys.executable, "-c", program], text=True), end="")
    teatea
    """
    global _are_used
    _are_used = False


def no_annotations(fn: Function) -> Function:
    """Ignore the annotations of a function.

    >>> @no_annotations
    ... def double(n: int) -> int: ...
    >>> hints_of_callable(double)
    (None, None)
    """
    fn.ignores_annotations = True  # type: ignore[attr-defined]
    return fn


def hints_of_callable(fn: Any, skip_self: bool = False) -> tuple[tuple[Any, ...] | None, Any]:
    """Return the annotated types of a callable's positional parameters, and of its result.

    None stands for parameters or a result without annotations; `Any` for single parameters without one, and for names
    that can't be resolved.  A class is a function that returns its instances.  For a callable without a signature,
    returns (None, None).

    Args:
      skip_self: leaves out the first parameter, for an unbound method.

    >>> def repeat(text: str, times: int) -> list[str]: ...
    >>> hints_of_callable(repeat)
    ((<class 'str'>, <class 'int'>), list[str])
    """
    if is_bare(fn) or not _are_used or getattr(fn, "ignores_annotations", False):
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
    parameters = [p for p in found.parameters.values() if p.kind in POSITIONAL][1 if skip_self else 0 :]
    is_annotated = any(p.annotation is not inspect.Parameter.empty for p in parameters)
    has_result = found.return_annotation is not inspect.Signature.empty
    if not is_annotated and not has_result:
        return None, None
    resolve = _resolver(fn)
    inputs = tuple(resolve(p.annotation) for p in parameters) if is_annotated else None
    return inputs, resolve(found.return_annotation) if has_result else None


def annotations_of(fn: Any) -> dict[str, Any]:
    """Return the annotated types of a callable's parameters, by name; none for those that count as `hints_of_callable`.

    >>> def repeat(text: str, times: int, unit=""): ...
    >>> annotations_of(repeat)
    {'text': <class 'str'>, 'times': <class 'int'>}
    """
    if is_bare(fn) or not _are_used or getattr(fn, "ignores_annotations", False):
        return {}
    try:
        parameters = signature(fn).parameters.values()
    except (TypeError, ValueError, NameError):
        return {}
    annotated = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    resolve = _resolver(fn) if annotated else None
    return {name: resolve(annotation) for name, annotation in annotated.items() if resolve is not None}


def yielded_hint(fn: Any) -> Any:
    """Return the annotated type of what a generator function yields; None if it is unknown.

    Raises `TypeError` for an annotation other than `Iterator`, `Iterable` or `Generator`.

    >>> from collections.abc import Iterator
    >>> def count() -> Iterator[int]:
    ...     yield 1
    >>> yielded_hint(count)
    <class 'int'>
    """
    _, result = hints_of_callable(fn)
    if result is None or result is Any:
        return None
    kind, args = class_and_args(simplified(result))
    if kind not in (Iterator, Iterable, Generator) or not args:
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(f"{name} returns {describe(result)} by its annotation; expected Iterator[{describe(result)}]")
    return None if args[0] is Any else args[0]


def _resolver(fn: Any) -> Callable[[Any], Any]:
    """Return a function from an annotation to a type, in the scope where `fn` was defined."""
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
            # Not assigned yet, so it can't be resolved.
            scope.pop(name, None)

    def resolve(annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, scope)
            except Exception:
                return Any
        return NoneType if annotation is None else typehint_of(annotation)

    return resolve
