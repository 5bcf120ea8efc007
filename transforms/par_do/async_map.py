"""AsyncMap: an async function of each element, whose calls run at once, with timeouts, retries and a rate limit.

>>> import asyncio
>>> import penstock as beam
>>> async def price(item):
...     await asyncio.sleep(0.01)  # a call of a service
...     return item, len(item)
>>> [("tea"), ("milk")] | beam.AsyncMap(price, ordered=True)
[('tea', 3), ('milk', 4)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...sdk.dofn.async_dofn import is_coroutine_function, with_process
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import missing_extra
from ...sdk.type_variables import A, B
from ...sdk.typehints import declared_hints, hints_of_callable
from ...sdk.typehints.simplified import simplified
from ...sdk.user_code.own_code import is_ours
from ...sdk.user_code.signatures import label_of, signature
from .pardo import ParDo

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...sdk.static_types import Function


# The settings of a `tenacity.AsyncRetrying`, which itself can't be pickled.
_SETTINGS = (
    "sleep",
    "stop",
    "wait",
    "retry",
    "before",
    "after",
    "before_sleep",
    "retry_error_cls",
    "retry_error_callback",
)


class AsyncMap(ParDo[A, B]):
    """One output for each element: the result of an async function, up to `concurrency` of whose calls run at once.

    Returns a `PCollection[B]` for a function with results of type B.

    Elements whose calls have not ended are part of each snapshot, and are called again after a failure.  They hold the
    watermark.  Further arguments, markers and side inputs are those of `Map`.  `with_exception_handling` makes dead
    letters of elements whose calls fail, or take too long, for the last time.

    Args:
      fn: a coroutine function.
      concurrency: the greatest number of simultaneous calls in each subtask.  As many elements again wait.
      ordered: False for outputs as soon as they are there; True for the order of the inputs; "key" for the order of
        the inputs of each key, where elements are pairs of a key and a value.
      timeout: the seconds that a call may take, each attempt anew; then it fails with a `TimeoutError`.
      retries: how often a failed call is repeated, after 0.1 s, then twice as long each time, up to 10 s, less a random
        part; or a `tenacity.AsyncRetrying`.
      rate: the greatest number of calls per second in each subtask, attempts included.

    `retries` and `rate` need the extra `async`.  Raises `MissingExtraError` without it, `TypeError` for a function that
    isn't async, and `ValueError` for wrong settings.

    >>> import asyncio
    >>> import penstock as beam
    >>> async def answer(question):
    ...     await asyncio.sleep(0.01)
    ...     return question.upper()
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create(["a", "b"]) | beam.AsyncMap(answer, ordered=True, timeout=5) | beam.Map(print)
    A
    B
    """

    def __init__(
        self,
        fn: Function[A, ..., Awaitable[B]],
        *args: Any,
        concurrency: int = 100,
        ordered: bool | str = False,
        timeout: float | None = None,
        retries: Any = 0,
        rate: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(AsyncMapDoFn(fn, concurrency, ordered, timeout, retries, rate), *args, **kwargs)

    def infer_output_type(self, input_type: Any) -> Any:
        return self.fn.infer_output_type(input_type)


class AsyncMapDoFn(DoFn):
    """The DoFn of `AsyncMap`."""

    # A service may answer otherwise when it is asked again, so outputs that may be retracted are kept.
    deterministic = False

    def __init__(
        self,
        fn: Callable[..., Any],
        concurrency: int = 100,
        ordered: bool | str = False,
        timeout: float | None = None,
        retries: Any = 0,
        rate: float | None = None,
    ) -> None:
        if not is_coroutine_function(fn):
            raise TypeError(f"AsyncMap: expected an async function, got {fn!r}; did you mean Map?")
        for name, value in (("timeout", timeout), ("rate", rate)):
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise ValueError(f"AsyncMap: {name} must be over 0, got {value!r}")
        self.fn = fn
        self.concurrency = concurrency  # type: ignore[misc]
        self.ordered = ordered  # type: ignore[misc]
        self.timeout = timeout
        self.retries = _retry_settings(retries)
        self.rate = rate
        if rate is not None:
            _package("aiolimiter", "rate")
        self._limiter: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("process", "_limiter")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _limiter=None)

    def default_label(self) -> str:
        return label_of(self.fn)

    def display_data(self) -> dict[str, Any]:
        return {"concurrency": self.concurrency, "ordered": str(self.ordered)}

    def infer_output_type(self, input_element_type: Any) -> Any:
        declared = declared_hints(self.fn)[1]
        produced = hints_of_callable(self.fn)[1] if declared is None else declared
        return Any if produced is None else simplified(produced)

    # A function with the parameters of the user's, which is created in each worker.
    @cached_property
    def process(self) -> Any:
        async def process(*args: Any, **kwargs: Any) -> tuple[Any]:
            return (await self._result(args, kwargs),)

        parameters = [p.replace(annotation=p.empty) for p in signature(self.fn).parameters.values()]
        return with_process(parameters, process)

    async def _result(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self.retries is None:
            return await self._attempt(args, kwargs)
        # Frames of the library that retries aren't the user's.
        frames: TracebackType | None = None

        async def attempt() -> Any:
            nonlocal frames
            try:
                return await self._attempt(args, kwargs)
            except BaseException as error:
                frames = error.__traceback__
                raise

        retrying = _package("tenacity", "retries").AsyncRetrying(**self.retries, reraise=True)
        try:
            return await retrying(attempt)
        except Exception as error:
            raise error.with_traceback(frames)  # noqa: B904 (the same error)

    async def _attempt(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self.rate is not None:
            if self._limiter is None:
                # A bucket of one call spaces calls evenly.
                self._limiter = _package("aiolimiter", "rate").AsyncLimiter(1, 1 / self.rate)
            await self._limiter.acquire()
        if self.timeout is None:
            return await self.fn(*args, **kwargs)
        # Takes as long to import as a small pipeline without it runs.
        import asyncio

        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await self.fn(*args, **kwargs)
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = TimeoutError(f"the call has not ended within {self.timeout:g} s")
            cause = error.__cause__
            raise late.with_traceback(None if cause is None else _users(cause.__traceback__)) from None


def _retry_settings(retries: Any) -> dict[str, Any] | None:
    """Return the arguments of `tenacity.AsyncRetrying`; None for no retries.

    Raises `ValueError` for a wrong number, and `TypeError` for another object.
    """
    if retries is None or (type(retries) is int and retries == 0):
        return None
    tenacity = _package("tenacity", "retries")
    if type(retries) is int:
        if retries < 0:
            raise ValueError(f"AsyncMap: retries must be at least 0, got {retries}")
        wait = tenacity.wait_random_exponential(multiplier=0.1, max=10) + tenacity.wait_fixed(0.05)
        return {"stop": tenacity.stop_after_attempt(retries + 1), "wait": wait}
    if not isinstance(retries, tenacity.AsyncRetrying):
        raise TypeError(f"AsyncMap: retries is a number or a tenacity.AsyncRetrying, got {retries!r}")
    return {name: getattr(retries, name) for name in _SETTINGS}


def _package(name: str, setting: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_extra(name, "async", f"the {setting} of AsyncMap") from error


def _users(frames: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins in the user's code."""
    while frames is not None and is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    return frames
