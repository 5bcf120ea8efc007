"""CommitName: the name by which a table knows a commit, so that a repeated one changes nothing.

A table keeps, of each writer, the number of its last commit: Delta in application transactions, Iceberg in the
properties of snapshots.
"""

from __future__ import annotations

import hashlib

from ...frozen import frozen
from ...sdk.transaction_series import series_of


@frozen
class CommitName:
    """The name of a commit.

    Attributes:
      writer: a sink in one start of a pipeline; its commits have increasing numbers.

    >>> CommitName.of("00000012-5be1", "counts/Write")
    CommitName(writer='penstock-5be1-ab68e353', number=12)
    >>> CommitName.of("5be1", "counts/Write")
    CommitName(writer='penstock-5be1-ab68e353', number=0)
    """

    writer: str
    number: int

    @property
    def directory(self) -> str:
        """The name of the directory of its files, which no other commit has."""
        return f"{self.writer}-{self.number:08d}"

    @staticmethod
    def of(transaction: str, transform: str) -> CommitName:
        """Return the name of a sink's transaction.

        Args:
          transform: the label of the sink, since several sinks of a pipeline may write into one table.
        """
        digest = hashlib.blake2s(transform.encode(), digest_size=4).hexdigest()
        series = series_of(transaction)
        if series is None:
            return CommitName(f"penstock-{transaction}-{digest}", 0)
        return CommitName(f"penstock{series}-{digest}", int(transaction[: -len(series)]))
