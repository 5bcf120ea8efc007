"""Type hints of a DoFn's elements, from its decorators and annotations."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, get_args, get_origin

from ..elements.element_wrappers import TaggedOutput
from ..errors import NotIterableHintError
from ..typehints import declared_hints, declared_inputs, declared_tags, describe, element_of, hints_of_callable
from ..typehints.callables import POSITIONAL
from ..typehints.class_parameters import class_parameters
from ..typehints.schema import schemas_of
from ..typehints.simplified import NoneType, class_and_args, members, simplified, union_of
from ..user_code.signatures import signature
from .arrangement import ArrangementDoFn
from .async_dofn import is_coroutine_function
from .dofn import (
    CallableDoFn,
    ColumnDoFn,
    DoFn,
    DoFnParam,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapTupleDoFn,
    TimestampDoFn,
    WrappingDoFn,
    overrides,
)
from .signature import user_function
from .stateful_dofn import is_stateful_dofn


def hints_of_dofn(dofn: DoFn) -> tuple[Any, Any]:
    """Return the types of a DoFn's input and output elements, or None for an unknown type.

    Types declared by decorators take precedence over annotations, and these over the parameters of its class, as in
    `DoFn[str, int]`.

    >>> class Split(DoFn):
    ...     def process(self, line: str) -> list[str]:
    ...         return line.split()
    >>> hints_of_dofn(Split())
    (<class 'str'>, <class 'str'>)
    """
    declared_input, declared_output = declared_hints(dofn)
    if isinstance(dofn, CallableDoFn):
        accepted, produced = _of_wrapped(dofn)
    elif isinstance(dofn, (ColumnDoFn, ArrangementDoFn)):
        accepted, produced = None, None
    else:
        accepted, produced = _of_process(dofn)
        if overrides(dofn.process_batch) or getattr(dofn.process, "yields_batches", False):
            # The types of batches say more (`batched_dofn.py`).
            produced = None
        kind: Any = type(dofn)
        base: Any = DoFn
        declared_by_class = class_parameters(kind, base)
        if declared_by_class:
            accepted = _known(declared_by_class[0]) if accepted is None else accepted
            produced = _known(_without_wrappers(declared_by_class[1])) if produced is None else produced
    return (
        accepted if declared_input is None else declared_input,
        produced if declared_output is None else declared_output,
    )


def _known(hint: Any) -> Any:
    """Return a type, or None for `Any` and the like."""
    return None if hint is None or simplified(hint) is Any else hint


def _of_wrapped(dofn: CallableDoFn) -> tuple[Any, Any]:
    inputs, output = hints_of_callable(dofn.fn)
    inputs = declared_inputs(dofn.fn) or inputs
    declared_output = declared_hints(dofn.fn)[1]
    output = output if declared_output is None else declared_output
    # The number of items of an unpacked element is unknown, since further arguments may follow.
    is_unpacked = isinstance(dofn, (MapTupleDoFn, FlatMapTupleDoFn))
    accepted = inputs[0] if inputs and not is_unpacked else None
    if isinstance(dofn, (FilterDoFn, TimestampDoFn)):
        return accepted, None
    if output is None:
        return accepted, None
    if not isinstance(dofn, FlatMapDoFn):
        return accepted, _without_wrappers(output)
    output = _yielded(output)
    _check_iterable(output, dofn.fn)
    return accepted, _without_wrappers(element_of(output))


def inferred_output(dofn: DoFn, input_type: Any) -> Any:
    """Return the type of a DoFn's main output without declared types, by its code; `Any` if unknown.

    >>> from penstock.sdk.dofn.dofn import FlatMapDoFn
    >>> inferred_output(FlatMapDoFn(lambda line: [(word, 1) for word in line.split()]), str)
    tuple[str, int]
    """
    if overrides(dofn.infer_output_type) or isinstance(dofn, (ColumnDoFn, ArrangementDoFn, WrappingDoFn)):
        return dofn.infer_output_type(input_type)
    # It isn't needed to start a pipeline whose functions have annotations.
    from ..typehints.results import infer_result

    if is_coroutine_function(user_function(dofn)):
        return Any
    if not isinstance(dofn, CallableDoFn):
        return _inferred_of_process(dofn, input_type)
    inputs = [input_type]
    if isinstance(dofn, (MapTupleDoFn, FlatMapTupleDoFn)):
        kind, items = class_and_args(input_type)
        inputs = list(items) if kind is tuple and not {(), Ellipsis} & set(items) else []
    found = infer_result(dofn.fn, inputs)
    return _main(element_of(found) if isinstance(dofn, FlatMapDoFn) else found)


def _inferred_of_process(dofn: DoFn, input_type: Any) -> Any:
    from ..typehints.results import infer_result

    # Other methods may have outputs of other types.
    emits_elsewhere = overrides(dofn.finish_bundle) or is_stateful_dofn(dofn)
    if emits_elsewhere or type(dofn).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return Any
    parameters = [p for p in signature(dofn.process).parameters.values() if p.kind in POSITIONAL]
    # Parameters behind the element are side inputs.
    element = next((i for i, p in enumerate(parameters) if _is_element(p.default)), 0)
    return _main(element_of(infer_result(dofn.process, [*([Any] * element), input_type])))


def _main(hint: Any) -> Any:
    """Return the type of the main output, which may have a timestamp of its own."""
    untagged = [one for one in members(hint) or (hint,) if one is not TaggedOutput]
    return union_of([one if schemas_of(one) else simplified(one) for one in untagged])


def tagged_hints_of_dofn(dofn: DoFn) -> Mapping[str, Any]:
    """Return the types of a DoFn's tagged outputs by tag, from its decorators or annotations.

    >>> from typing import Literal
    >>> from penstock.sdk.dofn.dofn import MapDoFn
    >>> def parse(line: str) -> int | TaggedOutput[Literal["errors"], str]: ...
    >>> tagged_hints_of_dofn(MapDoFn(parse))
    {'errors': <class 'str'>}
    """
    is_wrapped = isinstance(dofn, CallableDoFn)
    declared = declared_tags(dofn.fn if isinstance(dofn, CallableDoFn) else dofn)
    yields = not is_wrapped or isinstance(dofn, FlatMapDoFn)
    if declared:
        return {tag: element_of(hint) for tag, hint in declared.items()} if yields and is_wrapped else declared
    output = hints_of_callable(dofn.fn if isinstance(dofn, CallableDoFn) else dofn.process)[1]
    element = element_of(output) if yields else output
    tagged = [get_args(one) for one in members(element) or () if get_origin(one) is TaggedOutput]
    return {tag: hint for literal, hint in tagged for tag in get_args(literal)}


def _of_process(dofn: DoFn) -> tuple[Any, Any]:
    inputs, output = hints_of_callable(dofn.process)
    accepted = None
    if inputs:
        parameters = [p for p in signature(dofn.process).parameters.values() if p.kind in POSITIONAL]
        candidates = [hint for p, hint in zip(parameters, inputs) if _is_element(p.default)]
        accepted = candidates[0] if candidates else None
    if output is None:
        return accepted, None
    output = _yielded(output)
    _check_iterable(output, dofn.process)
    return accepted, _without_wrappers(element_of(output))


def _yielded(output: Any) -> Any:
    """Return the result type of a function as that of one that isn't async."""
    kind, args = get_origin(output), get_args(output)
    return Iterable[args[0]] if args and isinstance(kind, type) and issubclass(kind, AsyncIterable) else output  # type: ignore[valid-type]


def _check_iterable(output: Any, fn: Any) -> None:
    """Raise `NotIterableHintError` for the result type of a function, if it certainly has no elements."""
    for one in members(simplified(output)) or (output,):
        kind, _ = class_and_args(simplified(one))
        if kind in (None, Any, NoneType) or getattr(kind, "_is_protocol", False):
            continue
        if kind in (str, bytes) or not (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
            raise NotIterableHintError(
                f"{getattr(fn, '__qualname__', fn)}: its result has the type {describe(output)}, and {kind!r} is not "
                f"iterable; a function of a ParDo or FlatMap returns several outputs, as in Iterable[{describe(one)}]"
            )


def _is_element(default: Any) -> bool:
    return not isinstance(default, DoFnParam) or default is DoFn.ElementParam


# A union without TaggedOutput and the like is the type of the main output.
def _without_wrappers(hint: Any) -> Any:
    alternatives = members(hint)
    if alternatives is None:
        return simplified(hint)
    return union_of([one for one in alternatives if simplified(one) is not Any] or [Any])
