"""Pickling of users' functions, DoFns and combiners."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar

import attrs
import cloudpickle

from ..errors import OptionsError, SerializationError
from ..names.foreign_programs import by_value
from .error_text import text_or_class
from .pickler import pickled
from .signatures import is_bare

T = TypeVar("T")


class Serialized(Generic[T]):
    """A user's object, of which each worker of a run gets a copy.

    It is pickled once for each run, at its start (`frozen`): the copies have changes made before the run, and none of
    those made during the run.  Workers, in this process or another, run the object that `load` returns.  So a pipeline
    behaves the same on every runner.

    Raises `SerializationError`, naming the transform, at once if the object can't be pickled.
    """

    __slots__ = ("_data", "label", "object")

    def __init__(self, obj: T, label: str) -> None:
        self.object = obj
        self.label = label
        # None until it is frozen.  Empty in another process, which has a copy.
        self._data: bytes | None = None
        if _plain_copy(obj) is _NOT_PLAIN:
            dumps(obj, label)

    def frozen(self) -> Serialized[T]:
        """Return it for a run: `load` returns copies of the object's present state.

        Raises `SerializationError` if the object can't be pickled any more.
        """
        if self._data is not None:
            return self
        copy = _plain_copy(self.object)
        if copy is not _NOT_PLAIN:
            return _restored(copy, self.label, None)
        return _restored(self.object, self.label, dumps(self.object, self.label))

    def load(self) -> T:
        """Return a new copy, or, in another process, the copy that was sent."""
        if self._data == b"":
            return self.object
        copy: T = _plain_copy(self.object) if self._data is None else cloudpickle.loads(self._data)
        if copy is _NOT_PLAIN:
            copy = cloudpickle.loads(dumps(self.object, self.label))
        return copy

    @classmethod
    def loaded(cls, obj: T, label: str) -> Serialized[T]:
        """Return one that holds a worker's own copy: `load` returns the object itself."""
        return _restored(obj, label)

    def __repr__(self) -> str:
        return f"Serialized({self.object!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The object instead of the bytes: for a remote process, modules beside the program are pickled by value.
        return _restored, (self.object if self._data is None else self.load(), self.label)


_SIMPLE = (str, int, float, bool, bytes, type(None))

# Result of `_plain_copy` for other objects.
_NOT_PLAIN: Any = object()


def _plain_copy(obj: Any) -> Any:
    """Return a copy of an object of penstock whose functions have no references, or `_NOT_PLAIN`.

    Such an object can be pickled, and copying it costs a tenth of pickling; a long pipeline has mostly such objects.
    Functions and constants, which can't change, are shared with the copy.
    """
    kind: Any = type(obj)
    if kind in _SIMPLE:
        return obj
    if kind is tuple:
        parts = [_plain_copy(part) for part in obj]
        return _NOT_PLAIN if any(part is _NOT_PLAIN for part in parts) else tuple(parts)
    if kind is dict:
        return _NOT_PLAIN if obj else {}
    if kind is FunctionType:
        is_plain = not obj.__closure__ and is_bare(obj) and _refers_to_nothing(obj.__code__, obj.__globals__)
        return obj if is_plain else _NOT_PLAIN
    if not _is_copied_by_attributes(kind):
        return _NOT_PLAIN
    copy = kind.__new__(kind)
    for name in [field.name for field in attrs.fields(kind)] if attrs.has(kind) else vars(obj):
        part = _plain_copy(getattr(obj, name))
        if part is _NOT_PLAIN:
            return _NOT_PLAIN
        object.__setattr__(copy, name, part)
    return copy


# With the point behind it.
_SDK = f"{__package__.rpartition('.')[0]}."


@lru_cache(maxsize=64)
def _is_copied_by_attributes(kind: type) -> bool:
    """Return whether a class is of the SDK and doesn't customize pickling."""
    if not kind.__module__.startswith(_SDK):
        return False
    says = {"__reduce__", "__reduce_ex__"}
    if not attrs.has(kind):
        says |= {"__getstate__", "__setstate__", "__slots__"}
    # `Generic` has no state.
    return not any(says & vars(base).keys() for base in kind.__mro__[:-1] if base is not Generic)


def _refers_to_nothing(code: CodeType, variables: dict[str, Any]) -> bool:
    if any(name in variables for name in code.co_names):
        return False
    return all(_refers_to_nothing(c, variables) for c in code.co_consts if isinstance(c, CodeType))


def _restored(obj: T, label: str, data: bytes | None = b"") -> Serialized[T]:
    restored: Serialized[T] = Serialized.__new__(Serialized)
    restored.object = obj
    restored.label = label
    restored._data = data
    return restored


_ADVICE = "Open files, locks and connections belong into DoFn.setup, not into __init__ or a closure."


def dumps(obj: Any, label: str = "", advice: str = _ADVICE) -> bytes:
    """Return the pickle of an object that contains user code.

    Raises `SerializationError`, which names the transform, if known, and the part that can't be pickled.
    """
    try:
        return pickled(obj)
    except Exception as error:
        subject = f"{label}: {_culprit(obj)}" if label else _culprit(obj)
        raise SerializationError(
            f"{subject} can't be pickled, and so can't be sent to a worker: {text_or_class(error)}. {advice}"
        ) from error


def _culprit(obj: Any, depth: int = 5) -> str:
    """Return the description of the attribute, variable or argument that can't be pickled, if it is found."""
    for where, value in _parts(obj):
        if not _can_be_pickled(value):
            # The cause is in the variables of a function.  Functions may refer to each other.
            is_to_blame = where and not isinstance(value, FunctionType)
            return f"{where} ({type(value).__name__})" if is_to_blame or not depth else _culprit(value, depth - 1)
    return type(obj).__name__


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object with their descriptions; "" if the part describes itself."""
    if isinstance(obj, (tuple, list)):
        yield from (("", part) for part in obj)
    elif isinstance(obj, dict):
        yield from ((f"item {name!r}", value) for name, value in obj.items())
    elif isinstance(obj, FunctionType):
        yield from _variables(obj)
    else:
        kind = type(obj)
        for name, value in getattr(obj, "__dict__", {}).items():
            yield f"attribute {name!r} of {kind.__name__}", value
        for method in vars(kind).values():
            if isinstance(method, FunctionType):
                yield from _variables(method)


def _variables(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        # Skips an empty cell, and the function itself.
        with suppress(ValueError):
            if cell.cell_contents is not fn:
                yield f"variable {name!r} of {fn.__name__}", cell.cell_contents
    for name in fn.__code__.co_names:
        if name in fn.__globals__:
            yield f"global variable {name!r} of {fn.__name__}", fn.__globals__[name]


def _can_be_pickled(value: Any) -> bool:
    try:
        pickled(value)
    except Exception:  # pickle raises errors of any class
        return False
    return True


_PACKAGE = __name__.partition(".")[0]


def _installed_roots() -> tuple[str, ...]:
    found = sysconfig.get_paths()
    paths = {found[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages())
    paths.add(site.getusersitepackages())
    return tuple(paths)


# Executors have these by Spark, wherever it is installed.
_OF_SPARK = frozenset({"pyspark", "py4j"})

# The names of folders of installed packages, which may be in a folder of the program's, as a virtual environment is.
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


def _program_roots() -> tuple[str, ...]:
    """Return the folders of the program: its own, and the working directory."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [os.path.dirname(os.path.abspath(main))] if main else []
    with suppress(FileNotFoundError):
        folders += [os.getcwd(), os.path.abspath(sys.path[0])]
    folders += map(os.path.realpath, folders[:])
    return tuple({os.path.join(folder, "") for folder in folders})


@lru_cache(maxsize=256)
def _has_distributions(folder: str) -> bool:
    """Return True for a folder that packages were installed into, such as by `pip install --target`."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def _is_installed(name: str, file: str, roots: tuple[str, ...]) -> bool:
    """Return True for a module that was installed, and so can be imported where its package is installed, too."""
    if (
        file.startswith(roots)
        or name.partition(".")[0] in _OF_SPARK
        or not _PACKAGE_FOLDERS.isdisjoint(file.split(os.sep))
    ):
        return True
    return _has_distributions(_folder_of(name, file))


def _folder_of(name: str, file: str) -> str:
    """Return the folder that a module was found in; that of a package is a part of its path."""
    folder = os.path.dirname(file)
    for _ in range(name.count(".") + file.endswith(f"{os.sep}__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _is_in(roots: tuple[str, ...], name: str, file: str) -> bool:
    """Return True for a module in one of these folders; below the root of the file system are all modules."""
    folders = tuple(root for root in roots if os.path.dirname(root) != root)
    return file.startswith(folders) or (len(folders) < len(roots) and _folder_of(name, file) in roots)


# Asked of every module for each job of Spark.  The folders of the program have the working directory, on which the
# absolute path depends.
@lru_cache(maxsize=16_384)
def _is_own(name: str, file: str, own: tuple[str, ...], installed: tuple[str, ...]) -> bool:
    """Return True for a module in a folder of the program that wasn't installed there."""
    path = os.path.abspath(file)
    return _is_in(own, name, path) and not _is_installed(name, path, installed)


# What `_local_modules` has found, and for what: micro-batches ask several times each, of thousands of modules.
_found: tuple[tuple[Any, ...], list[ModuleType]] = ((), [])

# Held while the modules that go by value change; those of all blocks of `local_modules_by_value`, and their number.
_lock = threading.Lock()
_registered: list[ModuleType] = []
_blocks = 0


def _local_modules() -> list[ModuleType]:
    """Return the modules that go by value, except those that do anyway."""
    global _found
    known = cloudpickle.list_registry_pickle_by_value()
    of = tuple(sys.modules), tuple(sys.modules.values()), _program_roots(), _installed_roots(), tuple(by_value), known
    if _found[0] == of:
        return _found[1]
    *_, own, installed, foreign, _ = of
    modules = []
    for name, module in zip(of[0], of[1]):
        file = getattr(module, "__file__", None)
        # In a checkout, penstock's modules aren't in site-packages either.
        is_ours = name == _PACKAGE or name.startswith(_PACKAGE + ".")
        if name in known or name == "__main__" or file is None or module.__name__ != name or is_ours:
            continue
        if _is_own(name, file, own, installed) or any(goes(module) for goes in foreign):
            modules.append(module)
    _found = of, modules
    return modules


@contextmanager
def local_modules_by_value() -> Iterator[None]:
    """Pickle functions and classes of the program's own modules by value, within the block.

    These are the modules beside the program and under the working directory, which another machine, or a process
    started in another directory, doesn't have, and those of another SDK that run on penstock.  Installed packages are
    imported there.  Several threads may be in blocks at the same time.
    """
    global _blocks
    with _lock:
        _blocks += 1
        for module in _local_modules():
            cloudpickle.register_pickle_by_value(module)
            _registered.append(module)
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            while _registered and not _blocks:
                cloudpickle.unregister_pickle_by_value(_registered.pop())


def pickle_by_value(names: Iterable[str]) -> None:
    """Pickle functions and classes of these modules and packages by value, from now on.

    Raises `OptionsError` for one that can't be imported.
    """
    for name in names:
        try:
            cloudpickle.register_pickle_by_value(importlib.import_module(name))
        except ImportError as error:
            raise OptionsError(
                f"--pickle_by_value: expected names of modules or packages, separated by commas; {name!r} can't be "
                f"imported: {text_or_class(error)}"
            ) from error
