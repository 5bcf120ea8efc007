"""DoFn: the computation for each element, and the markers for its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from ...windowing.timestamp import Timestamp
from ...windowing.timestamped_value import TimestampedValue
from ..columns.expressions import ColumnOperation, Stamps, bundle_of_records
from ..redaction import logger_of
from ..type_variables import InputT, OutputT
from ..typehints import hints_of_callable, with_input_types, with_output_types
from ..typehints.callables import yielded_hint
from ..typehints.decorators import of_annotations
from ..typehints.forms import io_hints_of_declarations, io_hints_of_results
from ..user_code.signatures import label_of, signature
from ..userstate.state_spec import StateSpec
from ..userstate.timer_spec import TimerSpec
from ..watermark_estimators.estimator import provider_of

if TYPE_CHECKING:
    from typing import TypeVar

    from ..static_types import Outputs, SpecOf
    from ..userstate.timer import RuntimeTimer

    StateT = TypeVar("StateT")

_logger = logger_of(__name__)


class DoFnParam:
    """A marker, used as a parameter's default, that requests a property of the element."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DoFn.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_named_param, (self.name,))


def _named_param(name: str) -> DoFnParam:
    return getattr(DoFn, name)  # type: ignore[no-any-return]


class StateParam(DoFnParam):
    """`DoFn.StateParam(spec)`: the state of this name, for the element's key and window."""

    def __init__(self, state_spec: Any) -> None:
        if not isinstance(state_spec, StateSpec):
            raise ValueError(f"DoFn.StateParam takes a StateSpec, got {state_spec!r}")
        super().__init__("StateParam")
        self.state_spec = state_spec

    def __reduce__(self) -> tuple[Any, ...]:
        return (StateParam, (self.state_spec,))


class TimerParam(DoFnParam):
    """`DoFn.TimerParam(spec)`: the timer of this name, for the element's key and window."""

    def __init__(self, timer_spec: Any) -> None:
        if not isinstance(timer_spec, TimerSpec):
            raise ValueError(f"DoFn.TimerParam takes a TimerSpec, got {timer_spec!r}")
        super().__init__("TimerParam")
        self.timer_spec = timer_spec

    def __reduce__(self) -> tuple[Any, ...]:
        return (TimerParam, (self.timer_spec,))


class RestrictionParam(DoFnParam):
    """`DoFn.RestrictionParam(provider)`: the tracker of a restriction, in a splittable DoFn.

    Without a provider the DoFn itself is the provider.
    """

    def __init__(self, restriction_provider: Any = None) -> None:
        super().__init__("RestrictionParam")
        self.restriction_provider = restriction_provider

    def __reduce__(self) -> tuple[Any, ...]:
        return (RestrictionParam, (self.restriction_provider,))


class WatermarkEstimatorParam(DoFnParam):
    """`DoFn.WatermarkEstimatorParam(provider)`: the watermark estimator of a splittable DoFn's outputs.

    An estimator, or its class, can be given in place of a provider.
    """

    def __init__(self, watermark_estimator_provider: Any = None) -> None:
        super().__init__("WatermarkEstimatorParam")
        if watermark_estimator_provider is not None:
            watermark_estimator_provider = provider_of(watermark_estimator_provider, "DoFn.WatermarkEstimatorParam")
        self.watermark_estimator_provider = watermark_estimator_provider

    def __reduce__(self) -> tuple[Any, ...]:
        return (WatermarkEstimatorParam, (self.watermark_estimator_provider,))


class BundleContextParam(DoFnParam):
    """`DoFn.BundleContextParam(constructor, args=(), kwargs=None)`: a context manager.

    It is entered before a bundle's first element and left after its last.  The parameter is the result of `__enter__`.
    """

    scope = "bundle"

    def __init__(
        self,
        context_manager_constructor: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(type(self).__name__)
        self.constructor = context_manager_constructor
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.context_name = name or getattr(context_manager_constructor, "__name__", "context")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.constructor, self.args, self.kwargs, self.context_name))


class SetupContextParam(BundleContextParam):
    """Like `BundleContextParam`, entered once in each worker at setup, and left at teardown."""

    scope = "setup"


class BundleFinalizer:
    """Value of `DoFn.BundleFinalizerParam`, which registers callbacks for when the bundle's results are durable.

    Attributes:
      callbacks: the registered functions that are not called yet.
    """

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def register(self, callback: Callable[[], None]) -> None:
        """Call `callback()` after the commit of the bundle."""
        self.callbacks.append(callback)

    def finalize(self) -> None:
        """Call each registered callback once.  An error of one is logged: the bundle's results are there already."""
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _logger.exception("A callback of DoFn.BundleFinalizerParam failed; its bundle is committed")


class DoFn(Generic[InputT, OutputT]):
    """A function of each element, with a lifecycle.

    A worker calls `setup` once; for each bundle `start_bundle`, `process` for each element, and `finish_bundle`; and
    `teardown` at the end.  A DoFn with `process_batch` gets batches of elements.

    `process` returns or yields any number of outputs: values, `TimestampedValue`s,
    `WindowedValue`s, or `TaggedOutput`s of these.  Parameters whose default is a marker below get the requested
    property.  The others get the element, then the arguments of `ParDo`.

    `process` may be async: a coroutine function that returns outputs, or an async generator function.  Then up to
    `concurrency` calls run at once (docs/async.md), and `setup` and `teardown` may be async as well.

    >>> class Exclaim(DoFn):
    ...     def process(self, element, timestamp=DoFn.TimestampParam):
    ...         yield element + "!"
    >>> list(Exclaim().process("hello"))
    ['hello!']
    """

    ElementParam: ClassVar[Any] = DoFnParam("ElementParam")
    SideInputParam: ClassVar[Any] = DoFnParam("SideInputParam")
    TimestampParam: ClassVar[Any] = DoFnParam("TimestampParam")
    WindowParam: ClassVar[Any] = DoFnParam("WindowParam")
    WindowedValueParam: ClassVar[Any] = DoFnParam("WindowedValueParam")
    PaneInfoParam: ClassVar[Any] = DoFnParam("PaneInfoParam")
    KeyParam: ClassVar[Any] = DoFnParam("KeyParam")
    SignParam: ClassVar[Any] = DoFnParam("SignParam")
    DynamicTimerTagParam: ClassVar[Any] = DoFnParam("DynamicTimerTagParam")
    BundleFinalizerParam: ClassVar[Any] = DoFnParam("BundleFinalizerParam")
    if TYPE_CHECKING:
        # For `UnannotatedProcess`.
        def _declares(self, element: InputT, /) -> OutputT: ...

        # A parameter with this default has the state, or the timer.
        @staticmethod
        def StateParam(state_spec: SpecOf[StateT]) -> StateT: ...
        @staticmethod
        def TimerParam(timer_spec: TimerSpec) -> RuntimeTimer: ...
    else:
        StateParam = StateParam
        TimerParam = TimerParam
    RestrictionParam: ClassVar[Any] = RestrictionParam
    WatermarkEstimatorParam: ClassVar[Any] = WatermarkEstimatorParam
    BundleContextParam: ClassVar[Any] = BundleContextParam
    SetupContextParam: ClassVar[Any] = SetupContextParam

    # Whether equal elements always have equal outputs, which a retraction has to repeat (Dataflow Model, section 2.3).
    deterministic: ClassVar[bool] = True
    # Whether it retracts outputs (`Retracted`) though its input has no retractions: a stateful DoFn that corrects its
    # earlier outputs.
    retracts: ClassVar[bool] = False
    # Of an async DoFn: the greatest number of simultaneous calls in a subtask; and whether outputs are
    # in the order of their inputs: False, True, or "key" for the inputs of each key.
    concurrency: ClassVar[int] = 100
    ordered: ClassVar[bool | str] = False
    # What it does as an operation on columns (`ColumnOperation`, `BatchedDoFn`), if it can.
    column_operation: Any = None
    # Whether outputs may be whole bundles (`BatchOutput`), which are passed on as such.
    yields_bundles: bool = False

    def setup(self) -> Any:
        """Prepare the DoFn.  Called once in each worker, before the other methods."""

    def start_bundle(self) -> None:
        """Begin a bundle.  Called before its first element."""

    def process(self, element: InputT, /, *args: Any, **kwargs: Any) -> Outputs[OutputT | TimestampedValue[OutputT]]:
        """Return the outputs for one element."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def process_batch(self, batch: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Return the output batches for a batch of elements, whose type is the parameter's annotation.

        The elements of a batch have one window, pane and sign, and one timestamp if `DoFn.TimestampParam` asks for it.
        Output batches have those of the input.  If timestamps vary, an output batch has one element for each of the
        input's, in their order.

        >>> import penstock as beam
        >>> class Halve(beam.DoFn):
        ...     def process_batch(self, batch: list[int]) -> Iterable[list[float]]:
        ...         yield [number / 2 for number in batch]
        >>> [1, 2] | beam.ParDo(Halve())
        [0.5, 1.0]
        """
        raise NotImplementedError(f"{type(self).__name__}.process_batch")

    def finish_bundle(self) -> Iterable[Any] | None:
        """End a bundle.  Called after its last element; outputs must be `WindowedValue`s."""

    def teardown(self) -> Any:
        """Release resources.  Called when the worker ends normally."""

    def default_label(self) -> str:
        """Return the default label of a transform with this DoFn."""
        return type(self).__name__

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show, by name."""
        return {}

    def giving_columns(self, fields: tuple[str, ...] | None) -> Any:
        """Return a `ColumnsDoFn` in its place, whose outputs are pairs with columns as their values; None without one.

        Args:
          fields: those that are used of the values; None for all.
        """
        return None

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        """Return the type of the batches that `process_batch` takes, by default its annotation; None if unknown."""
        inputs, _ = hints_of_callable(self.process_batch)
        return inputs[0] if inputs and inputs[0] is not Any else None

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        """Return the type of the batches that it yields, by default from annotations; None if unknown."""
        is_batched = overrides(self.process_batch) and not getattr(self.process_batch, "yields_elements", False)
        return yielded_hint(self.process_batch if is_batched else self.process)

    def infer_output_type(self, input_element_type: Any) -> Any:
        """Return the type of output elements if it is declared nowhere else; `Any` if unknown."""
        return Any

    def with_input_types(self, *args: Any, **kwargs: Any) -> Any:
        """Declare input types: see `penstock.typehints`."""
        return with_input_types(*args, **kwargs)(self)

    def with_output_types(self, hint: Any = None, **tagged: Any) -> Any:
        """Declare output types: see `penstock.typehints`."""
        return with_output_types(hint, **tagged)(self)

    @of_annotations
    def default_type_hints(self) -> Any:
        """Return the types of its elements, as Beam's `IOTypeHints`, by the annotations of `process`.

        What a subclass returns counts before the annotations.
        """
        return io_hints_of_results(self.process)

    def get_type_hints(self) -> Any:
        """Return the types of its elements as Beam's `IOTypeHints`."""
        return io_hints_of_declarations(self).with_defaults(self.default_type_hints())

    @staticmethod
    def yields_elements(fn: Callable[..., Any]) -> Callable[..., Any]:
        """Mark a `process_batch` that yields elements in the place of batches."""
        fn.yields_elements = True  # type: ignore[attr-defined]
        return fn

    @staticmethod
    def yields_batches(fn: Callable[..., Any]) -> Callable[..., Any]:
        """Mark a `process` that yields batches in the place of elements, or a function for `Map` that takes a batch."""
        fn.yields_batches = True  # type: ignore[attr-defined]
        return fn

    @staticmethod
    def unbounded_per_element() -> Callable[[Any], Any]:
        """Mark a process method that may produce elements forever (a splittable DoFn)."""

        def mark(fn: Any) -> Any:
            fn.unbounded_per_element = True
            return fn

        return mark


def overrides(method: Any) -> bool:
    """Return True if a method of a DoFn isn't the one of the class `DoFn`.

    >>> overrides(DoFn().process_batch)
    False
    """
    return getattr(method, "__func__", None) is not getattr(DoFn, method.__name__, None)


class CallableDoFn(DoFn):
    """A DoFn around a plain function; the fused stage calls that function directly."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"expected a callable, got {fn!r}")
        self.fn = fn

    def default_label(self) -> str:
        return label_of(self.fn)


class MapDoFn(CallableDoFn):
    """One output for each element: the function's result."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return (self.fn(element, *args, **kwargs),)


class FlatMapDoFn(CallableDoFn):
    """Any number of outputs for each element: the items of the function's result.

    Beam's `fullargspec` has no effect: the parameters are those of the function.
    """

    def __init__(self, fn: Callable[..., Any], fullargspec: Any = None) -> None:
        super().__init__(fn)

    @of_annotations
    def default_type_hints(self) -> Any:
        """Return the types of its elements, as Beam's `IOTypeHints`, by the annotations of the function."""
        return io_hints_of_results(self.fn)

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        return self.fn(element, *args, **kwargs)  # type: ignore[no-any-return]


class FilterDoFn(CallableDoFn):
    """The elements for which the function returns true."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return (element,) if self.fn(element, *args, **kwargs) else ()


class MapTupleDoFn(MapDoFn):
    """Like MapDoFn, with the element's items as the function's arguments."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(fn)
        self.unpacked = taking_items(fn)

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return (self.unpacked(*element, *args, **kwargs),)


class FlatMapTupleDoFn(FlatMapDoFn):
    """Like FlatMapDoFn, with the element's items as the function's arguments."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(fn)
        self.unpacked = taking_items(fn)

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        return self.unpacked(*element, *args, **kwargs)  # type: ignore[no-any-return]


def taking_items(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn`, or a function that calls it, for an element's items and the arguments given to the ParDo.

    The result takes items and arguments by position, and markers by name.  Positional values skip a marker that stands
    before an ordinary parameter.

    >>> def joined(a, window=DoFn.WindowParam, b=None): return a, window, b
    >>> taking_items(joined)(1, 2, window="w")
    (1, 'w', 2)
    """
    try:
        parameters = list(signature(fn).parameters.values())
    except (TypeError, ValueError):  # a built-in without a signature
        return fn
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    first = next((i for i, p in enumerate(by_position) if isinstance(p.default, DoFnParam)), len(by_position))
    after_first = tuple(p.name for p in by_position[first:] if not isinstance(p.default, DoFnParam))
    return _SkippingMarkers(fn, first, after_first) if after_first else fn


class _SkippingMarkers:
    """A call of a function that passes the values for parameters behind the first marker by name."""

    def __init__(self, fn: Callable[..., Any], first: int, after_first: tuple[str, ...]) -> None:
        self.fn = fn
        self.first = first
        self.after_first = after_first

    def __call__(self, *values: Any, **named: Any) -> Any:
        names = [name for name in self.after_first if name not in named]
        rest = values[self.first :]
        if len(rest) > len(names):
            raise TypeError(
                f"{label_of(self.fn)}() takes at most {self.first + len(names)} items and arguments, got {len(values)}"
            )
        return self.fn(*values[: self.first], **dict(zip(names, rest, strict=False)), **named)


class WrappingDoFn(DoFn):
    """A DoFn around another DoFn, `fn`.  It has the states, timers and callbacks of `fn`."""

    def __init__(self, fn: DoFn) -> None:
        self.fn = fn
        self.deterministic = fn.deterministic  # type: ignore[misc]
        self.retracts = fn.retracts  # type: ignore[misc]
        self.concurrency = fn.concurrency  # type: ignore[misc]
        self.ordered = fn.ordered  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        # The methods that timers and windows call.
        if name.startswith("__") or "fn" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.fn, name)

    def default_label(self) -> str:
        return self.fn.default_label()

    def display_data(self) -> dict[str, Any]:
        return self.fn.display_data()

    def setup(self) -> Any:
        # It may be awaitable.
        return self.fn.setup()

    def start_bundle(self) -> None:
        self.fn.start_bundle()

    def finish_bundle(self) -> Iterable[Any] | None:
        return self.fn.finish_bundle()

    def teardown(self) -> Any:
        return self.fn.teardown()


class TimestampDoFn(CallableDoFn):
    """The element itself, with the function's result as its event time (seconds)."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        return (TimestampedValue(element, self.fn(element, *args, **kwargs)),)


class ColumnDoFn(DoFn):
    """A DoFn that is an operation on columns."""

    def __init__(self, operation: ColumnOperation, label: str) -> None:
        self.column_operation = operation
        self._label = label

    def default_label(self) -> str:
        return self._label

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        result = self.column_operation.apply(bundle_of_records([element]))
        if isinstance(self.column_operation, Stamps):
            return [TimestampedValue(element, Timestamp.of_micros(micros)) for micros in result.micros.tolist()]
        outputs: list[Any] = result.values
        return outputs
