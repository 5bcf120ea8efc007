"""Pickling what users wrote: functions, DoFns, combiners."""

from __future__ import annotations

import pickle
import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import cloudpickle

from .errors import SerializationError

T = TypeVar("T")


class Serialized(Generic[T]):
    """An object, and what it was pickled to when the pipeline was built.

    Workers, in this process or another, run what `load` returns: a copy of the object as
    it was then.  A pipeline so behaves the same on every runner.
    """

    __slots__ = ("data", "object")

    def __init__(self, obj: T, label: str) -> None:
        self.object = obj
        self.data = dumps(obj, label)

    def load(self) -> T:
        """A new copy; in another process, the one that came with it."""
        return cloudpickle.loads(self.data) if self.data else self.object

    def __repr__(self) -> str:
        return f"Serialized({self.object!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self.object))


def _restored(cls: type[Serialized[T]], obj: T) -> Serialized[T]:
    restored = cls.__new__(cls)
    restored.object = obj
    restored.data = b""
    return restored


def dumps(obj: Any, label: str) -> bytes:
    """The pickle of something that user code is part of.

    Raises `SerializationError`, naming the transform and what in it can't be pickled.
    """
    try:
        data: bytes = cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
        return data
    except Exception as error:
        culprit = _culprit(obj)
        raise SerializationError(
            f"{label}: {culprit} can't be pickled, and so can't be sent to a worker: {error}. "
            "Open files, locks and connections belong into DoFn.setup, not into __init__ or a closure."
        ) from error


def _culprit(obj: Any) -> str:
    """The attribute or closure variable to blame, as well as can be told."""
    parts: dict[str, Any] = {}
    parts.update({f"attribute {name!r}": value for name, value in getattr(obj, "__dict__", {}).items()})
    fn = getattr(obj, "fn", obj)
    code, closure = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    if code is not None and closure:
        for name, cell in zip(code.co_freevars, closure, strict=True):
            try:
                parts[f"variable {name!r} of {fn.__name__}"] = cell.cell_contents
            except ValueError:
                continue
    for where, value in parts.items():
        if value is fn and value is not obj:
            continue
        try:
            cloudpickle.dumps(value)
        except Exception:
            return f"{where} of {type(obj).__name__} ({type(value).__name__})"
    return f"{type(obj).__name__}"


def _installed_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages())
    paths.add(site.getusersitepackages())
    paths.update(str(root) for root in (Path(__file__).parent.parent, Path(__file__).resolve().parent.parent))
    return tuple(paths)


@contextmanager
def local_modules_by_value() -> Iterator[None]:
    """Within, functions and classes of modules that aren't installed are pickled by value.

    Another machine, or another process started elsewhere, has the installed packages but
    not the file beside the user's script.
    """
    roots = _installed_roots()
    registered: list[ModuleType] = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or file is None or module.__name__ != name:
            continue
        if not str(file).startswith(roots) and name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
