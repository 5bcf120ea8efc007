"""Pickling of Protobuf's generated code by value: by the files that describe it.

A generated module beside a program can't be imported by a worker elsewhere, and neither its classes nor its descriptors
can be pickled attribute by attribute.  They consist of their file's descriptor, which is bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from ...frozen import frozen

# A function, and its arguments, that return the object in another process.
Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

# The files of Google's own, which each process has.
_GOOGLES = "google/protobuf/"

# By the class of a descriptor, the method of a pool that finds it by its name.
_FINDERS = {
    "Descriptor": "FindMessageTypeByName",
    "EnumDescriptor": "FindEnumTypeByName",
    "ServiceDescriptor": "FindServiceByName",
}


@frozen
class Files:
    """A file that describes messages, and those that it needs.

    Attributes:
      contents: of each file, those that another one needs before it.
      name: of the file itself.
      is_generated: whether generated code has put it into the process's own pool.
    """

    contents: tuple[bytes, ...]
    name: str
    is_generated: bool

    @classmethod
    def of(cls, file: Any) -> Files:
        """Return a file as data, with those that it needs."""
        found: dict[str, bytes] = {}

        def add(file: Any) -> None:
            for needed in file.dependencies:
                add(needed)
            found[file.name] = file.serialized_pb

        add(file)
        files = cls(tuple(found.values()), file.name, file.pool is _pools().Default())
        # The same object for all parts of a file: it is written once into a pickle.
        files = _known.setdefault(files, files)
        _known_pools[files] = file.pool
        return files

    def file(self) -> Any:
        """Return the file, with the classes that this process has of it if its content is the same here."""
        if self not in _known_pools:
            pool = _pools().Default()
            if not (self.is_generated and self._added(pool)):
                pool = _pools().DescriptorPool()
                self._added(pool)
            _known_pools[self] = pool
        return _known_pools[self].FindFileByName(self.name)

    def _added(self, pool: Any) -> bool:
        """Add the files to a pool, and return True; False if the pool has others of their names."""
        parse = import_module("google.protobuf.descriptor_pb2").FileDescriptorProto.FromString
        for content in self.contents:
            name = parse(content).name
            if pool is _pools().Default() and name.startswith(_GOOGLES):
                with suppress(ImportError):
                    import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            with suppress(KeyError):
                if pool.FindFileByName(name).serialized_pb != content and not name.startswith(_GOOGLES):
                    return False
                continue
            try:
                pool.AddSerializedFile(content)
            except TypeError:
                # Another file has messages of the same names.
                return False
        return True


# Files that were pickled here; and the pools of those that were pickled or unpickled here: a class that comes back is
# the same class.
_known: dict[Files, Files] = {}
_known_pools: dict[Files, Any] = {}


def reduced(obj: Any, is_by_value: bool) -> Reduced | None:
    """Return how a part of generated code is pickled; None for anything else.

    Args:
      is_by_value: whether a module, or a class, can't be imported in another process.
    """
    if "google.protobuf.descriptor" not in sys.modules:
        return None
    if isinstance(obj, ModuleType):
        file = getattr(obj, "DESCRIPTOR", None) if is_by_value else None
        return (_module, (Files.of(file), obj.__name__)) if _is_descriptor(file, "FileDescriptor") else None
    if isinstance(obj, type):
        message: Any = getattr(obj, "DESCRIPTOR", None) if is_by_value and hasattr(obj, "FromString") else None
        if not _is_descriptor(message, "Descriptor"):
            return None
        return _message_class, (Files.of(message.file), message.full_name)
    if not type(obj).__name__.endswith("Descriptor"):
        return None
    if _is_descriptor(obj, "FileDescriptor"):
        return Files.file, (Files.of(obj),)
    for kind, finder in _FINDERS.items():
        if _is_descriptor(obj, kind):
            return _found, (Files.of(obj.file), finder, obj.full_name)
    if _is_descriptor(obj, "FieldDescriptor"):
        finder = "FindExtensionByName" if obj.is_extension else "FindFieldByName"
        return _found, (Files.of(obj.file), finder, obj.full_name)
    return None


def _is_descriptor(obj: Any, kind: str) -> bool:
    return isinstance(obj, getattr(sys.modules["google.protobuf.descriptor"], kind))


def _pools() -> Any:
    return import_module("google.protobuf.descriptor_pool")


def _found(files: Files, finder: str, name: str) -> Any:
    files.file()
    return getattr(_known_pools[files], finder)(name)


def _message_class(files: Files, name: str) -> Any:
    return import_module("google.protobuf.message_factory").GetMessageClass(
        _found(files, "FindMessageTypeByName", name)
    )


@lru_cache(maxsize=256)
def _module(files: Files, name: str) -> ModuleType:
    """Return a module as generated code makes it."""
    builder = import_module("google.protobuf.internal.builder")
    module, file = ModuleType(name), files.file()
    vars(module)["DESCRIPTOR"] = file
    builder.BuildMessageAndEnumDescriptors(file, vars(module))
    builder.BuildTopDescriptorsAndMessages(file, name, vars(module))
    return module
