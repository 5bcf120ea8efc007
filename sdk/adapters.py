"""Adapters: objects of other libraries as the core's sources, sinks, type hints and options.

A library registers a converter for a class, once, when it is imported.  `Read`, `Write`, type hints and
`PipelineOptions.view_as` then take instances of the class, and of its subclasses, wherever they take their own.

>>> import penstock as beam
>>> from penstock.sdk.sources.bounded import ValuesSource
>>> class Countdown:
...     def __init__(self, start):
...         self.start = start
>>> convert_sources(Countdown, lambda countdown: AdaptedSource(ValuesSource(range(countdown.start, 0, -1)), int))
>>> with beam.Pipeline() as p:
...     _ = p | beam.io.Read(Countdown(3)) | beam.Map(print)
3
2
1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..frozen import frozen

K = TypeVar("K")
T = TypeVar("T")


class Converters(Generic[T]):
    """Converters by class; that of the nearest base counts, and of one class the latest.

    >>> converters = Converters()
    >>> converters.register(int, lambda number: f"the number {number}")
    >>> converters.find(True)(True), converters.find("text")
    ('the number True', None)
    """

    def __init__(self) -> None:
        self._by_class: dict[type[Any], Callable[[Any], T]] = {}

    def register(self, kind: type[Any], convert: Callable[[Any], T]) -> None:
        """Register the converter of a class and its subclasses."""
        self._by_class[kind] = convert

    def find(self, value: Any) -> Callable[[Any], T] | None:
        """Return the converter for a value; None without one."""
        return self.for_class(type(value))

    def for_class(self, kind: type[Any]) -> Callable[[Any], T] | None:
        """Return the converter for instances of a class; None without one."""
        if not self._by_class:
            return None
        return next((self._by_class[base] for base in kind.__mro__ if base in self._by_class), None)


@frozen
class AdaptedSource:
    """A source of the core in place of an object.

    Attributes:
      source: the `BoundedSource` or `UnboundedSource` that reads the elements.
      element_type: the type hint of the elements.
    """

    source: Any
    element_type: Any = Any


_sources: Converters[AdaptedSource] = Converters()
_sinks: Converters[Any] = Converters()
_hints: Converters[Any] = Converters()
_views: Converters[type[Any]] = Converters()


def convert_sources(kind: type[K], convert: Callable[[K], AdaptedSource]) -> None:
    """Let `Read` take instances of a class.

    Args:
      convert: returns the source of the core that reads the same elements.  It is called when the pipeline is built.
    """
    _sources.register(kind, convert)


def as_source(value: Any) -> AdaptedSource | None:
    """Return the source for an object of a class with a converter; None for any other object.

    >>> as_source("not a source") is None
    True
    """
    convert = _sources.find(value)
    return None if convert is None else convert(value)


def is_source(value: Any) -> bool:
    """Return whether `as_source` converts an object."""
    return _sources.find(value) is not None


def convert_sinks(kind: type[K], convert: Callable[[K], Any]) -> None:
    """Let `Write` take instances of a class.

    Args:
      convert: returns a `Sink`, a `ComposedSink`, or a transform that writes.  It is called when the pipeline is built.
    """
    _sinks.register(kind, convert)


def as_sink(value: Any) -> Any:
    """Return the sink for an object of a class with a converter; None for any other object.

    >>> import penstock as beam
    >>> class Printer:
    ...     prefix = "> "
    >>> convert_sinks(Printer, lambda printer: beam.Map(lambda x: print(f"{printer.prefix}{x}")))
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1]) | beam.io.Write(Printer())
    > 1
    """
    convert = _sinks.find(value)
    return None if convert is None else convert(value)


def is_sink(value: Any) -> bool:
    """Return whether `as_sink` converts an object."""
    return _sinks.find(value) is not None


def convert_hints(kind: type[K], convert: Callable[[K], Any]) -> None:
    """Accept instances of a class as type hints.

    Args:
      convert: returns the hint of `typing` that says the same.
    """
    _hints.register(kind, convert)


def typehint_of(hint: Any) -> Any:
    """Return the hint of `typing` for an instance of a class with a converter; any other object as it is.

    >>> class Pairs:
    ...     def __init__(self, key, value):
    ...         self.types = key, value
    >>> convert_hints(Pairs, lambda pairs: tuple[pairs.types])
    >>> typehint_of(Pairs(str, int)), typehint_of(str)
    (tuple[str, int], <class 'str'>)
    """
    convert = _hints.find(hint)
    return hint if convert is None else convert(hint)


def convert_option_views(kind: type[K], convert: Callable[[type[K]], type[Any]]) -> None:
    """Let `PipelineOptions.view_as` take subclasses of a class.

    Args:
      convert: returns a subclass of `PipelineOptions` with the flags of a subclass of `kind`, the same one each time.
    """
    _views.register(kind, convert)


def option_view_of(kind: Any) -> Any:
    """Return the view of options for a class with a converter; any other object as it is.

    >>> from penstock.options.pipeline_options import PipelineOptions
    >>> class Settings:
    ...     port: int = 80
    >>> class _SettingsView(PipelineOptions):
    ...     @classmethod
    ...     def _add_argparse_args(cls, parser):
    ...         parser.add_argument("--port", type=int, default=Settings.port)
    >>> convert_option_views(Settings, lambda kind: _SettingsView)
    >>> PipelineOptions(["--port=8080"]).view_as(Settings).port
    8080
    """
    if not isinstance(kind, type):
        return kind
    convert = _views.for_class(kind)
    return kind if convert is None else convert(kind)
