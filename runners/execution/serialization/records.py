"""Records of this package's own files: a tag, a version and fields, as one MessagePack array.

Only the values of users in a record are pickled.  A type of record is identified by its tag.  When its fields change,
its version goes up, and the reader of the version before stays:

>>> POINT = RecordType("point", 2, {1: lambda x, y: (x, y, 0), 2: lambda x, y, z: (x, y, z)})
>>> import msgspec
>>> POINT.decode(POINT.encode(1, 2, 3), "a file"), POINT.decode(msgspec.msgpack.encode(["point", 1, 1, 2]), "a file")
((1, 2, 3), (1, 2, 0))

An unknown record is refused by name:

>>> POINT.decode(msgspec.msgpack.encode(["point", 3, 1, 2]), "kept/points")
Traceback (most recent call last):
penstock.sdk.errors.UnknownFormatError: kept/points: ...
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ....persistence import UnknownTypeError
from ....sdk.errors import CorruptSnapshotError, UnknownFormatError
from ....sdk.user_code.serialization import dumps
from .unpickling import cant_be_read

T = TypeVar("T")


@lru_cache(maxsize=1)
def _codec() -> tuple[Callable[[Any], bytes], Callable[[bytes], list[Any]]]:
    # A small pipeline has no records, and runs in a few times of what the import takes.
    from msgspec import msgpack

    return msgpack.Encoder().encode, msgpack.Decoder(list).decode


class RecordType(Generic[T]):
    """A type of record.

    Args:
      tag: its name in files, which never changes.
      version: the version that is written.
      readers: by version that can be read, returns the record of its fields.
    """

    def __init__(self, tag: str, version: int, readers: Mapping[int, Callable[..., T]]) -> None:
        self.tag = tag
        self.version = version
        self.readers = dict(readers)

    def encode(self, *fields: Any) -> bytes:
        """Return a record of the current version.

        Args:
          fields: numbers, strings, bytes, True, False, None, and lists, tuples and dictionaries of them.
        """
        encode, _ = _codec()
        return encode([self.tag, self.version, *fields])

    def decode(self, data: bytes, where: str) -> T:
        """Return the decoded record; see `decode_record`."""
        return decode_record(data, where, self)


def decode_record(data: bytes, where: str, *types: RecordType[T]) -> T:
    """Return the decoded record of one of several types.

    Args:
      where: the file, for errors.

    Raises `UnknownFormatError` for another tag or version, and `CorruptSnapshotError` for bytes that are no record.
    """
    _, decode = _codec()
    try:
        tag, version, *fields = decode(data)
    except ValueError:  # so are the errors of msgspec, and of what isn't UTF-8
        expected = " or ".join(repr(each.tag) for each in types)
        raise CorruptSnapshotError(where, f"the record {data[:32]!r}", f"a record {expected}") from None
    for each in types:
        if each.tag == tag and version in each.readers:
            return each.readers[version](*fields)
    known = {each.tag: sorted(each.readers) for each in types}
    raise unknown_format(where, "record", tag, version, known)


def unknown_format(
    where: str, what: str, tag: Any, version: Any, known: Mapping[str, Sequence[int]]
) -> UnknownFormatError:
    """Return the error for an unreadable tag, or version of a tag.

    Args:
      where: the file.
      what: the kind of tag, such as "record".
      known: by tag, the versions that can be read.
    """
    if tag in known:
        versions = known[tag]
        expected = f"{'version' if len(versions) == 1 else 'versions'} {' and '.join(map(str, versions))} of it"
    else:
        expected = f"one of {', '.join(map(repr, known))}" if known else "a tag that this version knows"
    return UnknownFormatError(
        f"{where}: found the {what} {tag!r}, version {version}; expected {expected}. Another version of penstock wrote "
        "this: continue with that version, or start from the beginning with another directory"
    )


def pickled(value: Any, label: str, advice: str) -> bytes:
    """Return a user's value as bytes.

    Args:
      label: the transform, for the `SerializationError` of a value that can't be pickled.
      advice: what to do about such a value.
    """
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        # A class or function that can't be imported by name.
        return dumps(value, label, advice=advice)


def unpickled(data: bytes, what: str, where: str) -> Any:
    """Return the value that `pickled` was given.

    Args:
      what: the value in words, for errors.
      where: the file.

    Raises `CheckpointMismatchError` for a class that can't be imported, and `UnknownFormatError` for an unknown stored
    type.
    """
    try:
        return pickle.loads(data)
    except UnknownTypeError as error:
        raise unknown_type(where, error) from error
    except Exception as error:  # any error of a class, or of its import
        raise cant_be_read(what, where, [], error) from error


def unknown_type(where: str, error: UnknownTypeError) -> UnknownFormatError:
    """Return the error for a value of an unreadable stored type."""
    known = {error.tag: error.known} if error.known else {}
    return unknown_format(where, "stored type", error.tag, error.version, known)
