"""Decisions of a streaming query: which staged output of a batch its sink publishes.

They are files in the directory `penstock` of the query's checkpoint.  A decision is written after the tasks of a batch
have staged their output, and before the sink publishes it.  So a batch that Spark repeats publishes what was decided
first, and its tasks stage nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ....frozen import frozen
from ....sdk.errors import OptionsError, UntrustedSnapshotError
from ...execution.checkpoints.manifest import sealed, unsealed
from ...execution.checkpoints.storage import disk_of

# The format of a decision's file.
_FORMAT = "decided batch"

# The option of a query that names its checkpoint.
_OPTION = "checkpointLocation"

# Decisions before this number of the last ones are removed: Spark repeats the last batch only.
_KEPT = 2


@frozen
class Decision:
    """What a batch publishes.

    Attributes:
      transaction: its transaction; "" if no task has staged anything.
      tokens: of the staged output, pickled.
    """

    transaction: str
    tokens: list[bytes]


class Decisions:
    """The decisions in the checkpoint of a query.

    Args:
      options: those of the query.

    Raises `OptionsError` if the query's options don't name its checkpoint, or one that penstock can't reach.
    """

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        location = options.get(_OPTION)
        if not location:
            raise OptionsError(
                f'{label}: expected the option "{_OPTION}" of the query, by which a repeated batch is told from a new '
                f'one; give .option("{_OPTION}", ...) to writeStream, also where Spark has a default for it'
            )
        path = location.removeprefix("file://") if location.startswith("file:///") else location.removeprefix("file:")
        self._directory = f"{path.rstrip('/')}/penstock"
        self._disk = disk_of(path)

    def of(self, batch: int) -> Decision | None:
        """Return the decision of a batch, or None if there is none yet."""
        path = self._path(batch)
        if not self._disk.exists(path):
            return None
        for each in (self._directory, path):
            if reason := self._disk.why_untrusted(each):
                raise UntrustedSnapshotError(
                    f"{each}: reading a decision unpickles it, which runs the code in it, but {reason}. Expected a "
                    "directory that only the user of the driver can write to: chown or chmod it (go-w)"
                )
        transaction, tokens = unsealed(path, self._disk.read(path), _FORMAT, tuple[str, list[str]])
        return Decision(transaction, [base64.b64decode(token) for token in tokens])

    def write(self, batch: int, decision: Decision) -> None:
        """Write the decision of a batch."""
        self._disk.make_directory(self._directory)
        tokens = [base64.b64encode(token).decode() for token in decision.tokens]
        content: Any = [decision.transaction, tokens]
        self._disk.write_atomically(self._path(batch), sealed(_FORMAT, content))

    def forget_before(self, batch: int) -> None:
        """Remove decisions that no query needs any more."""
        last = batch - _KEPT
        names = [name for name in self._disk.list(self._directory) if name.isdigit() and int(name) <= last]
        self._disk.remove(*(f"{self._directory}/{name}" for name in names))

    def _path(self, batch: int) -> str:
        return f"{self._directory}/{batch}"
