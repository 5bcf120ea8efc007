"""Pickler of users' objects: cloudpickle's, for all classes that have typed fields, and for Protobuf's generated code.

cloudpickle pickles a class that can't be imported by its dictionary.  The fields of a `msgspec.Struct` are not in it; a
dataclass that msgspec has decoded to has a cache there that can't be pickled; and the names in annotations that are
text don't exist in another process.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias, get_type_hints
from weakref import WeakSet

import cloudpickle

from . import protobuf_classes

# The name of a file that cloudpickle 3.1.3 and later give to all code.
_NO_FILE = "<dynamic-code>"

# A field's name, the arguments of `msgspec.field`, and whether it is given by name only.
_Field: TypeAlias = tuple[str, dict[str, Any], bool]


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, which pickles classes by value with their fields and the types of these.

    A `unittest.TestCase`, whose methods a matcher calls, is pickled without the state of its run.  Code keeps the name
    of its file, by which errors show its lines.  Generated code of Protobuf is pickled by its descriptors.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            make, arguments = self.dispatch_table[CodeType](obj)
            return make, tuple("".join(obj.co_filename) if each == _NO_FILE else each for each in arguments)
        if isinstance(obj, ModuleType):
            is_by_value = self.dispatch_table[ModuleType](obj)[0] is not cloudpickle.cloudpickle.subimport
            return protobuf_classes.reduced(obj, is_by_value) or NotImplemented
        unittest = sys.modules.get("unittest")
        if unittest is not None and isinstance(obj, unittest.TestCase):
            make, arguments, state, *others = obj.__reduce_ex__(5)
            return make, arguments, {name: value for name, value in state.items() if name != "_outcome"}, *others
        reduced = super().reducer_override(obj)
        if generated := protobuf_classes.reduced(obj, is_by_value=reduced is not NotImplemented):
            return generated
        if reduced is NotImplemented or not isinstance(obj, type) or len(reduced) < 3:
            return reduced
        make, arguments, (attributes, slots), *others, set_state = reduced
        attributes = {name: value for name, value in attributes.items() if name != "__msgspec_cache__"}
        annotations = _annotations(obj)
        if annotations:
            attributes["__annotations__"] = annotations
        if hasattr(obj, "__struct_config__"):
            attributes.pop("__slots__", None)
            _, name, bases, _, *tracked = arguments
            fields, settings = _fields(obj, annotations), _settings(obj)
            define = partial(_struct, obj.__module__, fields, settings, hasattr(obj, "__post_init__"))
            arguments = (define, name, bases, {}, *tracked)
        _pickled.add(obj)
        return make, arguments, (attributes, slots), *others, partial(_set_state, set_state)


# The classes that this process has pickled by value.
_pickled: WeakSet[type] = WeakSet()


def _set_state(set_state: Callable[[type, Any], type], cls: type, state: Any) -> type:
    """Set the attributes of a class.

    In the process that it comes from, its methods lose the names that are in annotations only; so types replace these.
    """
    types = {}
    for name, function in vars(cls).items() if cls in _pickled else ():
        if isinstance(function, FunctionType) and function.__annotations__:
            with suppress(Exception):  # annotations are any expressions
                types[name] = inspect.get_annotations(function, eval_str=True)
    set_state(cls, state)
    for name, hints in types.items():
        vars(cls)[name].__annotations__ = hints
    return cls


def pickled(obj: Any) -> bytes:
    """Return the pickle of an object; functions and classes that can't be imported are pickled by value.

    >>> import pickle
    >>> pickle.loads(pickled(lambda n: n + 1))(1)
    2
    """
    file = io.BytesIO()
    Pickler(file, protocol=5).dump(obj)
    return file.getvalue()


def _annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of a class, as types if they can be evaluated."""
    own = inspect.get_annotations(cls)
    try:
        hints = get_type_hints(cls, include_extras=True) if own else {}
    except Exception:  # annotations are any expressions
        return own
    return {name: hints[name] for name in own}


def _fields(struct: Any, names: dict[str, Any]) -> list[_Field]:
    """Return the fields of these names."""
    encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    fields = []
    for name, parameter in inspect.signature(struct).parameters.items():
        if name in names:
            arguments: dict[str, Any] = {"name": encoded[name]}
            if isinstance(parameter.default, _factory_class()):
                arguments["default_factory"] = parameter.default.factory
            elif parameter.default is not parameter.empty:
                arguments["default"] = parameter.default
            fields.append((name, arguments, parameter.kind is parameter.KEYWORD_ONLY))
    return fields


@lru_cache(maxsize=1)
def _factory_class() -> Any:
    """Return the class of the defaults that are made by a factory."""
    # Few pipelines pickle structs, and the import takes a tenth of the time of penstock's.
    from msgspec import defstruct, field

    return type(defstruct("_", [("_", list[int], field(default_factory=list))]).__struct_defaults__[0])


def _settings(struct: Any) -> dict[str, Any]:
    """Return the arguments of a struct's definition, except for those that have their defaults."""
    from msgspec import Struct

    config, default = struct.__struct_config__, Struct.__struct_config__
    names = [name for name in dir(config) if not name.startswith("_")]
    return {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}


def _struct(
    module: str,
    fields: list[_Field],
    settings: dict[str, Any],
    has_post_init: bool,
    name: str,
    bases: tuple[type, ...],
    namespace: dict[str, Any],
) -> Any:
    """Define a struct; its methods and the types of its fields follow."""
    import msgspec

    namespace |= {"__module__": module, "__annotations__": {field: Any for field, *_ in fields}}
    namespace |= {field: msgspec.field(**arguments) for field, arguments, _ in fields}
    if has_post_init:
        # The method is looked for at this moment.
        namespace["__post_init__"] = _post_init
    define: Any = type(msgspec.Struct)
    return define(name, bases, namespace, kw_only=any(by_name for *_, by_name in fields), **settings)


def _post_init(self: Any) -> None:
    type(self).__post_init__(self)
