"""Dead letters: elements for which a user's function raises an exception."""

from __future__ import annotations

import inspect
import logging
import os.path
from collections.abc import AsyncIterable, Callable, Iterable
from functools import cached_property
from types import TracebackType
from typing import Any

from ..sdk.dofn.async_dofn import as_they_come, collected, is_async, with_process
from ..sdk.dofn.dofn import DoFn, DoFnParam, FlatMapTupleDoFn, MapTupleDoFn, WrappingDoFn
from ..sdk.dofn.signature import user_function
from ..sdk.elements.element_wrappers import Retracted, TaggedOutput
from ..sdk.errors import UnclosedErrorHandlerError
from ..sdk.metrics import DEAD_LETTERS
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.typehints import pair_of
from ..sdk.user_code.error_text import repr_of, traceback_lines
from ..sdk.user_code.signatures import signature
from .flatten import Flatten

_logger = logging.getLogger(__name__)


class DeadLetter:
    """The type of dead letters of elements of a type: an element with its error.

    The error is the exception's type, its repr, and its traceback as lines.

    >>> DeadLetter[int]
    typing.Tuple[int, tuple[type, str, list[str]]]
    """

    def __class_getitem__(cls, element_type: Any) -> Any:
        return pair_of(element_type, tuple[type, str, list[str]])


class GuardedDoFn(WrappingDoFn):
    """A DoFn whose exceptions become dead letters."""

    def __init__(
        self,
        fn: DoFn,
        dead_letter_tag: str,
        exc_class: Any,
        partial: bool,
        on_failure_callback: Callable[[BaseException, Any], None] | None,
        timeout: float | None = None,
        use_subprocess: bool = False,
    ) -> None:
        super().__init__(fn if is_async(fn) else _isolated(fn, timeout, use_subprocess))
        self.timeout = timeout
        self.called = fn
        self.dead_letter_tag = dead_letter_tag
        self.exc_class = exc_class
        self.partial = partial
        self.on_failure_callback = on_failure_callback

    # A function with the parameters of the guarded one, which is created in each worker.
    @cached_property
    def process(self) -> Any:
        parameters = parameters_of_process(self.called)
        element = next(p for p in parameters if p.default is DoFn.ElementParam or not isinstance(p.default, DoFnParam))
        sign = next((p for p in parameters if p.default is DoFn.SignParam), None)
        fn, exc_class = self.fn, self.exc_class

        def given(parameter: inspect.Parameter, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            position = parameters.index(parameter)
            return kwargs[parameter.name] if parameter.name in kwargs else args[position]

        def dead_letter(error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaggedOutput:
            letter: Any = self._dead_letter(error, given(element, args, kwargs))
            # A function with `SignParam` decides on the signs of its own outputs, but not of the dead letter.
            if sign is not None and given(sign, args, kwargs) < 0:
                letter = Retracted(letter)
            return TaggedOutput(self.dead_letter_tag, letter)

        process: Any = fn.process

        def all_or_nothing(*args: Any, **kwargs: Any) -> Iterable[Any]:
            try:
                return list(process(*args, **kwargs) or ())
            except exc_class as error:
                return (dead_letter(error, args, kwargs),)

        def some_or_all(*args: Any, **kwargs: Any) -> Iterable[Any]:
            try:
                yield from process(*args, **kwargs) or ()
            except exc_class as error:
                yield dead_letter(error, args, kwargs)

        async def all_or_nothing_awaited(*args: Any, **kwargs: Any) -> Iterable[Any]:
            try:
                async with asyncio.timeout(self.timeout):
                    return await collected(fn.process(*args, **kwargs))
            except exc_class as error:
                return (dead_letter(error, args, kwargs),)

        async def some_or_all_awaited(*args: Any, **kwargs: Any) -> AsyncIterable[Any]:
            try:
                async with asyncio.timeout(self.timeout):
                    async for output in as_they_come(fn.process(*args, **kwargs)):
                        yield output
            except exc_class as error:
                yield dead_letter(error, args, kwargs)

        guarded: Any = some_or_all if self.partial else all_or_nothing
        if is_async(fn):
            # Takes as long to import as a small pipeline without it runs.
            import asyncio

            guarded = some_or_all_awaited if self.partial else all_or_nothing_awaited
        return with_process(parameters, guarded)

    def giving_columns(self, fields: tuple[str, ...] | None) -> Any:
        columns = self.fn.giving_columns(fields)
        return None if columns is None else columns.of_elements_by(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process"}

    def _dead_letter(self, error: BaseException, element: Any) -> tuple[Any, tuple[type, str, list[str]]]:
        DEAD_LETTERS.inc()
        if self.on_failure_callback is not None:
            try:
                self.on_failure_callback(error, element)
            except Exception as failure:
                _logger.warning("on_failure_callback failed: %r", failure)
        lines = getattr(error, "lines_of_its_process", None)
        if lines is None:
            lines = traceback_lines(error, _without_ours(error.__traceback__))
        return element, (type(error), repr_of(error), lines)


# Of a module that is imported when it is used.
_ISOLATED = os.path.join(os.path.dirname(inspect.getfile(DoFn)), "isolated_dofn.py")


def _isolated(fn: DoFn, timeout: float | None, use_subprocess: bool) -> DoFn:
    if not use_subprocess and not timeout:
        return fn
    from ..sdk.dofn.isolated_dofn import SubprocessDoFn, TimedDoFn

    return SubprocessDoFn(fn, timeout) if use_subprocess else TimedDoFn(fn, timeout or 0)


def parameters_of_process(fn: DoFn) -> list[inspect.Parameter]:
    """Return the parameters of a DoFn's `process`, the markers of a wrapped function included."""
    element = inspect.Parameter("element", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
    named = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = list(signature(user_function(fn)).parameters.values())
    except (TypeError, ValueError):  # a built-in without a signature
        return [element, rest, named]
    if not isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn)):
        return parameters
    # The number of an element's items is unknown.
    markers = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters if isinstance(p.default, DoFnParam)]
    return [element, rest, *markers, named]


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames between the runner and the user's function."""
    ours = {__file__, inspect.getfile(DoFn), _ISOLATED}
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return frames


class ErrorHandler:
    """A handler of the dead letters of several transforms.

    Transforms within its `with` block take it as their `error_handler`.  At the end of the block the consumer, a
    transform, is applied to all their dead letters.  Running a pipeline with an unclosed handler raises
    `UnclosedErrorHandlerError`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     with ErrorHandler(beam.combiners.Count.Globally()) as handler:
    ...         inverse = beam.Map(lambda x: 1 / x).with_exception_handling(error_handler=handler)
    ...         _ = p | beam.Create([2, 0]) | inverse | "show" >> beam.Map(print)
    ...     _ = handler.output() | "show count" >> beam.Map(print)
    0.5
    1
    """

    def __init__(self, consumer: PTransform) -> None:
        self._consumer = consumer
        self._pcolls: list[PCollection[Any]] = []
        self._output: Any = None
        self._closed = False

    def __enter__(self) -> ErrorHandler:
        self._pcolls = []
        self._closed = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()

    def add_error_pcollection(self, pcoll: PCollection[Any]) -> None:
        """Add dead letters to handle."""
        if self._closed:
            raise UnclosedErrorHandlerError(
                f"{pcoll.producer_label}: its error handler was closed before it was applied"
            )
        self._pcolls.append(pcoll)
        pcoll.pipeline.add_check(self.verify_closed)

    def close(self) -> None:
        """Apply the consumer to the dead letters, and accept no more of them."""
        self._closed = True
        if self._pcolls:
            self._output = tuple(self._pcolls) | _HandleErrors(self._pcolls[0].producer_label, self._consumer)

    def output(self) -> Any:
        """Return the consumer's output, or None without dead letters."""
        if not self._closed:
            raise UnclosedErrorHandlerError(
                "an error handler has no output before it is closed, at the end of its with block"
            )
        return self._output

    def verify_closed(self) -> None:
        """Raise `UnclosedErrorHandlerError` if dead letters would be lost."""
        if not self._closed and self._pcolls:
            raise UnclosedErrorHandlerError(
                f"{self._pcolls[0].producer_label}: Unclosed error handler; use it in a with block"
            )


class CollectingErrorHandler(ErrorHandler):
    """An ErrorHandler whose output is the dead letters themselves.  `output` must be called.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     with CollectingErrorHandler() as handler:
    ...         _ = p | beam.Create([0]) | beam.Map(lambda x: 1 / x).with_exception_handling(error_handler=handler)
    ...     _ = handler.output() | "show" >> beam.Map(lambda letter: print(letter[0]))
    0
    """

    def __init__(self) -> None:
        super().__init__(_Unchanged())
        self._was_asked_for = False

    def output(self) -> Any:
        output = super().output()
        self._was_asked_for = True
        return output

    def verify_closed(self) -> None:
        super().verify_closed()
        if self._pcolls and not self._was_asked_for:
            raise UnclosedErrorHandlerError(
                f"{self._pcolls[0].producer_label}: its CollectingErrorHandler requires the output to be retrieved; "
                "call output() after the with block, and use the dead letters"
            )


class _HandleErrors(PTransform):
    def __init__(self, producer: str, consumer: PTransform) -> None:
        super().__init__(f"HandleErrors({producer})")
        self.consumer = consumer

    def expand(self, pcolls: tuple[PCollection[Any], ...]) -> Any:
        return pcolls | Flatten() | self.consumer


class _Unchanged(PTransform):
    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        return pcoll
