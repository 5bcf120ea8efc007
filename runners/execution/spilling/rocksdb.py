"""Spilled entries on the local disk, in RocksDB.

An entry is bytes under an id.  It may have a time in each of several orders, such as its next timer, so that due
entries are found without anything in memory.

RocksDB has a temporary directory of its own.  It is no more durable than memory: it has no write-ahead log, and is
removed with its owner.  What checkpoints keep of it are links to its files.

>>> database = SpillDatabase()
>>> entries = SpilledEntries(database, 0)
>>> entries.put([(b"a", (30, None, None), b"of a"), (b"b", (20, None, None), b"of b")])
>>> entries.least(0), entries.least(1)
(20, None)
>>> entries.due(0, 25, 10)
[(b'b', b'of b')]
>>> entries.take([b"a", b"b"]), len(entries)
([b'of a', None], 0)
>>> database.close()
"""

from __future__ import annotations

import os
import secrets
import shutil
import struct
import tempfile
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.errors import SnapshotError, UntrustedSnapshotError, missing_extra
from ..serialization.trust import why_untrusted
from .watched_directories import watch, watch_no_more

if TYPE_CHECKING:
    pass

T = TypeVar("T")

# The orders: the next event-time timer, the next processing-time timer, and the watermark hold.
EVENT_TIME, PROCESSING_TIME, HELD = range(3)
Times = tuple[int | None, int | None, int | None]

_TIMES = struct.Struct(">3q")
_TIME = struct.Struct(">Q")
_ID = struct.Struct(">Q")
# No time; no timestamp is that early.
_NEVER = -(1 << 63)
_BIAS = 1 << 63
NO_TIMES: Times = (None, None, None)
_NO_TIMES = _TIMES.pack(_NEVER, _NEVER, _NEVER)

# The name of the directory of a database, in the temporary one.
_DATABASE = "database"

# The key of a note: behind those of all operators.
_NOTE = b"\xff"

# The number of entries that are read or written together.
PORTION = 1_000

# The bytes of RocksDB's block cache, and of its write buffers together, unless others are given.
_BUFFER = 8 << 20


def check_rocksdb(needed_for: str) -> None:
    """Raise `MissingExtraError` if RocksDB is missing."""
    try:
        import rocksdict  # noqa: F401
    except ImportError as error:
        raise missing_extra("rocksdict", "rocksdb", needed_for) from error


class SpillDatabase:
    """A RocksDB in a temporary directory that other users can't enter.

    It is removed when it is closed or collected, or when the process ends, in whatever way
    (`watched_directories.py`).

    Args:
      directory: the absolute path of the parent of the temporary directory, which is made if it is missing; by default
        that of other temporary files.
      buffer: the bytes of its block cache, and of its write buffers together.

    Attributes:
      id: distinguishes it from others.
      directory: as given.

    Raises `MissingExtraError` without the extra `rocksdb`, and `SnapshotError` for a parent that can't be made.
    """

    def __init__(self, directory: str | None = None, buffer: int = _BUFFER) -> None:
        check_rocksdb("Keeping state larger than memory")
        if directory is not None:
            try:
                os.makedirs(directory, mode=0o700, exist_ok=True)
            except OSError as error:
                raise SnapshotError(
                    f"State larger than memory can't be kept in {directory} (--state_dir): {error}"
                ) from error
        self.id = secrets.token_hex(8)
        self.directory = directory
        self._buffer = buffer
        self._removed: Callable[[], Any] | None = None
        # The open database, if there is one.
        self._databases: list[Any] = []
        # The number of links.
        self._number = 0

    @property
    def is_open(self) -> bool:
        """True if the database exists."""
        return "rocksdb" in self.__dict__

    @cached_property
    def rocksdb(self) -> Any:
        """Return the database, which is created when it is first needed."""
        database = _opened(f"{self._path}/{_DATABASE}", self._buffer)
        self._databases.append(database)
        return database

    def open(self, fetch: Callable[[str], Any]) -> bytes:
        """Open a database whose files `fetch` puts into a directory; return what was noted in it.

        It is called before another database is created.
        """
        assert not self.is_open
        path = f"{self._path}/{_DATABASE}"
        os.mkdir(path, 0o700)
        fetch(path)
        return noted_in(self.rocksdb)

    def remove_operator(self, number: int) -> None:
        """Remove all entries of an operator that is no longer in the pipeline."""
        self.rocksdb.delete_range(bytes([number]), bytes([number + 1]))

    def links(self, note: bytes) -> Links:
        """Return links to the files of the database as it is now, in which something is noted."""
        from rocksdict import Checkpoint

        self.rocksdb.put(_NOTE, note)
        self._number += 1
        path = f"{self._path}/links-{self._number}"
        # It writes what is in memory to a file before.
        Checkpoint(self.rocksdb).create_checkpoint(path)
        return Links(path)

    @cached_property
    def _path(self) -> str:
        """Return the temporary directory, which is made when it is first needed."""
        path = tempfile.mkdtemp(prefix="penstock-spilled-", dir=self.directory)
        if reason := why_untrusted(path):
            os.rmdir(path)
            raise UntrustedSnapshotError(
                f"State larger than memory can't be spilled to {path}, from where it is unpickled: {reason}. "
                "Expected a directory for temporary files (TMPDIR) in which other users can't replace it: chmod it (+t)"
            )
        watch(path)
        self._removed = weakref.finalize(self, _remove, self._databases, path)
        return path

    def close(self) -> None:
        """Remove the database; closing it again does nothing."""
        if self._removed is not None:
            self._removed()


class Links:
    """Links to the files of a database, in a directory that is removed with this object.

    Attributes:
      path: the directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


def opened_to_read(path: str) -> Any:
    """Return a database that isn't changed."""
    from rocksdict import AccessType, Options, Rdict

    return Rdict(path, Options(raw_mode=True), access_type=AccessType.read_only(False))


def noted_in(database: Any) -> bytes:
    """Return what was noted in a database when its files were linked."""
    note: bytes = database.get(_NOTE)
    return note


def _opened(path: str, buffer: int) -> Any:
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteOptions

    blocks = BlockBasedOptions()
    # Most lookups are for new keys, which it doesn't have.
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(Cache(buffer))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(buffer // 2)
    # They would be looked for among those in memory, which takes longer than in files.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_level_zero_file_num_compaction_trigger(8)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    database = Rdict(path, options)
    # This is a property, which its stub doesn't say.
    writing: Any = WriteOptions()
    writing.disable_wal = True
    database.set_write_options(writing)
    return database


def _remove(databases: list[Any], path: str) -> None:
    for database in databases:
        database.close()
    shutil.rmtree(path, ignore_errors=True)
    watch_no_more(path)


class SpilledEntries:
    """The entries of one operator.

    Args:
      database: the database, which other operators share.
      number: the operator's, at most 254.

    Attributes:
      number: the operator's.
    """

    def __init__(self, database: SpillDatabase, number: int) -> None:
        self._database = database
        self._name(number)
        self._count = 0
        # Of each order, a time and id before which there are no entries, and True if there is one at it.  Iterating
        # over deleted entries is slow in RocksDB, so it starts there.
        self._from: list[bytes | None] = [None, None, None]
        self._is_there = [False, False, False]

    def _name(self, number: int) -> None:
        self.number = number
        self._entry = bytes([number, 0])
        self._orders = [bytes([number, 1 + order]) for order in (EVENT_TIME, PROCESSING_TIME, HELD)]

    def adopt(self, number: int, count: int) -> None:
        """Be those that a database has, in which they had this number."""
        assert not self._count
        self._name(number)
        self._count = count
        self._from = [next(self._in_order(order, b""), None) for order in (EVENT_TIME, PROCESSING_TIME, HELD)]
        self._is_there = [first is not None for first in self._from]

    def __len__(self) -> int:
        return self._count

    def put(self, entries: Iterable[tuple[bytes, Times, bytes]]) -> None:
        """Add entries with new ids."""
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        # RocksDB adds neighbours faster.
        for id, times, data in sorted(entries, key=itemgetter(0)):
            self._count += 1
            if times is NO_TIMES:
                batch.put(self._entry + id, _NO_TIMES + data)
                continue
            batch.put(self._entry + id, _TIMES.pack(*(_NEVER if t is None else t for t in times)) + data)
            for order, time in enumerate(times):
                if time is not None:
                    at = _TIME.pack(time + _BIAS) + id
                    batch.put(self._orders[order] + at, b"")
                    before = self._from[order]
                    if before is None or at <= before:
                        self._from[order], self._is_there[order] = at, True
        self._database.rocksdb.write(batch)

    def take(self, ids: Sequence[bytes]) -> list[bytes | None]:
        """Remove entries; return their data, None for an id without entry."""
        from rocksdict import WriteBatch

        if not self._count:
            return [None] * len(ids)
        batch = WriteBatch(raw_mode=True)
        found: list[bytes | None] = []
        for id, value in zip(ids, self._database.rocksdb.get([self._entry + id for id in ids])):
            if value is None:
                found.append(None)
                continue
            self._count -= 1
            batch.delete(self._entry + id)
            found.append(value[_TIMES.size :])
            if value.startswith(_NO_TIMES):
                continue
            for order, time in enumerate(_TIMES.unpack_from(value)):
                if time != _NEVER:
                    at = _TIME.pack(time + _BIAS) + id
                    batch.delete(self._orders[order] + at)
                    if at == self._from[order]:
                        self._is_there[order] = False
        if batch.len():
            self._database.rocksdb.write(batch)
        return found

    def remove(self, prefixes: Iterable[bytes], count: int) -> None:
        """Remove entries by the beginnings of their ids, so many in all.

        Their times stay until `due` comes to them, and mean nothing.
        """
        self._count -= count
        for prefix in prefixes:
            begin = self._entry + prefix
            end = (int.from_bytes(begin, "big") + 1).to_bytes(len(begin), "big")
            self._database.rocksdb.delete_range(begin, end)

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the data of entries, which stay."""
        return [value[_TIMES.size :] for value in self._database.rocksdb.get([self._entry + id for id in ids])]

    def discard(self, ids: Sequence[bytes], times: Times) -> None:
        """Remove entries that are there, and all have these times."""
        from rocksdict import WriteBatch

        self._count -= len(ids)
        batch = WriteBatch(raw_mode=True)
        for id in ids:
            batch.delete(self._entry + id)
            for order, time in enumerate(times):
                if time is not None:
                    batch.delete(self._orders[order] + _TIME.pack(time + _BIAS) + id)
        self._database.rocksdb.write(batch)

    def ids(self, order: int) -> Iterator[bytes]:
        """Yield the ids of all entries that have a time, in the order of times."""
        for at in self._in_order(order, b""):
            yield at[_TIME.size :]

    def take_all(self, ids: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Remove entries in portions; yield the ids and data of those that exist."""
        for portion in portions_of(ids, PORTION):
            yield from ((id, data) for id, data in zip(portion, self.take(portion)) if data is not None)

    def by_group(self) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
        """Return an iterator over the entries of now in portions by key group, which is the first byte of an id.

        It may be asked for later, and in another thread.
        """
        if not self._count:
            return iter(())
        # An iterator of RocksDB shows what there is when it is made.
        return _by_group(_beginning(self._database.rocksdb.iter(), self._entry))

    def least(self, order: int) -> int | None:
        """Return the least time of an order; None if no entry has any."""
        if not self._count:
            return None
        first = self._from[order]
        if first is not None and not self._is_there[order]:
            first = self._from[order] = next(self._in_order(order, first), None)
            self._is_there[order] = True
        return None if first is None else _TIME.unpack_from(first)[0] - _BIAS

    def due(self, order: int, time: int, most: int) -> list[tuple[bytes, bytes]]:
        """Remove the first entries of an order, up to a time and at most so many; return their ids and data."""
        least, first = self.least(order), self._from[order]
        if most <= 0 or least is None or least > time:
            return []
        assert first is not None
        end = _TIME.pack(time + 1 + _BIAS)
        keys = list(takewhile(end.__gt__, islice(self._in_order(order, first), most)))
        ids = [at[_TIME.size :] for at in keys]
        found = self.take(ids)
        self._from[order], self._is_there[order] = keys[-1], False
        self._forget_times(order, [at for at, data in zip(keys, found) if data is None])
        return [(id, data) for id, data in zip(ids, found) if data is not None]

    def _forget_times(self, order: int, times: Sequence[bytes]) -> None:
        """Remove times that mean nothing any more."""
        from rocksdict import WriteBatch

        if times:
            batch = WriteBatch(raw_mode=True)
            for at in times:
                batch.delete(self._orders[order] + at)
            self._database.rocksdb.write(batch)

    def all(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield every entry whose id begins with `prefix`, in the order of ids."""
        for id, value in self._beginning(self._entry + prefix):
            yield prefix + id, value[_TIMES.size :]

    def _in_order(self, order: int, start: bytes) -> Iterator[bytes]:
        """Yield the times of an order, each followed by the entry's id."""
        for at, _ in self._beginning(self._orders[order], start):
            yield at

    def _beginning(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return _beginning(self._database.rocksdb.iter(), prefix, start) if self._count else iter(())


def _beginning(iterator: Any, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of an iterator of RocksDB that begin with a prefix, without it, and their values."""
    size = len(prefix)
    iterator.seek(prefix + start)
    while iterator.valid() and (key := iterator.key())[:size] == prefix:
        yield key[size:], iterator.value()
        iterator.next()


def _by_group(found: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
    for group, of_group in groupby(found, key=lambda entry: entry[0][0]):
        for entries in portions_of(of_group, PORTION):
            yield group, [(id, value[_TIMES.size :]) for id, value in entries]


def entries_of(
    database: Any, number: int, groups: Container[int]
) -> Iterator[tuple[int, list[tuple[bytes, Times, bytes]]]]:
    """Yield the entries of an operator of a database in portions by key group: their ids, times and data.

    Args:
      groups: the key groups to read.
    """
    iterator, prefix = database.iter(), bytes([number, 0])
    for group in filter(groups.__contains__, range(KEY_GROUPS)):
        first = bytes([group])
        found = ((first + id, value) for id, value in _beginning(iterator, prefix + first))
        for portion in portions_of(found, PORTION):
            yield group, [(id, _times_in(value), value[_TIMES.size :]) for id, value in portion]


def _times_in(value: bytes) -> Times:
    event_time, processing_time, held = (None if t == _NEVER else t for t in _TIMES.unpack_from(value))
    return event_time, processing_time, held


class SpilledIds:
    """A set of whole numbers on disk, from 0 to 2**64 - 1.

    >>> database = SpillDatabase()
    >>> ids = SpilledIds(database)
    >>> ids.add([3, 5, 260])
    >>> ids.drop_below(4)
    >>> 3 in ids, 5 in ids, list(ids.all_from(5))
    (False, True, [5, 260])
    >>> database.close()
    """

    def __init__(self, database: SpillDatabase) -> None:
        self._database = database

    def add(self, ids: Iterable[int]) -> None:
        """Add ids."""
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for id in ids:
            batch.put(_ID.pack(id), b"")
        self._database.rocksdb.write(batch)

    def __contains__(self, id: int) -> bool:
        return _ID.pack(id) in self._database.rocksdb

    def drop_below(self, id: int) -> None:
        """Remove the ids below."""
        self._database.rocksdb.delete_range(_ID.pack(0), _ID.pack(id))

    def all_from(self, id: int) -> Iterator[int]:
        """Yield the ids from this one on, in their order."""
        for key in self._database.rocksdb.keys(from_key=_ID.pack(id)):
            yield _ID.unpack(key)[0]


def portions_of(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` things, the last of which may be shorter.

    >>> list(portions_of("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(things)
    while portion := list(islice(remaining, size)):
        yield portion
