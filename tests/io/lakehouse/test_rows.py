"""Elements as the rows of a lakehouse's table."""

from __future__ import annotations

import datetime

import pyarrow

from penstock.io.lakehouse.rows import ColumnsOf
from penstock.sdk.elements.row import Row
from penstock.windowing.timestamp import Timestamp


def test_values_that_arrow_takes_for_others_are_converted() -> None:
    """A Timestamp isn't a number of microseconds, and nested rows are structs."""
    instant = pyarrow.timestamp("us", "UTC")
    schema = pyarrow.schema([("at", instant), ("inner", pyarrow.struct([("at", instant)]))])
    table = ColumnsOf("Write", "t", schema).of_values([Row(at=Timestamp(3), inner=Row(at=Timestamp(4)))])
    first, second = (datetime.datetime.fromtimestamp(seconds, datetime.UTC) for seconds in (3, 4))
    assert [{"at": first, "inner": {"at": second}}] == table.to_pylist()
