"""ParDo: a DoFn applied to each element."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from ...sdk import graph, typehints
from ...sdk.columns.expressions import Selection
from ...sdk.combine_fn import CombineFn, CountCombineFn
from ...sdk.dofn.arrangement import SECOND, WHOLE, ArrangementDoFn, Constant
from ...sdk.dofn.async_dofn import check_async, is_async
from ...sdk.dofn.batched_dofn import BatchedDoFn, batched, takes_arrays
from ...sdk.dofn.dofn import (
    CallableDoFn,
    ColumnDoFn,
    DoFn,
    FilterDoFn,
    FlatMapDoFn,
    MapDoFn,
)
from ...sdk.dofn.hints import hints_of_dofn, inferred_output, tagged_hints_of_dofn
from ...sdk.dofn.signature import check_signature, check_stateful
from ...sdk.dofn.splittable_dofn import splittable_signature
from ...sdk.errors import InputError, SideInputError, StatefulDoFnError, UnsupportedError
from ...sdk.options import TypeOptions
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import DoOutputsTuple, PCollection
from ...sdk.side_inputs import AsSideInput, AsSingleton
from ...sdk.type_variables import A, B
from ...sdk.typehints.column_types import check_operation
from ...sdk.typehints.schema import schemas_of
from ...sdk.typehints.simplified import simplified
from ...sdk.user_code.serialization import Serialized
from ...sdk.user_code.signatures import drops_returned_value
from ..assign_windows import WindowInto
from ..error_handling import DeadLetter, ErrorHandler, GuardedDoFn, parameters_of_process
from ..group_by_key import add_grouping
from .argument_types import check_argument_types
from .filled_collections import warn_of_filled, warn_of_filling_dofn
from .side_input_panes import side_input
from .splittable_par_do import WorkToTheEnd, check_arguments, read_of_splittable

if TYPE_CHECKING:
    from typing import ParamSpec

    from typing_extensions import TypeForm

    from ...sdk.elements.element_wrappers import TaggedOutput
    from ...sdk.pvalue import GoodAndBad, MainAndOne, MainAndThree, MainAndTwo
    from ...sdk.static_types import (
        Applicable,
        ClassInPlaceOfInstance,
        DoFnOf,
        Function,
        Outputs,
        Process,
        ProcessWithKeywords,
        UnannotatedProcess,
        WithDefault,
        WithKeywords,
    )

    P = ParamSpec("P")
    C = TypeVar("C")


_LOGGER = logging.getLogger(__name__)


class ParDo(PTransform[PCollection[A], PCollection[B]]):
    """A DoFn, or a function that returns an iterable, applied to each element.

    Returns a `PCollection[B]` for a DoFn with outputs of type B.

    Further arguments are passed to it, side inputs (`AsList(pcoll)` and the like) as their view of the element's
    window.  Outputs with a tag are dropped; `with_outputs` returns the transform with outputs for them.
    Source: Dataflow Model, section 2.1.

    >>> import penstock as beam
    >>> class Split(beam.DoFn):
    ...     def process(self, line, separator):
    ...         yield from line.split(separator)
    >>> ["a,b", "c"] | beam.ParDo(Split(), ",")
    ['a', 'b', 'c']
    """

    @overload
    def __init__(self, fn: UnannotatedProcess[A, B], *args: Any, **kwargs: Any) -> None: ...
    @overload
    def __init__(self, fn: Process[A, P, Outputs[B]], *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def __init__(self, fn: Function[A, P, Outputs[B]], *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def __init__(self, fn: ProcessWithKeywords[A, Outputs[B]], **kwargs: Any) -> None: ...
    @overload
    def __init__(self, fn: WithKeywords[A, Outputs[B]], **kwargs: Any) -> None: ...
    @overload
    def __init__(self, fn: WithDefault[A, Outputs[B]], **kwargs: Any) -> None: ...
    # They take nothing else, but type checkers say by them what is wrong.
    @overload
    def __init__(self: ParDo[ClassInPlaceOfInstance, Any], fn: type[DoFn[Any, Any]], *args: Any) -> None: ...
    @overload
    def __init__(self, fn: DoFnOf[A]) -> None: ...
    def __init__(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        if isinstance(fn, type) and issubclass(fn, DoFn):
            raise InputError(f"got the class {fn.__name__}; did you forget to call it: {fn.__name__}()?")
        if isinstance(fn, PTransform):
            raise TypeError(f"{type(self).__name__}: expected a function or DoFn, got the transform {fn!r}")
        if isinstance(fn, DoFn) and drops_returned_value(type(fn).process):
            _LOGGER.warning(
                "Using yield and return in the process method of %s: a value that a generator returns is no output; "
                "yield it",
                type(fn),
            )
        if isinstance(fn, DoFn):
            warn_of_filling_dofn(fn, type(self).__name__)
        else:
            warn_of_filled(fn, type(self).__name__)
        self.fn = fn if isinstance(fn, DoFn) else FlatMapDoFn(fn)
        self.args = args
        self.kwargs = kwargs

    def default_label(self) -> str:
        return f"{type(self).__name__}({self.fn.default_label()})"

    def display_data(self) -> dict[str, Any]:
        return {"fn": type(self.fn), "fn_dd": self.fn}

    if TYPE_CHECKING:
        _expands: None  # type: ignore[assignment]

        def _unwraps(self) -> None: ...
        @overload
        def with_output_types(self, hint: type[C], **tagged: Any) -> ParDo[A, C]: ...
        @overload
        def with_output_types(self, hint: TypeForm[C], **tagged: Any) -> ParDo[A, C]: ...
        @overload
        def with_output_types(self, hint: Any = None, **tagged: Any) -> ParDo[A, Any]: ...
        def with_output_types(self, hint: Any = None, **tagged: Any) -> Any: ...

    @overload
    def with_outputs(  # type: ignore[overload-overlap]
        self: Applicable[PCollection[A], PCollection[C | TaggedOutput]], tag: str, /, *, main: str
    ) -> PTransform[PCollection[A], MainAndOne[C]]: ...
    @overload
    def with_outputs(  # type: ignore[overload-overlap]
        self: Applicable[PCollection[A], PCollection[C | TaggedOutput]], tag: str, tag2: str, /, *, main: str
    ) -> PTransform[PCollection[A], MainAndTwo[C]]: ...
    @overload
    def with_outputs(  # type: ignore[overload-overlap]
        self: Applicable[PCollection[A], PCollection[C | TaggedOutput]], tag: str, tag2: str, tag3: str, /, *, main: str
    ) -> PTransform[PCollection[A], MainAndThree[C]]: ...
    @overload
    def with_outputs(
        self: Applicable[PCollection[A], PCollection[C | TaggedOutput]],
        *tags: str,
        main: str | None = None,
        allow_unknown_tags: bool | None = None,
    ) -> _MultiParDo[A, C]: ...
    def with_outputs(self, *tags: str, main: str | None = None, allow_unknown_tags: bool | None = None) -> Any:
        """Return the transform with several outputs, by tag; `main` names the untagged output.

        Without tags, an output exists once it is accessed.
        """
        if main is not None and main in tags:
            raise ValueError(f"{self.label}: the main output's tag {main!r} is among the others {list(tags)}")
        return _MultiParDo(self, tags, main, not tags if allow_unknown_tags is None else allow_unknown_tags)

    @overload
    def with_exception_handling(
        self, main_tag: str = "good", dead_letter_tag: str = "bad", *, error_handler: ErrorHandler, **kwargs: Any
    ) -> PTransform[PCollection[A], PCollection[B]]: ...
    @overload
    def with_exception_handling(
        self, main_tag: str = "good", dead_letter_tag: str = "bad", **kwargs: Any
    ) -> ExceptionHandling[A, B]: ...
    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad", **kwargs: Any) -> Any:
        """Return the transform with two outputs: its output, and dead letters, which are elements with their errors."""
        return ExceptionHandling(self, main_tag, dead_letter_tag, **kwargs)

    def with_error_handler(self, error_handler: ErrorHandler | None, **kwargs: Any) -> Self:
        """Return the transform whose dead letters `error_handler` takes; without a handler, the transform itself."""
        if error_handler is None:
            return self
        handling: Any = self.with_exception_handling(error_handler=error_handler, **kwargs)
        return handling  # type: ignore[no-any-return]

    def tagged_types(self) -> Mapping[str, Any]:
        return super().tagged_types() or tagged_hints_of_dofn(self.fn)

    def element_types(self) -> tuple[Any, Any]:
        accepted, produced = super().element_types()
        from_fn = self._types_of_fn
        return (
            accepted if accepted is not None else from_fn[0],
            produced if produced is not None else from_fn[1],
        )

    @cached_property
    def _types_of_fn(self) -> tuple[Any, Any]:
        # The type of a batch isn't that of elements.
        return (None, None) if takes_arrays(self.fn) else hints_of_dofn(self.fn)

    def add_to(
        self, pcoll: PCollection[Any], tags: tuple[str | None, ...] = (None,), any_tag: bool = False
    ) -> dict[str | None, PCollection[Any]]:
        """Add the primitive with these outputs."""
        label = pcoll.pipeline.full_label
        side_inputs: list[graph.SideInput] = []

        def argument(value: Any) -> Any:
            if isinstance(value, PCollection):
                raise TypeError(f"{label}: a PCollection as an argument needs a view, as in AsList({value!r})")
            if not isinstance(value, AsSideInput):
                return value
            if value.pvalue.pipeline is not pcoll.pipeline:
                raise ValueError(f"{label}: its side input {value!r} belongs to another pipeline")
            window_fn = value.pvalue.windowing.window_fn
            if window_fn.is_merging:
                raise SideInputError(
                    f"{label}: its side input {value!r} is windowed by {window_fn!r}, which merges windows, so that "
                    "an element's window matches none of them; window it by another function first"
                )
            side_inputs.append(side_input(value, len(side_inputs)))
            return graph.SideInputArgument(len(side_inputs) - 1)

        args = tuple(argument(value) for value in self.args)
        kwargs = {name: argument(value) for name, value in self.kwargs.items()}
        if pcoll.pipeline.type_options.pipeline_type_check:
            check_argument_types(self.fn, self.given_input_types, pcoll.hint, self.args, self.kwargs, label)
        check_async(self.fn, label)
        check_signature(self.fn, args, kwargs, label)
        check_operation(self.fn.column_operation, pcoll.checked_type, label)
        keyed = self._keyed(pcoll, label)
        hint = self.element_types()[1]
        fn, inferred = self.batched_for(pcoll, hint, label)
        if isinstance(fn, BatchedDoFn) and fn.taken is not None:
            fn.batch_arguments(args, kwargs, label)
        elif _checks_types(pcoll.pipeline.type_options):
            fn = self._type_checked(fn, label)
        call: tuple[DoFn, tuple[Any, ...], Mapping[str, Any]] = (fn, args, kwargs)
        serialized = Serialized(call, label)
        primitive = graph.ParDo(serialized, tuple(side_inputs), keyed=keyed, any_tag=any_tag)
        hint = inferred if hint is None else hint
        hint = self.infer_output_type(pcoll.hint) if hint is None else hint
        outputs = pcoll.pipeline.add(primitive, [pcoll], pcoll.windowing, hint, tags)
        if self.fn.retracts or (keyed is not None and keyed.may_retract):
            for output in outputs.values():
                output.retracted_by = output.retracted_by or label
                output.retractable_for = None
        return outputs

    def batched_for(self, pcoll: PCollection[Any], declared: Any, label: str) -> tuple[DoFn, Any]:
        """Return the DoFn for a runner, and the type of output elements that batches tell, or None."""
        fn, inferred = batched(self.fn, pcoll.hint, declared, label)
        if isinstance(fn, BatchedDoFn) and pcoll.retracted_by:
            if fn.gives_elements or not fn.deterministic:
                raise UnsupportedError(
                    f"{label}: {pcoll.retracted_by} may retract its input, but a batch of retractions isn't the batch "
                    f"that the elements were in, so that {type(self.fn).__name__} must yield batches and be "
                    "deterministic"
                )
        elif fn is self.fn and takes_arrays(fn):
            inferred = hints_of_dofn(fn)[1]
        return fn, inferred

    def _type_checked(self, fn: DoFn, label: str) -> DoFn:
        """Return a DoFn that checks each element and output, and that outputs are an iterable."""
        from .runtime_type_check import TypeCheckedDoFn

        if isinstance(fn, (ArrangementDoFn, ColumnDoFn)):
            return fn
        return TypeCheckedDoFn(fn, label, *self.element_types(), self.tagged_types())

    def _keyed(self, pcoll: PCollection[Any], label: str) -> graph.KeyedParDo | None:
        """Return the properties of a DoFn with state or timers, or None.  Raises `StatefulDoFnError`."""
        signature = check_stateful(self.fn, label)
        if not signature.is_stateful:
            return None
        if typehints.is_definitely_not_pair(pcoll.hint):
            raise StatefulDoFnError(
                f"Input elements to the transform {label} with stateful DoFn must be key-value pairs. "
                f"{pcoll.producer_label} produces {typehints.describe(pcoll.hint)}; did you forget WithKeys, "
                "or a Map to a pair?"
            )
        if pcoll.windowing.window_fn.is_merging and not _has_merged(pcoll):
            raise StatefulDoFnError(
                f"{label}: state is kept for each window, and {pcoll.windowing.window_fn!r} merges windows; "
                "group by key first, which merges them, or use a window function that doesn't merge"
            )
        return graph.KeyedParDo(
            pcoll.windowing, may_retract=self.fn.retracts or (signature.takes_sign and bool(pcoll.retracted_by))
        )

    def input_type_violation(self, label: str, expected: Any, found: Any, producer: str) -> str:
        names = parameters_of_process(self.fn)
        name = names[0].name if names else "its element"
        return (
            f"The transform {label!r} requires PCollections of type '{expected!r}' but was applied to a "
            f"PCollection of type '{found!r}' (produced by the transform {producer!r}). Type hint violation for "
            f"{label!r}: requires {expected!r} but got {found!r} for {name}"
        )

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the type of its output's elements, inferred without a hint."""
        is_filter = isinstance(self.fn, FilterDoFn) or isinstance(self.fn.column_operation, Selection)
        if is_filter or not isinstance(self.fn, CallableDoFn):
            # A user's method returns the type of other elements, whose fields may be others.
            return input_type if is_filter else inferred_output(self.fn, simplified(input_type))
        return inferred_output(self.fn, input_type if schemas_of(input_type) else simplified(input_type))

    def expand(self, pcoll: PCollection[A]) -> PCollection[B]:
        label = pcoll.pipeline.full_label
        check_async(self.fn, label)
        signature = splittable_signature(self.fn, label)
        if signature is None:
            return self.add_to(pcoll, any_tag=True)[None]
        check_arguments([*self.args, *self.kwargs.values()], label)
        if signature.is_unbounded:
            return read_of_splittable(self.fn, self.args, self.kwargs, signature, pcoll)
        work: Any = WorkToTheEnd(self.fn, label)
        return ParDo(work, *self.args, **self.kwargs).add_to(pcoll, any_tag=True)[None]


def _checks_types(options: TypeOptions) -> bool:
    return bool(options.runtime_type_check or options.performance_runtime_type_check)


def _has_merged(pcoll: PCollection[Any]) -> bool:
    """Return whether a grouping has merged the windows since they were assigned."""
    pipeline = pcoll.pipeline
    todo, seen = [pcoll.id], {pcoll.id}
    while todo:
        transform = pipeline.producer(pipeline.pcollection(todo.pop()))
        if isinstance(transform.primitive, graph.GroupByKeyAndWindow):
            continue
        if not isinstance(transform.primitive, (graph.ParDo, graph.Flatten)):
            return False
        todo.extend(i for i in transform.inputs if i not in seen)
        seen.update(transform.inputs)
    return True


class _MultiParDo(PTransform[PCollection[A], DoOutputsTuple[B]]):
    """A ParDo with tagged outputs."""

    def __init__(self, pardo: ParDo[A, B], tags: tuple[str, ...], main: str | None, any_tag: bool) -> None:
        super().__init__(pardo.given_label)
        self.pardo = pardo
        self.tags = tags
        self.main = main
        self.any_tag = any_tag

    def default_label(self) -> str:
        return self.pardo.label

    def with_exception_handling(self, main_tag: str | None = None, **kwargs: Any) -> ExceptionHandling[A, B]:
        """Return the transform with one more output, of dead letters; see `ParDo.with_exception_handling`."""
        main_tag = main_tag or self.main or "good"
        return ExceptionHandling(self.pardo, main_tag, tags=self.tags, any_tag=self.any_tag, **kwargs)

    def with_error_handler(self, error_handler: ErrorHandler | None, **kwargs: Any) -> Self:
        """Return the transform whose dead letters `error_handler` takes; without a handler, the transform itself."""
        if error_handler is None:
            return self
        handling: Any = self.with_exception_handling(error_handler=error_handler, **kwargs)
        return handling  # type: ignore[no-any-return]

    def element_types(self) -> tuple[Any, Any]:
        return self.pardo.element_types()[0], None

    def expand(self, pcoll: PCollection[A]) -> DoOutputsTuple[B]:
        label = pcoll.pipeline.full_label
        if splittable_signature(self.pardo.fn, label) is not None:
            raise UnsupportedError(f"{label}: a splittable DoFn has one output; have a step after it tag elements")
        outputs = self.pardo.add_to(pcoll, (None, *self.tags), self.any_tag)
        types = self.pardo.tagged_types()
        for tag in self.tags:
            # The declared result type of a function is that of the main output.
            outputs[tag].hint = types.get(tag, Any)
        if self.main is not None and self.main in types:
            outputs[None].hint = types[self.main]
        return DoOutputsTuple(outputs, self.main, self.any_tag, types)


class ExceptionHandling(PTransform[PCollection[A], Any], Generic[A, B]):
    """Transform of `ParDo(...).with_exception_handling()`, with the outputs `good` and `bad`.

    Returns a `PCollection[B]` of the outputs and a `PCollection[tuple[A, Any]]` of the dead letters, for a DoFn from A
    to B.

    A dead letter is `(element, (type of the exception, its repr, its traceback as lines))`.  The DoFn may have state
    and timers: an exception of `process` makes a dead letter, and an exception of a timer's or a window's method fails
    the pipeline.

    Args:
      main_tag: the tag of the main output.
      dead_letter_tag: the tag of dead letters.
      exc_class: the exceptions that make a dead letter; others fail the pipeline.
      partial: keeps the outputs for an element from before the exception.
      threshold: the share of a window's elements that may fail; more fail the pipeline with a `ValueError`.
      threshold_windowing: the windows of the threshold, by default those of the input.
      error_handler: an `ErrorHandler` for the dead letters; then the outputs are those without exception handling.
      on_failure_callback: called with the exception and the element, on the worker.
      allow_unsafe_userstate_in_process: Beam's; state changed before an exception stays changed.
      timeout: the seconds that `process` may take for an element; then the dead letter has a `TimeoutError`.  The call
        goes on in its thread, and its outputs are dropped.
      use_subprocess: runs the DoFn in a process of its own, whose crash makes a dead letter with a `BrokenProcessPool`.
        `finish_bundle` may have no outputs, and metrics are not counted.
      tags: other outputs that the result declares; None without `with_outputs`.
      any_tag: whether outputs of other tags exist once they are accessed; otherwise they are an error.

    Raises `ValueError` for both `partial` and `use_subprocess`, and for state or timers with `timeout` or
    `use_subprocess`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     inverse = beam.Map(lambda x: 1 / x).with_exception_handling()
    ...     good, bad = p | beam.Create([2, 0]) | inverse
    ...     _ = good | "show good" >> beam.Map(print)
    ...     _ = bad | "show bad" >> beam.MapTuple(lambda element, error: print(element, error[1]))
    0.5
    0 ZeroDivisionError('division by zero')
    """

    def __init__(
        self,
        pardo: ParDo[A, B],
        main_tag: str = "good",
        dead_letter_tag: str = "bad",
        *,
        exc_class: type[BaseException] | tuple[type[BaseException], ...] = Exception,
        partial: bool = False,
        use_subprocess: bool = False,
        threshold: float = 1,
        threshold_windowing: Any = None,
        timeout: float | None = None,
        error_handler: ErrorHandler | None = None,
        on_failure_callback: Callable[[BaseException, Any], None] | None = None,
        allow_unsafe_userstate_in_process: bool = False,
        tags: tuple[str, ...] | None = None,
        any_tag: bool = True,
    ) -> None:
        super().__init__(pardo.given_label)
        if partial and use_subprocess:
            raise ValueError(f"{pardo.label}: with_exception_handling takes partial or use_subprocess, not both")
        if timeout is not None and timeout < 0:
            raise ValueError(f"{pardo.label}: with_exception_handling takes a timeout in seconds, got {timeout!r}")
        if not 0 <= threshold <= 1:
            raise ValueError(f"{pardo.label}: the threshold must be between 0 and 1, got {threshold!r}")
        self.pardo = pardo
        self.main_tag = main_tag
        self.dead_letter_tag = dead_letter_tag
        self.exc_class = exc_class
        self.partial = partial
        self.threshold = threshold
        self.threshold_windowing = threshold_windowing
        self.error_handler = error_handler
        self.on_failure_callback = on_failure_callback
        self.timeout = timeout
        self.use_subprocess = use_subprocess
        self.tags = tags
        self.any_tag = any_tag

    def default_label(self) -> str:
        return self.pardo.label

    def with_outputs(self, *tags: str, main: str | None = None) -> ExceptionHandling[A, B]:
        """Return the transform with outputs for the DoFn's tags besides; `main` names the untagged output.

        Without tags, an output exists once it is accessed.
        """
        declaring = copy(self)
        declaring.tags, declaring.main_tag, declaring.any_tag = tags, main or self.main_tag, not tags
        return declaring

    def element_types(self) -> tuple[Any, Any]:
        return self.pardo.element_types()[0], None

    def expand(self, pcoll: PCollection[A]) -> GoodAndBad[B]:
        return self._expanded(pcoll)  # type: ignore[no-any-return]

    def _expanded(self, pcoll: PCollection[Any]) -> Any:
        pardo, label = self.pardo, pcoll.pipeline.full_label
        if splittable_signature(pardo.fn, label) is not None:
            raise UnsupportedError(
                f"{label}: a splittable DoFn can't have its exceptions handled, since its element is processed in "
                "parts; catch them in its process, and yield a TaggedOutput to a step after it"
            )
        check_async(pardo.fn, label)
        if self.use_subprocess and is_async(pardo.fn):
            raise UnsupportedError(
                f"{label}: use_subprocess of with_exception_handling can't run an async DoFn, whose calls share the "
                "event loop of the worker"
            )
        check_signature(pardo.fn, pardo.args, pardo.kwargs, label)
        check_operation(pardo.fn.column_operation, pcoll.checked_type, label)
        if (self.timeout or self.use_subprocess) and check_stateful(pardo.fn, label).is_stateful:
            raise ValueError(
                f"{label}: with_exception_handling takes no timeout and no use_subprocess for a DoFn with state or "
                "timers, which belong to the worker's thread"
            )
        fn, inferred = pardo.batched_for(pcoll, pardo.element_types()[1], label)
        guarded = ParDo(
            GuardedDoFn(
                fn,
                self.dead_letter_tag,
                self.exc_class,
                self.partial,
                self.on_failure_callback,
                self.timeout,
                self.use_subprocess,
            ),
            *pardo.args,
            **pardo.kwargs,
        )
        tags = self.tags or ()
        outputs: DoOutputsTuple = pcoll | "Process" >> guarded.with_outputs(
            *tags, self.dead_letter_tag, main=self.main_tag, allow_unknown_tags=self.any_tag
        )
        good, bad = outputs[self.main_tag], outputs[self.dead_letter_tag]
        produced = pardo.element_types()[1] or inferred
        good.hint = pardo.infer_output_type(pcoll.hint) if produced is None else produced
        bad.hint = DeadLetter[pcoll.hint]  # type: ignore[misc]
        types = pardo.tagged_types()
        for tag in tags:
            outputs[tag].hint = types.get(tag, Any)
        if self.threshold < 1:
            self._check_threshold(pcoll, bad, label)
        if self.error_handler is None:
            return outputs
        self.error_handler.add_error_pcollection(bad)
        return good if self.tags is None else outputs

    def _check_threshold(self, pcoll: PCollection[Any], bad: PCollection[Any], label: str) -> None:
        threshold = self.threshold

        def checked(failed: int, total: int, window: Any = DoFn.WindowParam) -> None:
            if failed > total * threshold:
                raise ValueError(
                    f"{label}: the number of failing elements within the window {window!r} exceeded the threshold: "
                    f"{failed} / {total} = {failed / total} > {threshold}"
                )

        total = pcoll | "CountTotal" >> _CountPerWindow(self.threshold_windowing)
        failed = bad | "CountBad" >> _CountPerWindow(self.threshold_windowing)
        _ = failed | "CheckThreshold" >> ParDo(MapDoFn(checked), AsSingleton(total, 0))


class _CountPerWindow(PTransform):
    """Count the elements of each window; it is here since `combine` is composed of ParDo."""

    def __init__(self, windowing: Any) -> None:
        super().__init__()
        self.windowing = windowing

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if self.windowing is not None:
            pcoll = pcoll | WindowInto(self.windowing)
        return pcoll | "Count" >> _Count()


class _Count(PTransform):
    """Count elements, with the labels of `CombineGlobally`, by which checkpoints know the state."""

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        keyed = pcoll | "KeyWithVoid" >> ParDo(ArrangementDoFn((Constant(None), WHOLE), "KeyWithVoid"))
        counted = keyed | "CombinePerKey" >> _CountPerKey()
        return counted | "UnKey" >> ParDo(ArrangementDoFn(SECOND, "UnKey"))


class _CountPerKey(PTransform):
    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        count: CombineFn[Any, Any, Any] = CountCombineFn()
        return add_grouping(pcoll, Serialized(count, pcoll.pipeline.full_label), Any)  # type: ignore[return-value]
