"""Changes of a table by key: rows are staged with their sign, and with their version.

The version is the end of the window, the number of the pane, and the timestamp.
"""

from __future__ import annotations

from typing import Any

from ...sdk.elements.bundle import Bundle

# The columns of a staged row besides those of the table.
SIGN = "_penstock_sign"
VERSION = ("_penstock_window", "_penstock_pane", "_penstock_timestamp")
OWN_COLUMNS = (SIGN, *VERSION)


def with_signs(table: Any, bundle: Bundle) -> Any:
    """Return the rows of a bundle with their signs and versions."""
    import pyarrow

    signs, versions = [], []
    for _, timestamp, windows, pane, sign in bundle.rows():
        signs.append(sign)
        versions.append((max(window.max_micros for window in windows), pane.index, timestamp))
    table = table.append_column(SIGN, pyarrow.array(signs, pyarrow.int8()))
    for name, column in zip(VERSION, zip(*versions, strict=True), strict=True):
        table = table.append_column(name, pyarrow.array(column, pyarrow.int64()))
    return table


def hashable(column: list[Any]) -> list[Any]:
    """Return values, those that can't be compared by a dict as text."""
    if any(isinstance(value, (list, dict)) for value in column):
        return [repr(value) for value in column]
    # A NaN is equal to another NaN here.
    return ["nan" if value != value else value for value in column]
