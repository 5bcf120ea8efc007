"""Unreadable snapshots: names the classes that have been removed or changed, and reads the other data.

Python's error names the class at best.  Here the pickle is read again with placeholders for classes: that tells which
step and state has the class, and lets state be dropped whose class is missing.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ....sdk.errors import CheckpointMismatchError
from ....sdk.user_code.error_text import text_of

# Reads a pickle.
Loads: TypeAlias = Callable[[Any], Any]

# A class by its module and name.
ClassName = tuple[str, str]

_DEEPEST = 8


class UnreadableData:
    """The data of a chunk as far as it can be read, with placeholders for instances of some classes.

    Args:
      decode: decodes the data with a function that reads pickles.

    Attributes:
      data: the data; None if none of it can be read.
      classes: the full names of the unreadable classes.
    """

    def __init__(self, decode: Callable[[Loads], Any]) -> None:
        self.classes: list[str] = []
        self.data: Any = None
        for replaced, found in _attempts(decode):
            self.classes = [".".join(name) for name in replaced]
            self.data = found
            return

    def records(self) -> tuple[list[Any], list[Any]]:
        """Return the readable records, and those with placeholders."""
        readable: list[Any] = []
        unreadable: list[Any] = []
        for record in self.data or ():
            (unreadable if _has_placeholder(record) else readable).append(record)
        return readable, unreadable


def cant_be_read(what: str, where: str, classes: list[str], error: BaseException) -> CheckpointMismatchError:
    """Return the error for unreadable data of a snapshot.

    Args:
      what: the step and its state, in words.
      where: the checkpoint, or the log.
    """
    named = f" (of {', '.join(classes)})" if classes else ""
    found = f"{type(error).__name__}: {text_of(error)}"
    return CheckpointMismatchError(
        f"{what}, as {where} has it, can't be read{named}: {found}. A class that is kept in "
        "state needs its module and name, and has to accept the attributes that were pickled: restore it under that "
        "name, with a __setstate__ if its attributes have changed. Or continue without that state: give it, or its "
        "step, another name, and start with --allow_dropped_state"
    )


def _attempts(decode: Callable[[Loads], Any]) -> Iterator[tuple[list[ClassName], Any]]:
    """Yield the data with placeholders for classes: for missing ones, for one more each, for all of users' classes."""
    missing: dict[ClassName, None] = {}
    users: dict[ClassName, None] = {}

    def seen(name: ClassName, is_missing: bool) -> bool:
        if is_missing:
            missing[name] = None
        elif _is_users(name[0]):
            users[name] = None
        return is_missing

    choices: list[Callable[[ClassName, bool], bool]] = [seen]
    while choices:
        choose = choices.pop(0)
        replaced: dict[ClassName, None] = {}

        def loads(
            data: Any,
            choose: Callable[[ClassName, bool], bool] = choose,
            replaced: dict[ClassName, None] = replaced,
        ) -> Any:
            return _PlaceholderUnpickler(io.BytesIO(data), choose, replaced).load()

        try:
            found = decode(loads)
        except Exception:  # any error of a class without a placeholder
            if choose is seen:
                for one in users:
                    choices.append(lambda name, is_missing, one=one: is_missing or name == one)  # type: ignore[misc]
                choices.append(lambda name, is_missing: is_missing or _is_users(name[0]))
            continue
        yield list(replaced), found


def _is_users(module: str) -> bool:
    top = module.partition(".")[0]
    return module == "__main__" or top not in {*sys.stdlib_module_names, __name__.partition(".")[0]}


class _Placeholder:
    """An instance of an unreadable class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Accept an item, as subclasses of lists do."""

    def extend(self, values: Any) -> None:
        """Accept items, as subclasses of lists do."""

    def add(self, value: Any) -> None:
        """Accept an item, as subclasses of sets do."""


class _PlaceholderUnpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, is_replaced: Callable[[ClassName, bool], bool], replaced: dict[ClassName, None]
    ) -> None:
        super().__init__(file)
        self._is_replaced = is_replaced
        self.replaced = replaced

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = None
        try:
            found = super().find_class(module_name, global_name)
        except Exception:  # any error of importing a user's module
            pass
        if not self._is_replaced((module_name, global_name), found is None):
            return found
        self.replaced[module_name, global_name] = None
        return type(global_name.rpartition(".")[2], (_Placeholder,), {})


def _has_placeholder(value: Any, depth: int = 0) -> bool:
    if isinstance(value, _Placeholder) or (isinstance(value, type) and issubclass(value, _Placeholder)):
        return True
    if depth > _DEEPEST or isinstance(value, (str, bytes, int, float)):
        return False
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    else:
        slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
        parts = [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]
    return any(_has_placeholder(part, depth + 1) for part in parts)
