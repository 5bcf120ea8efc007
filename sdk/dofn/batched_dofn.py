"""Batched DoFns: DoFns with `process_batch`, and those that yield batches, for elements of a known type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from inspect import Signature
from typing import Any

from ...windowing.timestamped_value import TimestampedValue
from ..elements.bundle import Bundle
from ..elements.element_wrappers import BatchOutput, TaggedOutput, WindowedValue
from ..errors import BatchTypeError, PenstockError, PipelineError, UnsupportedError
from ..typehints import describe, hints_of_callable
from ..typehints.batch import BatchConverter
from ..typehints.callables import yielded_hint
from ..typehints.forms import constraint_of
from ..typehints.simplified import class_and_args, simplified
from ..user_code.signatures import is_bare, signature
from .dofn import CallableDoFn, DoFn, DoFnParam, FlatMapDoFn, MapDoFn, WrappingDoFn, overrides
from .signature import Argument, bind
from .splittable_dofn import splittable_signature
from .stateful_dofn import signature_of

# The markers that `process_batch` may have: what all elements of a batch share.
_SHARED = ("TimestampParam", "WindowParam", "PaneInfoParam", "SignParam", "BundleFinalizerParam")
_CONTEXTS = ("BundleContextParam", "SetupContextParam")


class BatchedDoFn(WrappingDoFn):
    """A DoFn that takes batches, or yields them.

    Args:
      fn: the user's DoFn, or a `MapDoFn` whose function takes a batch.
      taken: the converter of the batches that it takes; None for a DoFn without `process_batch`.
      yielded: the converter of the batches that it yields; None if the class of a batch decides.

    Attributes:
      gives_elements: True if `process_batch` yields elements.
      maps: True if a function returns one batch, with an element for each of the given batch.
      is_needed: True if it has no form for single elements.
      yields_bundles: True if the form for single elements yields batches.
    """

    takes_records = True

    def __init__(self, fn: DoFn, taken: BatchConverter | None, yielded: BatchConverter | None) -> None:
        super().__init__(fn)
        self.taken = taken
        self.yielded = yielded
        self.maps = isinstance(fn, MapDoFn)
        self.gives_elements = taken is not None and getattr(fn.process_batch, "yields_elements", False)
        self.is_needed = self.maps or not overrides(fn.process)
        self.yields_bundles = not self.is_needed and _yields_batches(fn)

    @property
    def column_operation(self) -> BatchedDoFn | None:
        """Itself, if it takes batches."""
        return None if self.taken is None else self

    @property
    def call(self) -> Callable[..., Any]:
        """The function of a batch and the arguments of the ParDo."""
        return self.fn.fn if isinstance(self.fn, MapDoFn) else self.fn.process_batch

    def batch_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> tuple[Argument, ...]:
        """Return the arguments of `call`.  Raises `PipelineError` if they don't fit."""
        return bind(FlatMapDoFn(self.call), args, kwargs, label)

    def converter_of(self, batch: Any) -> BatchConverter:
        """Return the converter of a batch that the DoFn has yielded.  Raises `PipelineError` if it isn't a batch."""
        if self.yielded is not None:
            if not self.yielded.is_batch(batch):
                expected = describe(self.yielded.batch_type)
                raise PipelineError(f"a batch of the type {expected} was expected, got {_described(batch)}")
            return self.yielded
        try:
            return BatchConverter.from_typehints(element_type=Any, batch_type=type(batch))
        except TypeError as error:
            raise PipelineError(f"a batch was expected, got {_described(batch)}: {error}") from None

    # The form for single elements, created in each worker.
    @cached_property
    def process(self) -> Any:
        own: Callable[..., Any] = self.call if self.is_needed else self.fn.process

        def batch_of_one(element: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            assert self.taken is not None
            outputs = own(self.taken.produce_batch([element]), *args, **kwargs)
            for output in (outputs,) if self.maps else outputs or ():
                yield from (output,) if self.gives_elements else self._exploded(output)

        def batches(*args: Any, **kwargs: Any) -> Iterator[Any]:
            for output in own(*args, **kwargs) or ():
                yield self._bundled(output)

        if not self.is_needed and not self.yields_bundles:
            return own
        function: Any = batch_of_one if self.is_needed else batches
        # Annotations are those of batches.
        parameters = [p.replace(annotation=p.empty) for p in signature(own).parameters.values()]
        function.__signature__ = Signature(parameters)
        return function

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process"}

    def _exploded(self, output: Any) -> Iterator[Any]:
        inner, wrapped = unwrapping(output)
        yield from map(wrapped, self.converter_of(inner).explode_batch(inner))

    def _bundled(self, output: Any) -> Any:
        inner, wrapped = unwrapping(output)
        return wrapped(BatchOutput(self.converter_of(inner), inner))


class BundleDoFn(DoFn):
    """A DoFn of whole bundles, of this package's own transforms."""

    # It has no other form, and isn't one for columns.
    is_needed = True
    takes_records = False

    @property
    def column_operation(self) -> BundleDoFn:
        """Itself."""
        return self

    def outputs(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield the outputs for the elements of a bundle, or of a part of one."""
        raise NotImplementedError(f"{type(self).__name__}.outputs")

    def tagged_outputs(self, bundle: Bundle) -> Iterator[tuple[str | None, Bundle]]:
        """Yield the outputs with their tags; None is that of the main output."""
        return ((None, output) for output in self.outputs(bundle))


def unwrapping(output: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a wrapped output without its `TaggedOutput` and the like, and a function that wraps another in them.

    >>> unwrapping(TaggedOutput("odd", [1, 3]))[0]
    [1, 3]
    """
    if type(output) is TaggedOutput:
        inner, wrapped = unwrapping(output.value)
        return inner, lambda value: TaggedOutput(output.tag, wrapped(value))
    if type(output) is TimestampedValue:
        return output.value, lambda value: TimestampedValue(value, output.timestamp)
    if type(output) is WindowedValue:
        return output.value, output.with_value
    return output, lambda value: value


def batched(fn: DoFn, element_type: Any, declared: Any, label: str) -> tuple[DoFn, Any]:
    """Return a DoFn for a runner, and the type of its output elements; None if only other hints say it.

    A batched DoFn becomes a `BatchedDoFn`; another is returned as it is.

    Args:
      declared: the declared type of output elements, or None.

    Raises `BatchTypeError` if the batch types don't fit the elements, and `UnsupportedError` for a DoFn that can't take
    batches.
    """
    if isinstance(fn, MapDoFn):
        return _batched_map(fn, element_type, declared, label)
    takes, yields = overrides(fn.process_batch), _yields_batches(fn)
    if not (takes or yields):
        return fn, None
    name = type(fn).__name__
    if signature_of(fn).is_stateful:
        raise UnsupportedError(
            f"{label}: {name} takes or yields batches, and can't have state or timers, which are those of one key"
        )
    if splittable_signature(fn, label) is not None:
        raise UnsupportedError(f"{label}: {name} is splittable, and can't take or yield batches")
    try:
        return _batched_dofn(fn, element_type, declared, label)
    except TypeError as error:
        if isinstance(error, PenstockError):
            raise
        raise BatchTypeError(f"{label}: {name}: {error}") from error


def _batched_dofn(fn: DoFn, element_type: Any, declared: Any, label: str) -> tuple[DoFn, Any]:
    taken = None
    name = type(fn).__name__
    takes, yields = overrides(fn.process_batch), _yields_batches(fn)
    yields_elements = getattr(fn.process_batch, "yields_elements", False)
    if takes:
        _check_markers(fn, label)
        batch_type = fn.get_input_batch_type(element_type)
        if batch_type is None:
            raise BatchTypeError(
                f"{label}: {name}.process_batch needs an annotation of its first parameter, the type of the batch, "
                "or get_input_batch_type"
            )
        try:
            taken = BatchConverter.from_typehints(element_type=element_type, batch_type=batch_type)
        except TypeError as error:
            raise BatchTypeError(f"{label}: the input batches of {name}: {error}") from error
    by_method = [yielded_hint(fn.process_batch)] if takes and yields_elements else []
    if overrides(fn.process) and not yields:
        by_method.insert(0, yielded_hint(fn.process))
    _check_equal(fn, by_method, "elements")
    if takes and yields and not yields_elements:
        _check_equal(fn, [yielded_hint(fn.process), yielded_hint(fn.process_batch)], "batches")
    inferred = fn.infer_output_type(element_type) if overrides(fn.infer_output_type) else next(iter(by_method), None)
    produced = inferred if declared is None else declared
    if not yields and (not takes or yields_elements):
        return BatchedDoFn(fn, taken, None), produced
    output_type = fn.get_output_batch_type(element_type)
    return _with_output(fn, taken, output_type, produced)


def _with_output(fn: DoFn, taken: BatchConverter | None, output_type: Any, produced: Any) -> tuple[DoFn, Any]:
    if output_type is None:
        return BatchedDoFn(fn, taken, None), produced
    yielded = BatchConverter.from_typehints(element_type=Any if produced is None else produced, batch_type=output_type)
    return BatchedDoFn(fn, taken, yielded), yielded.element_type if produced is None else produced


def _batched_map(fn: MapDoFn, element_type: Any, declared: Any, label: str) -> tuple[DoFn, Any]:
    is_marked = getattr(fn.fn, "yields_batches", False)
    if not is_marked and not (takes_arrays(fn) and _is_of_another_class(element_type, fn)):
        return fn, None
    inputs, output_type = hints_of_callable(fn.fn)
    try:
        if not inputs or inputs[0] is Any:
            raise TypeError("a function that takes a batch needs an annotation of its first parameter")
        taken = BatchConverter.from_typehints(element_type=element_type, batch_type=inputs[0])
        return _with_output(fn, taken, None if output_type is Any else output_type, declared)
    except TypeError as error:
        raise BatchTypeError(f"{label}: {fn.default_label()}: {error}") from error


def takes_arrays(fn: DoFn) -> bool:
    """Return True for the DoFn of a `Map` whose function may take a batch instead of an element.

    It is marked by `DoFn.yields_batches`, or its parameter is annotated as an array, a record batch or a data frame.
    """
    if type(fn) is not MapDoFn or is_bare(fn.fn):
        return False
    if getattr(fn.fn, "yields_batches", False):
        return True
    inputs, _ = hints_of_callable(fn.fn)
    if not inputs or inputs[0] is Any or class_and_args(simplified(inputs[0]))[0] is list:
        return False
    try:
        BatchConverter.from_typehints(element_type=Any, batch_type=inputs[0])
    except TypeError:
        return False
    return True


def _is_of_another_class(element_type: Any, fn: MapDoFn) -> bool:
    """Return True if elements are certainly not what a function takes, so that it takes batches of them."""
    inputs, _ = hints_of_callable(fn.fn)
    taken = simplified((inputs or (Any,))[0])
    kind, wanted = class_and_args(simplified(element_type))[0], class_and_args(taken)[0]
    return kind is not None and (wanted is None or not issubclass(kind, wanted))


def _yields_batches(fn: DoFn) -> bool:
    return not isinstance(fn, CallableDoFn) and getattr(getattr(type(fn), "process", None), "yields_batches", False)


def _check_markers(fn: DoFn, label: str) -> None:
    parameters = list(signature(fn.process_batch).parameters.values())
    markers = [p.default for p in parameters if isinstance(p.default, DoFnParam)]
    if not parameters or isinstance(parameters[0].default, DoFnParam):
        raise PipelineError(f"{label}: {type(fn).__name__}.process_batch: the first parameter must be the batch")
    for marker in markers:
        if marker.name not in _SHARED + _CONTEXTS:
            raise UnsupportedError(
                f"{label}: {type(fn).__name__}.process_batch can't have {marker!r}, since a batch has many elements; "
                f"only {', '.join(f'DoFn.{name}' for name in _SHARED + _CONTEXTS)}"
            )


def _check_equal(fn: DoFn, hints: list[Any], what: str) -> None:
    if len(hints) == 2 and None not in hints and simplified(hints[0]) != simplified(hints[1]):
        expected, found = map(constraint_of, hints)
        raise TypeError(
            f"it yields {what} from both process and process_batch, of different types: "
            f"process: {expected!r}, process_batch: {found!r}"
        )


def _described(batch: Any) -> str:
    return f"{type(batch).__name__} {batch!r:.60}"
