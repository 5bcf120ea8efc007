"""Pickles read as plain data: no code of users runs, and no class of theirs is imported.

Values of Python's own data types and of this package's stored types are restored.  An instance of any other class is a
`StoredObject`, with the name of the class and the data that it was pickled with.

>>> import pickle, pathlib
>>> found = loads_plain(pickle.dumps({"path": pathlib.PurePosixPath("a/b"), "n": 1}))
>>> found["n"], found["path"]
(1, StoredObject('pathlib.PurePosixPath', args=('a', 'b')))
"""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import fractions
import io
import pickle
import pkgutil
import uuid
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar

from ....persistence import NAMESPACE, UnknownTypeError, restorer
from ....sdk.errors import CheckpointMismatchError

# Stored types that are restored, whose restoring runs nothing but constructors of plain data.  Others are shown as
# `StoredObject`s: they load native libraries or make classes.
SAFE_TAGS = frozenset({
    "accumulation-mode", "accumulator-state", "bag-state", "coded-key", "duration", "file-metadata", "file-range",
    "global-window", "interval-window", "kafka-header", "kafka-partition", "kafka-range", "kafka-record",
    "multiset", "not-a-number", "not-itself", "nothing", "offset-range", "ordered-list-state", "pane-info",
    "pane-timing", "poll-result", "postgres-changes-offset", "postgres-table", "precise-timestamp", "ranked",
    "readable-file", "redis-stream-entry", "row", "row-change", "sharded-key", "side-input-change", "signed-inputs",
    "signed-windows", "split-partition", "state-change", "time-domain", "timestamp", "timestamp-combiner",
    "timestamped-value", "trigger-finished", "trigger-phase", "trigger-seen", "unbounded-part", "watched-growth",
    "windowed-value",
})  # fmt: skip

# Types and functions of Python that only make plain data.
_SAFE: dict[tuple[str, str], Any] = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "range"): range,
    ("builtins", "slice"): slice,
    ("collections", "deque"): collections.deque,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("datetime", "date"): datetime.date,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): decimal.Decimal,
}

# Types whose attributes a pickle could set; they are only called.
_CALLED: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "Counter"): collections.Counter,
    ("fractions", "Fraction"): fractions.Fraction,
}

# Functions of cloudpickle that make a class, of which they are given the name as second argument.
_CLASS_MAKERS = frozenset({"_make_skeleton_class", "_make_skeleton_enum"})

# The members of an enum are pickled as attributes of their class before Python 3.11.4.
_GETATTR = "builtins", "getattr"


class _Placeholder(type):
    """The type of placeholders of classes."""

    origin: tuple[str, str]


class StoredObject(metaclass=_Placeholder):
    """An instance of a class that was not imported.

    Attributes:
      type_name: the module and the name of the class.
      args, kwargs: the arguments that the instance is restored with.
      state: the state that it was pickled with; None if it has none.
      items: the items of a subclass of a container.
      is_attribute: True if it was pickled as an attribute of its class, whose name is the only argument.
    """

    # Of the subclass that is a placeholder of a class: its module and name.
    origin: ClassVar[tuple[str, str]] = ("", "")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(cls)
        made.args, made.kwargs = args, kwargs
        made.state, made.items, made.called, made.is_attribute = None, [], False, False
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        # Otherwise it is made by __new__ alone.
        self.called = True

    state: Any
    items: list[Any]
    is_attribute: bool

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class itself while it is pickled, so that `pickle` accepts it; before that, no class is imported."""
        return self.__dict__.get("own", type(self))

    @property
    def type_name(self) -> str:
        """The module and the name of the class."""
        return ".".join(self.origin)

    @property
    def fields(self) -> dict[str, Any]:
        """The attributes by name, as far as they were pickled by name."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            # Of a class with slots.
            return {**(state[0] or {}), **state[1]}
        return dict(state) if isinstance(state, dict) else dict(self.kwargs)

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "fields") if not name.startswith("__") else {}
        if name in fields:
            return fields[name]
        raise AttributeError(
            f"the stored {self.type_name} has no field {name!r}; it has: {', '.join(fields) or 'none'}"
        )

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, value: Any) -> None:
        """Accept an item, as subclasses of lists do."""
        self.items.append(value)

    def extend(self, values: Any) -> None:
        """Accept items, as subclasses of lists do."""
        self.items.extend(values)

    def add(self, value: Any) -> None:
        """Accept an item, as subclasses of sets do."""
        self.items.append(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what a function that was made by a call returns, such as a code object of cloudpickle's."""
        return type(self)(*args, **kwargs)

    def __repr__(self) -> str:
        parts = [repr(self.type_name)]
        parts += [f"args={self.args!r}"] if self.args else []
        parts += [f"fields={self.fields!r}"] if self.fields else []
        return f"StoredObject({', '.join(parts)})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as an instance of its own class.  Raises `CheckpointMismatchError` for a class that is missing."""
        module, name = self.origin
        try:
            own = attrgetter(name)(import_module(module))
        except (ImportError, AttributeError) as error:
            raise CheckpointMismatchError(
                f"the migration left an instance of {self.type_name} as it was, and there is no such class any more: "
                f"{error}. Return a value without it"
            ) from error
        # `pickle` compares it with the class that it writes.
        self.__dict__["own"] = own
        if self.is_attribute:
            return getattr, (own, *self.args)
        if self.kwargs:
            made = (copyreg.__newobj_ex__, (own, self.args, self.kwargs))  # type: ignore[attr-defined]
        else:
            made = (own, self.args) if self.called else (copyreg.__newobj__, (own, *self.args))  # type: ignore[attr-defined]
        pairs = bool(self.items) and isinstance(own, type) and issubclass(own, dict)
        return (*made, self.state, None if pairs else iter(self.items), iter(self.items) if pairs else None)


# A class among the arguments of a stored object, such as that of a defaultdict, is pickled by its own name.
copyreg.pickle(_Placeholder, lambda kind: (pkgutil.resolve_name, (":".join(kind.origin),)))


def class_named(origin: tuple[str, str]) -> type[StoredObject]:
    """Return the placeholder of a class."""
    return type(origin[1].rpartition(".")[2], (StoredObject,), {"origin": origin})


class _Call:
    """A callable without attributes that a pickle could set."""

    __slots__ = ("_function",)

    _function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError("a pickle sets an attribute of a function")


class PlainUnpickler(pickle.Unpickler):
    """Reads one pickle as plain data.

    Attributes:
      classes: the names of the classes that weren't imported.
    """

    def __init__(self, data: Any) -> None:
        super().__init__(io.BytesIO(data))
        self.classes: dict[str, type[StoredObject]] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the type of plain data, or a placeholder."""
        name = module_name, global_name
        if name in _SAFE:
            return _SAFE[name]
        if name in _CALLED:
            return _Call(_CALLED[name])
        if module_name == NAMESPACE and global_name.rpartition("/")[0] in SAFE_TAGS:
            try:
                return _Call(restorer(global_name))
            except UnknownTypeError:
                # Of a package that isn't installed, or of a later version.
                return self._placeholder(name)
        if module_name == "uuid" and global_name == "UUID":
            return _StoredUuid
        if global_name in _CLASS_MAKERS:
            return _Call(self._class_by_value)
        if name == _GETATTR:
            return _Call(self._attribute)
        return self._placeholder(name)

    def _class_by_value(self, _: Any, name: str, *others: Any) -> type[StoredObject]:
        return self._placeholder(("__main__", str(name)))

    def _attribute(self, *args: Any) -> StoredObject:
        if len(args) == 2 and isinstance(args[0], _Placeholder) and isinstance(args[1], str):
            member: StoredObject = args[0](args[1])
            member.is_attribute = True
            return member
        return self._placeholder(_GETATTR)(*args)

    def _placeholder(self, origin: tuple[str, str]) -> type[StoredObject]:
        name = ".".join(origin)
        if name not in self.classes:
            self.classes[name] = class_named(origin)
        return self.classes[name]


class _StoredUuid(uuid.UUID):
    """A UUID, whose own class has attributes that a pickle could set."""

    def __new__(cls, *args: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "int", int(state["int"]))
        object.__setattr__(self, "is_safe", uuid.SafeUUID.unknown)

    def __reduce__(self) -> Any:
        return uuid.UUID, (str(self),)


def loads_plain(data: Any) -> Any:
    """Return the plain data of a pickle; see `PlainUnpickler`.

    Raises errors of `pickle`, and any other error of bytes that are no pickle.
    """
    return PlainUnpickler(data).load()
