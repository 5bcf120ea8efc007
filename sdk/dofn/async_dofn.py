"""Async DoFns: DoFns whose `process` is a coroutine function or an async generator function.

Their calls run in an event loop of the worker process, many at once.

>>> from penstock.sdk.dofn.dofn import DoFn
>>> class Lookup(DoFn):
...     async def process(self, element):
...         return [element]
>>> is_async(Lookup()), is_async(DoFn())
(True, False)
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Iterable
from types import FunctionType
from typing import Any

from ..errors import UnsupportedError
from ..user_code.signatures import signature
from .dofn import CallableDoFn, DoFn, DoFnParam, FlatMapDoFn, WrappingDoFn, overrides
from .signature import user_function
from .stateful_dofn import is_stateful_dofn

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_OF_A_BUNDLE = ("BundleFinalizerParam", "BundleContextParam")
_SPLITTABLE = ("RestrictionParam", "WatermarkEstimatorParam")


def is_coroutine_function(fn: Any) -> bool:
    """Return True if a callable returns an awaitable or an async generator."""
    function = getattr(fn, "__func__", fn)
    # Most callables are: a function without attributes, or a method of one.
    if type(function) is FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & _ASYNC)
    while hasattr(fn, "func"):
        fn = fn.func
    # An object that is called like a function has the method in its class.
    called = inspect.getattr_static(type(fn), "__call__", None)
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (fn, called))


def is_async(fn: DoFn) -> bool:
    """Return True if the `process` of a DoFn, or the function that it wraps, is async."""
    if isinstance(fn, CallableDoFn) and not isinstance(fn, FlatMapDoFn):
        return False
    return is_coroutine_function(user_function(fn))


def check_async(fn: DoFn, label: str) -> None:
    """Raise `UnsupportedError`, naming the transform, for an async DoFn with what only other DoFns can have."""
    if isinstance(fn, CallableDoFn) and not isinstance(fn, FlatMapDoFn) and is_coroutine_function(fn.fn):
        raise UnsupportedError(
            f"{label}: {type(fn).__name__.removesuffix('DoFn')} would output coroutines, since its function is async; "
            "use beam.AsyncMap, or an async process method of a DoFn"
        )
    if is_coroutine_function(fn.process_batch):
        raise UnsupportedError(f"{label}: an async process_batch isn't supported; make process async")
    if not is_async(fn):
        return
    if is_stateful_dofn(fn):
        raise UnsupportedError(
            f"{label}: an async DoFn can't have state or timers, since its calls for one key overlap; "
            "have a stateful DoFn before or behind it"
        )
    for parameter in signature(user_function(fn)).parameters.values():
        marker = getattr(parameter.default, "name", "") if isinstance(parameter.default, DoFnParam) else ""
        if marker in _OF_A_BUNDLE:
            raise UnsupportedError(f"{label}: an async DoFn can't have a {marker}, since its calls outlast bundles")
        if marker in _SPLITTABLE:
            raise UnsupportedError(f"{label}: an async DoFn can't be splittable, but its process has a {marker}")
    users = fn
    while isinstance(users, WrappingDoFn):
        users = users.fn
    for method in ("start_bundle", "finish_bundle"):
        if overrides(getattr(users, method)):
            raise UnsupportedError(
                f"{label}: an async DoFn can't have a {method}, since its calls outlast bundles; "
                "use setup and teardown, which may be async"
            )
    concurrency = fn.concurrency
    if type(concurrency) is not int or concurrency < 1:
        raise ValueError(f"{label}: concurrency is the number of simultaneous calls, got {concurrency!r}")
    if fn.ordered not in (False, True, "key"):
        raise ValueError(f"{label}: ordered is False, True or 'key', got {fn.ordered!r}")


async def as_they_come(result: Any) -> AsyncIterable[Any]:
    """Yield the outputs of a call of an async function, those of an async generator one by one."""
    if isinstance(result, AsyncIterable):
        async for output in result:
            yield output
    else:
        for output in await collected(result):
            yield output


async def collected(result: Any) -> list[Any]:
    """Return the outputs of a call of an async function: those of a coroutine's result, or of an async generator.

    Raises `TypeError` for a result that isn't an iterable of outputs.
    """
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterable):
        return [output async for output in result]
    if result is None:
        return []
    if isinstance(result, (str, bytes, dict)) or not isinstance(result, Iterable):
        raise TypeError(
            f"an async process must return an iterable of outputs or None, got the {type(result).__name__} {result!r}; "
            "return a list of it, or use AsyncMap"
        )
    return list(result)


def with_process(parameters: list[inspect.Parameter], process: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes any arguments, declared to have these parameters."""
    process.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return process
