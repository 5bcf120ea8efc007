"""Rows as frames of pandas, and frames of pandas as rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import penstock as beam
from penstock.dataframe.convert import to_dataframe, to_pcollection
from penstock.dataframe.schemas import (
    BatchRowsAsDataFrame,
    UnbatchPandas,
    element_type_from_dataframe,
    generate_proxy,
)
from penstock.dataframe.transforms import DataframeTransform
from penstock.testing import assert_that, equal_to

FRAME = pd.DataFrame(
    {
        "number": pd.Series([1, 2], dtype=np.int32),
        "nullable": pd.Series([1, None], dtype="Int64"),
        "text": pd.Series(["a", None], dtype="string"),
        "real": pd.Series([1.5, None], dtype=np.float32),
        "flag": pd.Series([True, False]),
        "any": pd.Series(["a", 1], dtype=object),
    }
)
ROWS = [(1, 1, "a", 1.5, True, "a"), (2, None, None, None, False, 1)]


class Animal(NamedTuple):
    name: str
    speed: float


def test_a_proxy_and_the_type_of_its_rows_are_the_reverse_of_each_other() -> None:
    proxy = FRAME[:0]
    pd.testing.assert_frame_equal(proxy, generate_proxy(element_type_from_dataframe(proxy)), check_index_type=False)
    assert {"name": "string", "speed": "float64"} == {k: str(v) for k, v in generate_proxy(Animal).dtypes.items()}
    assert "Int32" == str(generate_proxy(np.int32 | None).dtype)
    assert "S" == generate_proxy(NamedTuple("B", [("b", bytes)])).b.dtype.kind


def test_rows_are_batched_as_frames() -> None:
    with beam.Pipeline() as p:
        frames = (
            p
            | beam.Create([Animal("falcon", 380.0), Animal("parrot", 24.0)])
            | BatchRowsAsDataFrame(min_batch_size=2, max_batch_size=2)
        )
        shown = frames | beam.Map(lambda df: (df.to_dict("list"), str(df.name.dtype)))
        assert_that(shown, equal_to([({"name": ["falcon", "parrot"], "speed": [380.0, 24.0]}, "string")]))


def test_frames_are_split_into_rows_without_missing_values() -> None:
    with beam.Pipeline() as p:
        rows = p | beam.Create([FRAME[:1], FRAME[1:]]) | UnbatchPandas(FRAME[:0])
        assert_that(rows | beam.Map(tuple), equal_to(ROWS))


@pytest.mark.parametrize("levels", [1, 2])
def test_the_index_stands_before_the_columns(levels: int) -> None:
    frame = FRAME.set_index(list(FRAME.columns[:levels]))
    with beam.Pipeline() as p:
        rows = p | beam.Create([frame]) | UnbatchPandas(frame[:0], include_indexes=True)
        assert_that(rows | beam.Map(tuple), equal_to(ROWS))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (None, "unnamed index"),
        (pd.Index([1, 2], name="number"), "an index and a column named 'number'"),
        (pd.MultiIndex.from_arrays([[1, 2], [3, 4]], names=["i", "i"]), "several levels of the index named 'i'"),
    ],
)
def test_an_index_without_a_name_of_its_own_is_refused(index: Any, expected: str) -> None:
    frame = FRAME if index is None else FRAME.set_axis(index)
    with pytest.raises(ValueError, match=expected):
        _ = beam.Pipeline() | beam.Create([frame]) | UnbatchPandas(frame[:0], include_indexes=True)


def test_a_series_has_no_index_to_include() -> None:
    series = FRAME.nullable
    with beam.Pipeline() as p:
        frames = p | beam.Create([series])
        with pytest.warns(UserWarning, match="a series has no rows"):
            values = frames | UnbatchPandas(series[:0], include_indexes=True)
        assert_that(values, equal_to([1, None]))
    with pytest.raises(TypeError, match="expected a frame or a series of pandas as proxy"):
        _ = beam.Pipeline() | beam.Create([series]) | UnbatchPandas([1])


def test_elements_may_be_frames() -> None:
    """With an index, which the results have, too."""
    frame = pd.DataFrame({"k": ["a", "b", "a"], "n": [1, 2, 3]}).set_index("k")
    with beam.Pipeline() as p:
        df = to_dataframe(p | beam.Create([frame[:1], frame[1:]]), proxy=frame[:0])
        sums = df.groupby("k").sum()
        assert_that(to_pcollection(sums, include_indexes=True), equal_to([("a", 4), ("b", 2)]), "rows")
        frames = to_pcollection(sums, yield_elements="pandas") | beam.FlatMap(lambda df: df.n.to_dict().items())
        assert_that(frames, equal_to([("a", 4), ("b", 2)]), "frames")


def test_elements_may_be_series() -> None:
    series = pd.Series([1, 2], name="n")
    with beam.Pipeline() as p:
        pcoll = p | beam.Create([series])
        double = pcoll | DataframeTransform(lambda s: 2 * s, proxy=series[:0], yield_elements="pandas")
        assert_that(double | beam.FlatMap(lambda s: [(s.name, n) for n in s]), equal_to([("n", 2), ("n", 4)]))
