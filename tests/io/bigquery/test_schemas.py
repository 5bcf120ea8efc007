"""The columns of tables, and tables' names, from all that programs give."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.io.bigquery.client import TableName
from penstock.io.bigquery.schemas import Column, as_json, schema_of


def _objects(columns: Any) -> Any:
    """Columns as objects, as Beam has them."""
    found = [SimpleNamespace(**{**column, "fields": _objects(column.get("fields", ())).fields}) for column in columns]
    return SimpleNamespace(fields=found)


NESTED: dict[str, Any] = {
    "fields": [
        {"name": "n", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "inner", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "day", "type": "DATE"}]},
    ]
}
COLUMNS = (Column("n", "INTEGER", "REQUIRED"), Column("inner", "RECORD", "REPEATED", (Column("day", "DATE"),)))


def _google_schema() -> Any:
    bigquery = pytest.importorskip("google.cloud.bigquery")
    return [bigquery.SchemaField.from_api_repr(field) for field in NESTED["fields"]]


@pytest.mark.parametrize(
    "given",
    [NESTED, NESTED["fields"], json.dumps(NESTED), _objects(NESTED["fields"]), _google_schema()],
    ids=["dict", "list", "json", "beam", "google"],
)
def test_a_schema_is_given_in_many_ways(given: Any) -> None:
    assert COLUMNS == schema_of("Write", given)


def test_a_schema_is_the_path_of_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(NESTED["fields"]))
    assert COLUMNS == schema_of("Write", path) == schema_of("Write", str(path))


def test_a_schema_is_text_of_names_and_types() -> None:
    expected = (Column("n", "INTEGER"), Column("price", "NUMERIC", others={"precision": "10"}))
    assert expected == schema_of("Write", "n:int64, price:NUMERIC(10)")


def test_what_the_api_has_of_a_column_is_kept() -> None:
    column = {"name": "n", "type": "STRING", "mode": "NULLABLE", "description": "a name", "maxLength": "10"}
    assert {"fields": [column]} == as_json(schema_of("Write", [column]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("n", "expected a schema such as"),
        (7, "expected a schema such as"),
        ("n:NUMBER", "column 'n' has the type 'NUMBER'"),
        ([{"name": "n", "type": "STRING", "mode": "OPTIONAL"}], "the mode 'OPTIONAL'"),
        ([{"name": "n", "type": "RECORD"}], "is of type RECORD and has 0 fields"),
        ("n:STRING,N:STRING", "two columns 'n'"),
        ("nowhere.json", "nowhere.json can't be read"),
        ("{", "isn't JSON"),
    ],
)
def test_a_wrong_schema_is_named(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^Write: .*{said}"):
        schema_of("Write", given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("shop:sales.orders", TableName("shop", "sales", "orders")),
        ("shop.sales.orders", TableName("shop", "sales", "orders")),
        ("sales.orders$20260101", TableName(None, "sales", "orders$20260101")),
        ("example.com:shop.sales.orders", TableName("example.com:shop", "sales", "orders")),
        (SimpleNamespace(projectId="shop", datasetId="sales", tableId="orders"), TableName("shop", "sales", "orders")),
    ],
)
def test_a_table_has_many_names(given: Any, expected: TableName) -> None:
    assert expected == TableName.of("Write", given)


@pytest.mark.parametrize("given", ["orders", "", 7, "a.b.c.d:e", SimpleNamespace(tableId="orders")])
def test_a_wrong_name_is_an_error(given: Any) -> None:
    with pytest.raises(ValueError, match="^Write: expected a table such as"):
        TableName.of("Write", given)
