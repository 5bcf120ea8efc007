"""The record of the transactions that are committed to a table, kept in the table's database."""

from __future__ import annotations

from ...frozen import frozen
from ...sdk.transaction_series import pattern_of
from .changes import PREFIX, in_schema_of
from .database import SqlSession
from .dialect import MARK


@frozen
class CommittedTransactions:
    """The transactions that one transform has committed to one table, in `_penstock_transactions`.

    Of the transactions of a series only the last is kept: all before it count as committed.
    """

    session: SqlSession
    table: str
    transform: str

    def make_table(self) -> None:
        """Make the table, if it doesn't exist."""
        kind = self.session.dialect.name_type
        self.session.run(
            f"CREATE TABLE IF NOT EXISTS {self._noted} (transaction_id {kind} NOT NULL, "
            f"transform {kind} NOT NULL, table_name {kind} NOT NULL, "
            "committed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, "
            "PRIMARY KEY (transaction_id, transform, table_name))"
        )

    def __contains__(self, transaction: str) -> bool:
        of_this = f"transform = {MARK} AND table_name = {MARK} AND transaction_id"
        known = f"SELECT 1 FROM {self._noted} WHERE {of_this}"
        if self.session.run(f"{known} = {MARK}", (self.transform, self.table, transaction)):
            return True
        pattern = pattern_of(transaction)
        later = f"{known} > {MARK} AND transaction_id LIKE {MARK}"
        return pattern is not None and bool(self.session.run(later, (self.transform, self.table, transaction, pattern)))

    def add(self, transaction: str) -> None:
        """Record a transaction, in the database transaction that commits it."""
        columns = "transaction_id, transform, table_name"
        sql = f"INSERT INTO {self._noted} ({columns}) VALUES ({MARK}, {MARK}, {MARK})"
        self.session.run(sql, (transaction, self.transform, self.table))
        pattern = pattern_of(transaction)
        if pattern is not None:
            # All earlier transactions of the series count as committed.
            of_this = f"transform = {MARK} AND table_name = {MARK}"
            earlier = f"transaction_id < {MARK} AND transaction_id LIKE {MARK}"
            sql = f"DELETE FROM {self._noted} WHERE {of_this} AND {earlier}"
            self.session.run(sql, (self.transform, self.table, transaction, pattern))

    @property
    def _noted(self) -> str:
        return self.session.dialect.quoted(in_schema_of(self.table, f"{PREFIX}transactions"))
