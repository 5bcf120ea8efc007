"""LakehouseSink: rows of a table, committed exactly once.

1. Each worker writes data files into a directory of the transaction (`staging`): no reader knows them.
2. A commit adds the files of all workers to the table at once, together with the commit's name (`commits`).  A commit
   that finds its name in the table has nothing to do.  If another writer was first, the table is loaded again.

With a key, workers stage signed rows, and the commit applies their net effect (`net_rows`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from ...sdk.elements.bundle import Bundle
from ...sdk.errors import PenstockError, SinkError
from ...sdk.redaction import redacted, redacted_cause
from ...sdk.sink import SinkContext, SinkSpec, SinkWriter
from ...sdk.user_code.error_text import text_or_class
from ..connections.retry import FuzzedExponentialIntervals
from ..connections.waiting import patiently
from ..files.filesystem import filesystem_for, join_path
from ..sinks.opened_sink import OpenedSink
from .changes import with_signs
from .commits import CommitName
from .net_rows import NetRows, net_rows
from .rows import ColumnsOf
from .staging import Buffer, Staged, joined, stream_of, table_of, tables_of, token_of
from .table import ConflictError, DataFiles, LakehouseTable, LoadedTable

T = TypeVar("T")

# The name of the file with what workers need of the table.
_PREPARED = "prepared"

# The size of signed rows in memory, in bytes, for which a worker writes a file.
_STAGED_BYTES = 16 << 20

# How often a commit is tried again that other writers were faster than.
_ATTEMPTS = 100

_RETRACTIONS_ADVICE = "give key='...', the columns that identify a row, for rows that are replaced and deleted"


class LakehouseSink(OpenedSink[LakehouseTable]):
    """Rows of a table of a lakehouse.

    Args:
      table: the table.
      schema: the `pyarrow.Schema` of the elements; None for that of the table.
      key: the columns that identify a row; none for a table that is only appended to.
      partition_by: of a table that is created, its partitions.
      create: whether a missing table is created.
      merge_schema: whether columns are added that the table doesn't have.
      target_file_size: the bytes of rows in memory for which a worker writes a file.
    """

    def __init__(
        self,
        table: LakehouseTable,
        schema: Any = None,
        key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        create: bool = True,
        merge_schema: bool = False,
        target_file_size: int = 64 << 20,
    ) -> None:
        super().__init__()
        self.table = table
        self.schema = schema
        self.key = tuple(key)
        self.partition_by = tuple(partition_by)
        self.create = create
        self.merge_schema = merge_schema
        self.target_file_size = target_file_size
        self.retracting = False
        self.spec = SinkSpec(bool(key), _RETRACTIONS_ADVICE, takes_columns=True)
        # Of the last transaction, the data files that its workers write, and its net effect.
        self._data_files: tuple[CommitName, DataFiles] | None = None
        self._net: tuple[CommitName, NetRows] | None = None

    def target(self) -> str:
        return self.table.name

    def open_for(self, label: str) -> LakehouseTable:
        return self.table.labelled(label)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"table": self.table.name, "key": ", ".join(self.key)}

    def __getstate__(self) -> dict[str, Any]:
        # With what the tables have looked up in a catalog, so that workers need none.
        return self.__dict__ | {"_opened": dict(self._opened), "_data_files": None, "_net": None}

    # Two phases

    def prepare(self, context: SinkContext) -> None:
        def prepare() -> None:
            table = self.opened(context)
            prepared = table.prepare(self.schema, self.partition_by, self.key, self.create, self.merge_schema)
            directory = self.staging_directory(context)
            fs = filesystem_for(directory)
            fs.mkdirs(directory)
            with fs.create(join_path(directory, _PREPARED)) as file:
                file.write(prepared)

        self.reached(context, "can't be written to", prepare)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _Writer(self, context)

    def precommit(self, staged: Mapping[SinkContext, Sequence[bytes]]) -> None:
        for context, data in staged.items():
            tokens = [token_of(each) for each in data]
            if self.key and any(token.rows for token in tokens):
                self.reached(context, "can't be committed to", partial(self._net_of, context, tokens))

    def commit(self, context: SinkContext, staged: Sequence[bytes]) -> None:
        tokens = [token for token in map(token_of, staged) if token.rows]
        kept: list[str] = []
        if tokens:
            what = f"transaction {context.transaction!r} can't be published"
            kept = self.reached(context, what, lambda: self._commit_unless_done(context, tokens))
        self.reached(context, "can't be cleaned up", lambda: self._clean_up(context, kept))
        self._net = None

    def abort(self, context: SinkContext) -> None:
        """Remove what was staged, unless the transaction is committed: then the files are the table's."""

        def abort() -> None:
            if not _has(self.opened(context).load(), name_of(context)):
                self._clean_up(context, [])

        self.reached(context, "can't be cleaned up", abort)

    def _commit_unless_done(self, context: SinkContext, tokens: Sequence[Staged]) -> list[str]:
        """Publish staged rows, and return the paths of its files.

        Another process that commits the same at the same time may be done first, and remove the files of this one.
        """
        try:
            return self._commit(context, tokens)
        except OSError:
            if _has(self.opened(context).load(), name_of(context)):
                return ["*"]
            raise

    def _commit(self, context: SinkContext, tokens: Sequence[Staged]) -> list[str]:
        """Publish staged rows, unless that was done before, and return the paths of its files."""
        table, commit = self.opened(context), name_of(context)
        loaded = table.load()
        files = [file for token in tokens for file in token.files]
        if _has(loaded, commit):
            # The rest was written to files whose names this process doesn't know.
            return ["*"]
        if self.key:
            net = self._net_of(context, tokens)
            if not net.is_empty:
                self._changed(table, loaded, lambda to: to.change(net, commit), commit)
            return []
        rests = [token.rest for token in tokens if token.rest]
        if rests:
            data = joined(rests, loaded.data_files.schema)
            files += loaded.data_files.write(data, table.data_directory(commit), f"joined-{_token()}")
        kept = ["*"]

        def append(to: LoadedTable) -> None:
            kept[:] = to.append(files, commit)

        self._changed(table, loaded, append, commit)
        return kept

    def _changed(
        self, table: LakehouseTable, loaded: LoadedTable, change: Callable[[LoadedTable], None], commit: CommitName
    ) -> None:
        """Change the last version of the table, unless another process has committed the same."""
        delays = iter(FuzzedExponentialIntervals(0.02, _ATTEMPTS, factor=1.5, max_delay_secs=2.0))
        while True:
            try:
                change(loaded)
                loaded.after_commit()
                return
            except ConflictError as error:
                delay = next(delays, None)
                if delay is None:
                    raise SinkError(
                        f"{table.label}: table {table.name}: other writers were faster {_ATTEMPTS} times; the "
                        f"last conflict: {text_or_class(error)}"
                    ) from error
                time.sleep(delay)
            loaded = table.load()
            if _has(loaded, commit):
                return

    def _net_of(self, context: SinkContext, tokens: Sequence[Staged]) -> NetRows:
        """Return the net effect of a transaction's rows."""
        name = name_of(context)
        if self._net is None or self._net[0] != name:
            net = net_rows(_staged(tokens), self.key, self.retracting, context.label, self.table.name)
            self._net = name, net
        return self._net[1]

    # Staged files

    def staging_directory(self, context: SinkContext) -> str:
        """Return the directory of what workers stage besides data files.  Readers of the table ignore it."""
        return join_path(self.opened(context).location(), f"_{name_of(context).directory}")

    def data_files(self, context: SinkContext) -> DataFiles:
        """Return the data files that the workers of a transaction write."""
        name = name_of(context)
        if self._data_files is None or self._data_files[0] != name:
            path = join_path(self.staging_directory(context), _PREPARED)
            with filesystem_for(path).open(path) as file:
                self._data_files = name, self.opened(context).data_files(file.read())
        return self._data_files[1]

    def _clean_up(self, context: SinkContext, kept: Sequence[str]) -> None:
        """Remove staged files except these."""
        directory = self.staging_directory(context)
        fs = filesystem_for(directory)
        fs.delete(directory)
        if self.key or "*" in kept:
            return
        directory = self.opened(context).data_directory(name_of(context))
        if not kept:
            fs.delete(directory)
            return
        names = {path.rpartition("/")[2] for path in kept}
        for name in fs.list_files(directory):
            if name not in names:
                fs.delete(join_path(directory, name))

    def reached(self, context: SinkContext, what: str, call: Callable[[], T]) -> T:
        """Return the result of a call; wait for a store that doesn't answer.  Other errors become `SinkError`s."""
        try:
            return patiently(context.label, self.table.name, call)
        except PenstockError:
            raise
        except Exception as error:
            found = redacted(text_or_class(error))
            raise SinkError(f"{context.label}: table {self.table.name} {what}: {found}") from redacted_cause(error)


def _staged(tokens: Sequence[Staged]) -> Iterator[Any]:
    """Yield the signed rows of tokens."""
    for token in tokens:
        if token.rest:
            yield table_of(token.rest)
        for path in token.files:
            with filesystem_for(path).open(path) as file:
                yield from tables_of(file)


class _Writer(SinkWriter[Any]):
    """Stages the rows of one worker."""

    def __init__(self, sink: LakehouseSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._table = sink.opened(context)
        self._directory = sink.staging_directory(context) if sink.key else self._table.data_directory(name_of(context))
        self._unit = f"{quote(context.unit, safe='')}-{_token()}"
        self._numbers = 0
        size = min(sink.target_file_size, _STAGED_BYTES) if sink.key else sink.target_file_size
        self._buffer = Buffer(size, self._write_file)

    def write(self, bundle: Bundle) -> None:
        if not self._sink.key and bundle.signs != 1:
            signs = bundle.signs if isinstance(bundle.signs, list) else [bundle.signs]
            if -1 in signs:
                raise SinkError(
                    f"{self._context.label}: table {self._table.name} is only appended to, and got a retraction; "
                    "give a key"
                )
        rows = self._sink.reached(self._context, "can't be written to", lambda: self._rows(bundle))
        for name in self._sink.key:
            if rows.column(name).null_count:
                raise SinkError(
                    f"{self._context.label}: column {name!r} is part of the key of table {self._table.name} and "
                    "can't be None"
                )
        self._buffer.add(with_signs(rows, bundle) if self._sink.key else rows)

    def stage(self) -> bytes:
        return self._sink.reached(self._context, "can't be written to", self._buffer.token)

    def discard(self) -> None:
        fs = filesystem_for(self._directory)
        for name in fs.list_files(self._directory):
            if name.startswith(self._unit):
                fs.delete(join_path(self._directory, name))

    def _rows(self, bundle: Bundle) -> Any:
        schema = self._sink.data_files(self._context).schema
        return ColumnsOf(self._context.label, self._table.name, schema).of(bundle)

    def _write_file(self, rows: Any) -> list[Any]:
        name = f"{self._unit}-{self._numbers}"
        self._numbers += 1
        if not self._sink.key:
            return self._sink.data_files(self._context).write(rows, self._directory, name)
        path = join_path(self._directory, name)
        fs = filesystem_for(path)
        fs.mkdirs(self._directory)
        with fs.create(path) as file:
            file.write(stream_of(rows))
        fs.sync(path)
        fs.sync_directory(self._directory)
        return [path]


def name_of(context: SinkContext) -> CommitName:
    """Return the name of the commit of a transaction."""
    return CommitName.of(context.transaction, context.label)


def _has(loaded: LoadedTable, commit: CommitName) -> bool:
    last = loaded.committed(commit.writer)
    return last is not None and last >= commit.number


def _token() -> str:
    return f"{random.SystemRandom().getrandbits(48):012x}"
