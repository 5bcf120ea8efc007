"""Changes of a table by key: the net effect of signed rows, which doesn't depend on their order.

Rows are staged with their sign, and with their version: the end of the window, the number of the pane, and the
timestamp.

    key  row  sign          key  row  net
    ann  3    +1            ann  3      0     cancelled
    ann  3    -1     ->     ann  4      1     written to the table
    ann  4    +1            bob  1     -1     deleted, if the table has this row
    bob  1    -1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import RejectedRecordError

# The columns of a staged row besides those of the table.
SIGN = "_penstock_sign"
_VERSION = ("_penstock_window", "_penstock_pane", "_penstock_timestamp")
OWN_COLUMNS = (SIGN, *_VERSION)


def with_signs(table: Any, bundle: Bundle) -> Any:
    """Return the rows of a bundle with their signs and versions."""
    import pyarrow

    signs, versions = [], []
    for _, timestamp, windows, pane, sign in bundle.rows():
        signs.append(sign)
        versions.append((max(window.max_micros for window in windows), pane.index, timestamp))
    table = table.append_column(SIGN, pyarrow.array(signs, pyarrow.int8()))
    for name, column in zip(_VERSION, zip(*versions, strict=True), strict=True):
        table = table.append_column(name, pyarrow.array(column, pyarrow.int64()))
    return table


@attrs.frozen
class Net:
    """The net effect of signed rows.

    Attributes:
      rows: a `pyarrow.Table` of the rows to insert or update, one for each key.
      gone: a `pyarrow.Table` of the rows to delete.
    """

    rows: Any
    gone: Any


def net_of(staged: Any, key: Sequence[str], retracting: bool, transform: str, table: str) -> Net:
    """Return the net effect of staged rows.

    Of several rows with a key the one with the latest version is written.  Raises `RejectedRecordError` for two
    different rows of a key with one version, and, with `retracting`, for two rows of a key that are both left.

    Args:
      staged: a `pyarrow.Table` with the columns of `with_signs`.
      retracting: whether a row is retracted before another replaces it.
    """
    import pyarrow
    import pyarrow.compute as pc

    names = [name for name in staged.schema.names if name not in OWN_COLUMNS]
    data = staged.select(names)
    are_additions = staged.num_rows == 0 or pc.min(staged.column(SIGN)).as_py() > 0
    if are_additions and _are_unique(data, key):
        return Net(data, data.slice(0, 0))
    keys = list(zip(*(data.column(name).to_pylist() for name in key), strict=True))
    columns = [hashable(data.column(name).to_pylist()) for name in names]
    values = list(zip(*columns, strict=True))
    signs = staged.column(SIGN).to_pylist()
    versions = list(zip(*(staged.column(name).to_pylist() for name in _VERSION), strict=True))
    # By key and row, the sum of its signs, and the number of the staged row with its latest version.
    by_key: dict[Any, dict[Any, list[int]]] = {}
    for number, of_key in enumerate(keys):
        net = by_key.setdefault(of_key, {}).setdefault(values[number], [0, number])
        net[0] += signs[number]
        if signs[number] > 0 and (signs[net[1]] < 0 or versions[number] >= versions[net[1]]):
            net[1] = number
    rows, gone = [], []
    for of_key, found in by_key.items():
        remaining = sorted((number for count, number in found.values() if count > 0), key=lambda n: versions[n])
        if remaining:
            last = versions[remaining[-1]]
            same = [number for number in remaining if versions[number] == last]
            copies = sum(count for count, _ in found.values() if count > 0)
            if len(same) > 1 or (retracting and copies > 1):
                raise _ambiguous(dict(zip(key, of_key, strict=True)), data, remaining, copies, transform, table)
            rows.append(remaining[-1])
        else:
            gone += [number for count, number in found.values() if count < 0]
    return Net(data.take(pyarrow.array(rows, pyarrow.int64())), data.take(pyarrow.array(gone, pyarrow.int64())))


def _are_unique(data: Any, key: Sequence[str]) -> bool:
    return bool(data.select(list(key)).group_by(list(key)).aggregate([]).num_rows == data.num_rows)


def hashable(column: list[Any]) -> list[Any]:
    """Return values, those that can't be compared by a dict as text."""
    if any(isinstance(value, (list, dict)) for value in column):
        return [repr(value) for value in column]
    # A NaN is equal to another NaN here.
    return ["nan" if value != value else value for value in column]


def _ambiguous(
    key: dict[str, Any], data: Any, remaining: list[int], copies: int, transform: str, table: str
) -> RejectedRecordError:
    shown = [shortened(data.slice(number, 1).to_pylist()[0], 100) for number in remaining[-2:]]
    error = RejectedRecordError(
        f"{transform}: the key is not unique: {copies} rows are left for {key} of table {table}, such as "
        f"{' and '.join(shown)}. Add what distinguishes them to the key"
    )
    error.record, error.transform = shown[-1], transform
    return error
