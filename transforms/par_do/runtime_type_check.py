"""Checks of each element against type hints, for `--runtime_type_check`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from functools import cached_property
from typing import Any

from ...sdk.dofn.async_dofn import as_they_come, is_async, with_process
from ...sdk.dofn.dofn import DoFn, DoFnParam, WrappingDoFn
from ...sdk.elements.element_wrappers import BatchOutput, Remainder, Retracted, TaggedOutput, unwrapped
from ...sdk.errors import TypeHintError
from ...sdk.typehints.forms import check_value, constraint_form
from ..error_handling import parameters_of_process


class TypeCheckedDoFn(WrappingDoFn):
    """A DoFn whose elements and outputs are checked.

    An element that isn't of the type raises `TypeHintError`.  As in Beam, an int is no float.

    Args:
      label: the transform's, for errors.
      accepted: the type of elements; None for any.
      produced: the type of the main output; None for any.
      tagged: types of tagged outputs by tag.
    """

    def __init__(self, fn: DoFn, label: str, accepted: Any, produced: Any, tagged: Mapping[str, Any]) -> None:
        super().__init__(fn)
        self.label = label
        self.accepted = accepted
        self.produced: dict[Any, Any] = {None: produced, **tagged}

    # A function with the parameters of the wrapped one, which is created in each worker.
    @cached_property
    def process(self) -> Any:
        parameters = parameters_of_process(self.fn)
        element = next(
            i
            for i, p in enumerate(parameters)
            if p.default is DoFn.ElementParam or not isinstance(p.default, DoFnParam)
        )
        name = parameters[element].name
        fn, label = self.fn, self.label
        accepted = _constraint(self.accepted)
        produced = {tag: _constraint(hint) for tag, hint in self.produced.items()}

        def check_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            given = kwargs[name] if name in kwargs else args[element]
            input_is = f"Type-hint for argument: {name!r} violated. Expected an instance of {accepted!r}, instead found"
            _check(accepted, given, f"{label}: {input_is}")

        def checked_output(output: Any) -> Any:
            tag, value = _parts(output)
            if tag in produced and type(value) not in (Remainder, BatchOutput):
                hint = f"According to type-hint expected output should be of type {produced[tag]!r}."
                _check(produced[tag], value, f"{label}: {hint} Instead, received")
            return output

        def checked(*args: Any, **kwargs: Any) -> Iterable[Any]:
            check_input(args, kwargs)
            for output in _iterable(fn.process(*args, **kwargs), label):
                yield checked_output(output)

        async def checked_awaited(*args: Any, **kwargs: Any) -> AsyncIterable[Any]:
            check_input(args, kwargs)
            async for output in as_they_come(fn.process(*args, **kwargs)):
                yield checked_output(output)

        return with_process(parameters, checked_awaited if is_async(fn) else checked)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process"}


def _iterable(outputs: Any, label: str) -> Iterable[Any]:
    """Return what a function has returned.  Raise `TypeHintError`, in Beam's words, if it isn't an iterable of
    outputs."""
    if isinstance(outputs, (str, bytes, dict)):
        raise TypeHintError(
            f"{label}: Returning a {type(outputs).__name__} from a ParDo or FlatMap is discouraged. "
            f'Please use list("{outputs!s}") if you really want this behavior.'
        )
    if outputs is not None and not isinstance(outputs, Iterable):
        raise TypeHintError(
            f"{label}: FlatMap and ParDo must return an iterable. {type(outputs)} was returned instead."
        )
    return () if outputs is None else outputs


def _constraint(hint: Any) -> Any:
    return constraint_form(Any if hint is None else hint)


def _check(constraint: Any, value: Any, told: str) -> None:
    """Raise `TypeHintError`, in Beam's words, for a value that isn't of the type."""
    try:
        check_value(constraint, value)
    except TypeError as error:
        reason = f": {error}" if str(error) else ""
        raise TypeHintError(
            f"Runtime type violation detected within {told} {value!r}, an instance of {type(value)}{reason}"
        ) from None


def _parts(output: Any) -> tuple[str | None, Any]:
    """Return an output's tag, and its value without wrappers."""
    tag = None
    while isinstance(output, (TaggedOutput, Retracted)):
        if isinstance(output, TaggedOutput):
            tag = output.tag
        output = output.value
    return tag, unwrapped(output)[0]
