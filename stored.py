"""Types that are stored under a tag and a version, instead of the module and the name of a class.

A checkpoint outlives the layout of this package: a class may get another module, another name or other fields between
the run that writes a checkpoint and the run that restores it.  So the pickle of a registered type names this module
and a tag with a version, such as `interval-window/1`, followed by the fields of that version.  The name of this module
and the tags are part of the checkpoint format (docs/checkpoint_format.md).  They never change.

>>> import pickle, pickletools
>>> from penstock.windowing import IntervalWindow
>>> opcodes = pickletools.genops(pickle.dumps(IntervalWindow(0, 1)))
>>> [argument for _, argument, _ in opcodes if isinstance(argument, str)]
['penstock.stored', 'interval-window/1']

A type is registered beside its class.  When its fields change, the class is registered with the next version, and a
function for the former version converts the old fields to the new class:

>>> import attrs
>>> @stored_as("doctest-range", 2)
... @attrs.frozen
... class Range:
...     start: int
...     stop: int
...     step: int
>>> @restores("doctest-range", 1)
... def _range(start, stop):
...     return Range(start, stop, 1)
>>> pickle.loads(pickle.dumps(Range(1, 2, 3)))
Range(start=1, stop=2, step=3)

An unregistered version is refused by name:

>>> getattr(__import__("penstock.stored").stored, "doctest-range/3")
Traceback (most recent call last):
penstock.stored.UnknownTypeError: the stored type 'doctest-range', version 3; known: versions 1 and 2
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeVar

import attrs

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# By tag, the modules that `import penstock` doesn't import.  They are imported when the tag is read.
_LATER = {
    "file-metadata": "io.files.filesystem",
    "file-range": "io.files.source",
    "frame-block": "sdk.spark_interfaces",
    "frame-stream-position": "runners.spark.micro_batch.structured_streaming",
    "generated-row": "sdk.typehints.beam.row_type",
    "mqtt-message": "io.mqtt.messages",
    "multiset": "runners.execution.windows.retractions",
    "nats-message": "io.nats.messages",
    "nats-range": "io.nats.bounded",
    "not-a-number": "runners.execution.windows.retractions",
    "offset-range": "sdk.dofn.offset_range",
    "postgres-changes-offset": "io.cdc.postgres_log",
    "postgres-table": "io.cdc.postgres_tables",
    "readable-file": "io.files.matching",
    "redis-stream-entry": "io.redis.source",
    "row-change": "io.cdc.row_change",
    "sequenced-change": "io.cdc.sequenced_rows",
    "latest-sequenced-row": "io.cdc.sequenced_rows",
    "side-input-change": "runners.execution.stages.side_inputs",
    "signed-inputs": "runners.execution.windows.retractions",
    "signed-windows": "runners.execution.windows.retractions",
    "split-partition": "runners.execution.streaming.sources",
    "staged-file": "io.files.sink",
    "state-change": "runners.execution.state.keyed_state",
}

# By tag, the readable versions.
_versions: dict[str, list[int]] = {}

# By class, its tag.
_tags: dict[type[Any], str] = {}


class UnknownTypeError(LookupError):
    """A stored value has a tag or a version that this version of the package can't read.

    Attributes:
      tag, version: the stored ones.
      known: the readable versions of the tag; none for an unknown tag.
    """

    def __init__(self, tag: str, version: str) -> None:
        self.tag = tag
        self.version = version
        self.known = tuple(sorted(_versions.get(tag, ())))
        known = f"{'version' if len(self.known) == 1 else 'versions'} {' and '.join(map(str, self.known))}"
        super().__init__(f"the stored type {tag!r}, version {version}; known: {known if self.known else 'no such tag'}")


def restores(tag: str, version: int, kind: type[Any] | None = None) -> Callable[[F], F]:
    """Register a function from the fields stored under a tag and a version to a value.

    The function itself is pickled as the tag, so a `__reduce__` can return it.

    Args:
      kind: the class of the values, if the tag is its `name_of`.
    """

    def register(function: F) -> F:
        name = f"{tag}/{version}"
        if name in globals() or "." in name:
            raise ValueError(f"expected a tag and a version that aren't registered, without a period, got {name!r}")
        function.__module__, function.__qualname__ = __name__, name
        globals()[name] = function
        _versions.setdefault(tag, []).append(version)
        if kind is not None:
            _tags[kind] = tag
        return function

    return register


def stored_as(
    tag: str,
    version: int,
    fields: Callable[[Any], tuple[Any, ...]] | None = None,
    restore: Callable[..., Any] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Register a class whose instances are pickled as a tag, a version and their fields.

    Instances of subclasses aren't: a subclass has its own tag, or is pickled by its module and name.

    Args:
      fields: returns the fields of an instance; by default those of an attrs class or a named tuple, or an
        enumeration's value.
      restore: returns an instance for these fields; the class by default.
    """

    def register(kind: type[T]) -> type[T]:
        make = restore or kind
        fields_of = fields or _fields_of(kind)

        def restored(*stored: Any) -> Any:
            return make(*stored)

        restores(tag, version, kind)(restored)

        def reduced(instance: Any) -> tuple[Any, ...]:
            return restored, fields_of(instance)

        copyreg.pickle(kind, reduced)
        return kind

    return register


def stored_constant(tag: str, version: int, constant: Any) -> None:
    """Register the only instance of its class."""
    stored_as(tag, version, lambda instance: (), lambda: constant)(type(constant))


def name_of(kind: type[Any]) -> str:
    """Return a name of a class that is independent of its module: its tag, if it has one.

    >>> from penstock.io.files.filesystem import FileMetadata
    >>> name_of(FileMetadata), name_of(int)
    ('penstock.stored:file-metadata', 'builtins:int')
    """
    tag = _tags.get(kind)
    return f"{kind.__module__}:{kind.__qualname__}" if tag is None else f"{__name__}:{tag}"


def full_name(name: str) -> str:
    """Return the present name of a class for a result of `name_of`.

    >>> full_name("penstock.stored:duration"), full_name("builtins:int")
    ('penstock.windowing.duration:Duration', 'builtins:int')
    """
    module, _, tag = name.partition(":")
    kinds = [kind for kind, own in _tags.items() if own == tag] if module == __name__ else []
    return f"{kinds[0].__module__}:{kinds[0].__qualname__}" if kinds else name


def tags() -> dict[str, tuple[int, ...]]:
    """Return all tags with their readable versions."""
    for module in _LATER.values():
        import_module(f"{__package__}.{module}")
    return {tag: tuple(sorted(versions)) for tag, versions in _versions.items()}


def _fields_of(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an instance to its fields, from which the class can be called."""
    if issubclass(kind, Enum):
        return lambda instance: (instance.value,)
    if issubclass(kind, tuple):
        return tuple
    names = [field.name for field in attrs.fields(kind) if field.init]
    if len(names) == 1:
        (name,) = names
        return lambda instance: (getattr(instance, name),)
    return attrgetter(*names)


def __getattr__(name: str) -> Any:
    tag, slash, version = name.rpartition("/")
    if slash:
        if tag in _LATER:
            import_module(f"{__package__}.{_LATER[tag]}")
            if name in globals():
                return globals()[name]
        raise UnknownTypeError(tag, version)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
