"""Inheritance of a worker: what it has of the process that starts the run, as a forked process would have it.

The environment variables, the import path, the working directory and the standard streams are those at the start of the
run, not those of the moment when the template process was started.  Settings of the operating system and of Python come
before the work, which may import the program's modules; warnings filters, logging and coders come with it, since they
may have classes of the program.
"""

from __future__ import annotations

import importlib
import io
import locale
import logging
import os
import resource
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from ....frozen import frozen
from ....sdk.names.extensions import modules_of_workers
from ....sdk.process.carried_settings import CarriedSettings
from .interpreter import import_path

_LIMITS = tuple(name for name in dir(resource) if name.startswith("RLIMIT_"))
_STREAMS = ("stdout", "stderr")


@frozen
class ProcessSettings:
    """Settings of the operating system and of the interpreter.

    Attributes:
      path: the entries of `sys.path`.
      modules: the modules that an extension has workers import first.
      limits: the limits of `resource`, by name.
      cores: the processor's cores that it may use; None if that is unknown.
      temporary: the directory of `tempfile`; None if it hasn't been needed.
      text: the encoding, error handler and buffering of the standard streams, by name.

    >>> ProcessSettings.of_this_process().apply()
    """

    path: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    modules: Sequence[str]
    limits: Mapping[str, tuple[int, int]]
    cores: frozenset[int] | None
    niceness: int
    umask: int
    locale: str
    recursion_limit: int
    temporary: str | None
    text: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of_this_process(cls) -> ProcessSettings:
        """Return the present settings."""
        return cls(
            path=import_path(),
            arguments=list(sys.argv),
            environment=dict(os.environ),
            modules=modules_of_workers(),
            limits={name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS},
            cores=frozenset(os.sched_getaffinity(0)) if sys.platform == "linux" else None,
            niceness=os.getpriority(os.PRIO_PROCESS, 0),
            umask=_umask(),
            locale=locale.setlocale(locale.LC_ALL),
            recursion_limit=sys.getrecursionlimit(),
            temporary=tempfile.tempdir,
            text=dict(_text_settings()),
        )

    def apply(self) -> None:
        """Make them those of this process; those that the system refuses remain as they are."""
        sys.path[:] = self.path
        importlib.invalidate_caches()
        sys.argv[:] = self.arguments
        if dict(os.environ) != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
            time.tzset()
        for module in self.modules:
            importlib.import_module(module)
        for name, limits in self.limits.items():
            if resource.getrlimit(getattr(resource, name)) != limits:
                with suppress(OSError, ValueError):
                    resource.setrlimit(getattr(resource, name), limits)
        with suppress(OSError):
            if sys.platform == "linux" and self.cores and self.cores != os.sched_getaffinity(0):
                os.sched_setaffinity(0, self.cores)
        with suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, 0) != self.niceness:
                os.setpriority(os.PRIO_PROCESS, 0, self.niceness)
        os.umask(self.umask)
        if locale.setlocale(locale.LC_ALL) != self.locale:
            with suppress(locale.Error):
                locale.setlocale(locale.LC_ALL, self.locale)
        sys.setrecursionlimit(self.recursion_limit)
        tempfile.tempdir = self.temporary
        for name, settings in self.text.items():
            stream = getattr(sys, name)
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(**settings)


def _umask() -> int:
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    # It can't be read without being set.
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _text_settings() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in _STREAMS:
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            buffering = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
            yield name, {"encoding": stream.encoding, "errors": stream.errors, **buffering}


# ---------------------------------------------------------------- settings with objects of the program

# Pickles an object, or raises any error.
_Pickle: TypeAlias = Callable[[Any], bytes]


@frozen
class ProgramSettings:
    """Settings that may have objects of the program: they are pickled with the work.

    Attributes:
      carried: those that workers of each runner have.
      warnings: the filters.
      loggers: all loggers that aren't as they are by default.
      silenced: the level up to which all logging is off.
    """

    carried: CarriedSettings
    warnings: Sequence[Any]
    loggers: Sequence[_Logger]
    silenced: int

    @classmethod
    def of_this_process(cls, pickle: _Pickle) -> ProgramSettings:
        """Return the present settings.  A filter or handler that can't be pickled is left out, or replaced.

        In the place of such a handler, for instance one with a queue to a thread, there is one that writes to the
        standard error.
        """
        loggers: list[logging.Logger] = [logging.root]
        loggers += [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
        return cls(
            carried=CarriedSettings.of_this_process(),
            warnings=[each for each in list(warnings.filters) if _can_be_pickled(each, pickle)],
            loggers=[_Logger.of(each, pickle) for each in loggers if _is_changed(each)],
            silenced=logging.root.manager.disable,
        )

    def apply(self) -> None:
        """Make them those of this process."""
        self.carried.apply()
        warnings.resetwarnings()
        warnings.filters.extend(self.warnings)  # type: ignore[attr-defined]
        for each in self.loggers:
            each.apply()
        logging.disable(self.silenced)


@frozen
class _Logger:
    """Settings of a logger."""

    name: str
    level: int
    propagate: bool
    disabled: bool
    handlers: Sequence[logging.Handler]

    @classmethod
    def of(cls, logger: logging.Logger, pickle: _Pickle) -> _Logger:
        handlers = [
            each if _can_be_pickled(each, pickle) else _to_stderr(each, pickle) for each in list(logger.handlers)
        ]
        return cls(
            "" if logger is logging.root else logger.name, logger.level, logger.propagate, logger.disabled, handlers
        )

    def apply(self) -> None:
        logger = logging.getLogger(self.name or None)
        logger.setLevel(self.level)
        logger.propagate, logger.disabled = self.propagate, self.disabled
        logger.handlers[:] = self.handlers


def _is_changed(logger: logging.Logger) -> bool:
    return bool(logger.handlers or logger.level != logging.NOTSET or not logger.propagate or logger.disabled)


def _can_be_pickled(value: Any, pickle: _Pickle) -> bool:
    try:
        pickle(value)
    except Exception:  # pickle raises errors of any class
        return False
    return True


def _to_stderr(handler: logging.Handler, pickle: _Pickle) -> logging.Handler:
    replacement = logging.StreamHandler(sys.stderr)
    replacement.setLevel(handler.level)
    if _can_be_pickled(handler.formatter, pickle):
        replacement.setFormatter(handler.formatter)
    return replacement


def reduced_handler(handler: logging.Handler) -> tuple[Any, ...]:
    """Return how a handler is pickled: without its lock, and with a standard stream or a file that it opens again.

    Raises `TypeError` for a handler that writes to another stream.
    """
    state = {name: value for name, value in vars(handler).items() if name not in ("lock", "stream")}
    # Handlers with sockets connect again.
    state = {name: None if isinstance(value, socket.socket) else value for name, value in state.items()}
    stream = getattr(handler, "stream", None)
    if isinstance(handler, logging.FileHandler):
        return _restored_handler, (type(handler), {**state, "mode": "a", "stream": None, "_closed": False}, None)
    if stream is None:
        return _restored_handler, (type(handler), state, None)
    if stream in (sys.stdout, sys.__stdout__):
        return _restored_handler, (type(handler), state, "stdout")
    if stream in (sys.stderr, sys.__stderr__):
        return _restored_handler, (type(handler), state, "stderr")
    raise TypeError(f"a {type(handler).__name__} writes to a {type(stream).__name__}")


def _restored_handler(kind: type[logging.Handler], state: dict[str, Any], stream: str | None) -> logging.Handler:
    handler = kind.__new__(kind)
    vars(handler).update(state)
    if stream is not None:
        vars(handler)["stream"] = getattr(sys, stream)
    handler.createLock()
    return handler
