"""Changes of a bounded input, which several workers read, so that later ones may come first."""

from __future__ import annotations

import itertools
import json
import pathlib
import random
import sqlite3
from typing import Any

import pytest

import penstock as beam
from penstock.io.cdc.row_change import RowChange
from penstock.io.cdc.sequenced_rows import LatestSequencedRows, SequencedChange
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.element_wrappers import Retracted
from penstock.sdk.errors import SourceError
from penstock.sdk.userstate import DictStore

SENT = "__debezium_unavailable_value"


def change(number: int, row: dict[str, Any], sign: int = 1, missing: tuple[str, ...] = ()) -> SequencedChange:
    """A change of the key, at a place of the log, read by a worker of its own."""
    return SequencedChange(RowChange(sign, row, None, 0, missing), ("lsn", (number,)), bytes([number]), 1)


HISTORIES = {
    "updates": [change(1, {"v": 1}), change(2, {"v": 2}), change(3, {"v": 3})],
    "a delete": [change(1, {"v": 1}), change(2, {"v": 1}, -1), change(3, {"v": 3}), change(4, {"v": 3}, -1)],
    "an insert after a delete": [change(1, {"v": 1}), change(2, {"v": 1}, -1), change(3, {"v": 3})],
    "unchanged values": [
        change(1, {"v": 1, "t": "a"}),
        change(2, {"v": 2, "t": "b"}),
        change(3, {"v": 3, "t": SENT}, 1, ("t",)),
        change(4, {"v": 4, "t": SENT}, 1, ("t",)),
    ],
}
RESULTS: dict[str, list[dict[str, Any]]] = {
    "updates": [{"v": 3}],
    "a delete": [],
    "an insert after a delete": [{"v": 3}],
    "unchanged values": [{"v": 4, "t": "b"}],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_sum_of_the_rows_is_the_latest_one_in_every_order(name: str) -> None:
    """Also if a change comes twice."""
    for order in itertools.permutations([*HISTORIES[name], HISTORIES[name][0]]):
        latest = LatestSequencedRows.LATEST.of(DictStore())
        rows = LatestSequencedRows(dict, None)
        found: list[dict[str, Any]] = []
        for each in order:
            for output in rows.process((("key",), each), latest):
                if isinstance(output, Retracted):
                    found.remove(output.value)
                else:
                    found.append(output)
        assert RESULTS[name] == found
        rows.check(latest, ("key",))


def test_a_value_that_never_comes_is_an_error() -> None:
    """At the end of the input."""
    latest = LatestSequencedRows.LATEST.of(DictStore())
    rows = LatestSequencedRows(dict, None)
    assert [] == list(rows.process((("key",), change(3, {"v": 3, "t": SENT}, 1, ("t",))), latest))
    with pytest.raises(SourceError, match="expected an earlier row of the key.*'t'.*snapshot"):
        rows.check(latest, ("key",))


def _written(path: pathlib.Path, has_places: bool) -> dict[int, int]:
    """Write changes of 200 keys to a file that is split; return the last value of each."""
    drawn, table = random.Random(5), {}
    with path.open("w") as file:
        for number in range(12_000):
            key = drawn.randrange(200)
            table[key] = number
            source = {"connector": "postgresql", "table": "t", **({"lsn": number + 1} if has_places else {})}
            row = {"id": key, "value": number, "note": "x" * 100}
            file.write(json.dumps({"op": "u", "before": None, "after": row, "source": source}) + "\n")
    return table


SPARK = {"spark-batch": "SparkBatchRunner", "spark-microbatch": "SparkMicroBatchRunner"}


@pytest.mark.parametrize(
    "runner", ["local", "checkpoints", *(pytest.param(name, marks=pytest.mark.spark) for name in SPARK)]
)
def test_a_file_that_is_split_gives_the_latest_rows(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, runner: str
) -> None:
    """By two workers."""
    on: Any = "local"
    options: Any = PipelineOptions([], parallelism=2)
    if runner in SPARK:
        from penstock.runners import spark

        options = PipelineOptions([])
        on = getattr(spark, SPARK[runner])(spark_session=request.getfixturevalue("spark"))
    elif runner == "checkpoints":
        options = PipelineOptions([f"--checkpoint_dir={tmp_path / 'kept'}"], parallelism=2)
    table = _written(tmp_path / "changes.json", has_places=True)
    with beam.Pipeline(runner=on, options=options) as p:
        rows = p | beam.io.ReadFromText(str(tmp_path / "changes.json")) | beam.io.FromDebezium(key="id")
        pairs = rows | beam.Map(lambda row: {"id": row.id, "value": row.value})
        _ = pairs | beam.io.WriteToSQLite(tmp_path / "out.db", "t", key="id", columns={"id": int, "value": int})
    assert table == dict(sqlite3.connect(tmp_path / "out.db").execute("SELECT id, value FROM t").fetchall())


def test_changes_whose_order_is_not_known_are_refused(tmp_path: pathlib.Path) -> None:
    """With what to do; one worker has their order."""
    table = _written(tmp_path / "changes.json", has_places=False)

    def run(parallelism: int) -> None:
        with beam.Pipeline(options=PipelineOptions([], parallelism=parallelism)) as p:
            rows = p | beam.io.ReadFromText(str(tmp_path / "changes.json")) | beam.io.FromDebezium(key="id")
            pairs = rows | beam.Map(lambda row: {"id": row.id, "value": row.value})
            _ = pairs | beam.io.WriteToSQLite(tmp_path / "out.db", "t", key="id", columns={"id": int, "value": int})

    with pytest.raises(SourceError, match="read by different workers.*run it with --parallelism=1"):
        run(2)
    run(1)
    assert table == dict(sqlite3.connect(tmp_path / "out.db").execute("SELECT id, value FROM t").fetchall())
