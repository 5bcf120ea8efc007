"""Batch types: elements and columns are the same behind a conversion to a batch and back."""

from __future__ import annotations

from typing import Any

import numpy
import pandas
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pipelines.arrow_tables import COLUMNS, same

from penstock.sdk.elements.row import Row
from penstock.sdk.errors import ColumnError
from penstock.sdk.typehints.batch import BatchConverter

BATCH_TYPES = [numpy.ndarray, pa.Array, pa.RecordBatch, pa.Table, pandas.Series, pandas.DataFrame]
# Of lists of one length NumPy makes an array of two dimensions.
KINDS = {numpy.ndarray: [kind for kind in COLUMNS if kind != "list"]}


@st.composite
def columns(draw: st.DrawFn, kinds: list[str]) -> tuple[list[Any], Any]:
    """Return values, and an Arrow array of them."""
    kind, one = COLUMNS[draw(st.sampled_from(kinds))]
    values = draw(st.lists(st.none() | one if draw(st.booleans()) else one, min_size=1, max_size=5))
    array = pa.array(values, kind)
    return array.to_pylist(), array


@pytest.mark.parametrize("batch_type", BATCH_TYPES)
def test_elements_are_the_same_behind_a_batch(batch_type: Any) -> None:
    """Made of elements, of columns, and of the columns that the shuffle makes of a batch."""
    has_fields = batch_type in (pa.RecordBatch, pa.Table, pandas.DataFrame)
    converter = BatchConverter.from_typehints(element_type=Row if has_fields else Any, batch_type=batch_type)

    @settings(max_examples=150)
    @given(columns(KINDS.get(batch_type, list(COLUMNS))))
    def check(drawn: tuple[list[Any], Any]) -> None:
        values, array = drawn
        elements = [Row(value=value) for value in values] if has_fields else values
        for batch in (converter.produce_batch(elements), converter.of_columns(one_column(array))):
            assert same(values, values_of(converter.explode_batch(batch), has_fields))
            try:
                sent = converter.to_columns(batch)
            except ColumnError:
                continue
            assert same(values, values_of(converter.elements(sent), has_fields))
            assert same(values, values_of(converter.explode_batch(converter.of_columns(sent)), has_fields))

    check()


def one_column(array: Any) -> Any:
    return pa.RecordBatch.from_arrays([array], ["value"])


def values_of(elements: Any, has_fields: bool) -> list[Any]:
    return [element.value for element in elements] if has_fields else list(elements)


def test_numbers_that_arrow_has_no_type_for_are_a_column_error() -> None:
    converter = BatchConverter.from_typehints(element_type=int, batch_type=pa.Array)
    with pytest.raises(ColumnError, match="too large|negative"):
        converter.produce_batch([2**64 - 1, -1])


@pytest.mark.parametrize("values", [[None, 2**63], [-1, None, 2**63], [None, 2**64], [-1, 2**63], [-(2**63), None]])
def test_a_series_has_whole_numbers_of_any_size(values: list[Any]) -> None:
    """As they are, with None among them."""
    converter = BatchConverter.from_typehints(element_type=Any, batch_type=pandas.Series)
    assert same(values, list(converter.explode_batch(converter.produce_batch(values))))


def test_a_series_of_nanoseconds_keeps_them() -> None:
    """As pandas' Timestamps, with None for NaT."""
    converter = BatchConverter.from_typehints(element_type=Any, batch_type=pandas.Series)
    stamp = pandas.Timestamp("2020-01-01T00:00:00.000000001")
    assert [stamp, None] == converter.explode_batch(pandas.Series([stamp, pandas.NaT]))
