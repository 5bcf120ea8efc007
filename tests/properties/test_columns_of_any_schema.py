"""Columns of any schema: a bounded pipeline of columns gives what the same pipeline of functions and rows gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support.pipelines.column_twins import ENDS, Case, Step, cases, counted, outcome
from support.pipelines.recording import Recording, recorded
from support.pipelines.strategies import some

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.testing import TestPipeline
from penstock.transforms.times import reshuffle


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("columns") / "a.parquet"


@pytest.fixture
def few_are_many() -> Iterator[None]:
    """Fold all that can be folded before a shuffle, and send any columns of a Reshuffle as such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pre_aggregation, "SMALLEST", 1)
        patch.setattr(pre_aggregation, "_WORTH", 1e9)
        patch.setattr(reshuffle, "_MANY", 1)
        patch.setattr(reshuffle, "_ROWS_OF_A_PART", 2)
        yield


@pytest.mark.usefixtures("few_are_many")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_columns_give_what_rows_give(run: Any, path: Path, case: Case) -> None:
    """The same elements, timestamps and windows, or an error of the same class."""
    assert outcome(run, case.of_rows) == outcome(run, partial(case.of_columns, path=path))


@pytest.mark.parametrize("runner_name", ["spark-batch", "spark-microbatch"])
def test_columns_on_spark_give_what_rows_give(runner: Any, runner_name: str, tmp_path: Path) -> None:
    """In one pipeline, with so many rows that columns are folded before a shuffle, and stay columns in a Reshuffle."""
    found = [
        case for end in ENDS for case in _one_without_errors(some(cases([end], is_large=True), 8, are_random=False))
    ]
    sinks = [Recording() for _ in found]
    with TestPipeline(runner) as p:
        for i, (case, sink) in enumerate(zip(found, sinks, strict=True)):
            rows = p | f"case {i}" >> Step(partial(case.of_columns, path=tmp_path / f"{i}.parquet"))
            rows | f"sink {i}" >> beam.io.Write(sink)

    expected = [counted(recorded(case.of_rows)) for case in found]
    assert [] == [case for case, own, sink in zip(found, expected, sinks, strict=True) if own != counted(sink)]
    assert 5 <= sum(map(bool, expected))


def _one_without_errors(found: list[Case]) -> list[Case]:
    """Return the last case that has elements as its results, with many rows."""
    return [case.repeated(256) for case in found if isinstance(outcome(recorded, case.of_rows), Counter)][-1:]
