"""Types that are stored under a tag and a version, instead of the module and the name of a class.

The pickle of a registered type names the module `penstock.stored` and, in it, a tag with a version, such as
`interval-window/1`, followed by the fields of that version.  No file has this module: it is the namespace of the tags,
made here, and `import penstock` puts it where `pickle` looks.

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

>>> restorer("doctest-range/3")
Traceback (most recent call last):
penstock.persistence.stored_types.UnknownTypeError: the stored type 'doctest-range', version 3; known: versions 1 and 2
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

import attrs

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The name in pickles and in encodings of keys, which never changes: `penstock.stored`.  A package that is imported a
# second time under another name, as pytest does with the package of its root directory, has a namespace of its own.
NAMESPACE = f"{__name__.partition('.')[0]}.stored"


class _Namespace(ModuleType):
    """The module that pickles name: its attributes are the restoring functions, by tag and version."""

    def __getattr__(self, name: str) -> Any:
        tag, slash, version = name.rpartition("/")
        if not slash:
            raise AttributeError(f"module {NAMESPACE!r} has no attribute {name!r}")
        if tag not in _lazy:
            _load_extensions()
        if tag in _lazy:
            import_module(_lazy[tag])
        if name in vars(self):
            return vars(self)[name]
        raise UnknownTypeError(tag, version)


_namespace = sys.modules[NAMESPACE] = _Namespace(NAMESPACE, "Restoring functions of stored types, by tag and version.")

# By tag, the module that registers it, if `import penstock` doesn't import that module.
_lazy: dict[str, str] = {}

# Import what may register more tags.
_extensions: list[Callable[[], Any]] = []

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
        if name in vars(_namespace) or "." in name:
            raise ValueError(f"expected a tag and a version that aren't registered, without a period, got {name!r}")
        function.__module__, function.__qualname__ = NAMESPACE, name
        setattr(_namespace, name, function)
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


def lazily_stored(package: str, modules: Mapping[str, str]) -> None:
    """Declare the tags of a package's modules that are imported when a tag of theirs is read.

    Args:
      package: the package's name.
      modules: for each tag the module that registers it, relative to the package.
    """
    _lazy.update((tag, f"{package}.{module}") for tag, module in modules.items())


def before_unknown(load: Callable[[], Any]) -> None:
    """Have a function called before a tag is taken for unknown: it imports extensions, which may register the tag."""
    _extensions.append(load)


def _load_extensions() -> None:
    for load in _extensions:
        load()


def restorer(name: str) -> Callable[..., Any]:
    """Return the function that restores a value of a tag and version, such as `row/1`, from its fields.

    Raises `UnknownTypeError`.
    """
    function: Callable[..., Any] = getattr(_namespace, name)
    return function


def name_of(kind: type[Any]) -> str:
    """Return a name of a class that is independent of its module: its tag, if it has one.

    >>> from penstock.io.files.filesystem import FileMetadata
    >>> name_of(FileMetadata), name_of(int)
    ('penstock.stored:file-metadata', 'builtins:int')
    """
    tag = _tags.get(kind)
    return f"{kind.__module__}:{kind.__qualname__}" if tag is None else f"{NAMESPACE}:{tag}"


def full_name(name: str) -> str:
    """Return the present name of a class for a result of `name_of`.

    >>> full_name("penstock.stored:duration"), full_name("builtins:int")
    ('penstock.windowing.duration:Duration', 'builtins:int')
    """
    module, _, tag = name.partition(":")
    kinds = [kind for kind, own in _tags.items() if own == tag] if module == NAMESPACE else []
    return f"{kinds[0].__module__}:{kinds[0].__qualname__}" if kinds else name


def tags() -> dict[str, tuple[int, ...]]:
    """Return all tags with their readable versions."""
    _load_extensions()
    for module in _lazy.values():
        import_module(module)
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
