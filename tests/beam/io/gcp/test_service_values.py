"""Messages and dispositions, under Beam's names."""

from __future__ import annotations

import pickle

import pytest

import penstock as beam
from penstock.beam.io.gcp.service_values import BigQueryDisposition
from penstock.io.pubsub.messages import PubsubMessage
from penstock.testing import TestPipeline, assert_that, equal_to


def test_beam_has_them_in_the_modules_of_the_services_and_in_io(monkeypatch: pytest.MonkeyPatch) -> None:
    """And other names of these modules stay absent."""
    import sys

    from penstock.beam.import_hook import install_import_hook

    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()
    from apache_beam import io  # type: ignore[import-not-found]
    from apache_beam.io.gcp import bigquery, pubsub  # type: ignore[import-not-found]

    assert (PubsubMessage, PubsubMessage) == (pubsub.PubsubMessage, io.PubsubMessage)
    assert (BigQueryDisposition, BigQueryDisposition) == (bigquery.BigQueryDisposition, io.BigQueryDisposition)
    assert "penstock doesn't have" in repr(bigquery.TableRowJsonCoder)


def test_schemas_of_tables_are_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs build them where modules are imported, for writes that their tests replace."""
    import sys

    from penstock.beam.import_hook import install_import_hook

    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()
    from apache_beam.io.gcp.bigquery import RetryStrategy
    from apache_beam.io.gcp.bigquery_tools import parse_table_schema_from_json
    from apache_beam.io.gcp.internal.clients import bigquery

    schema = bigquery.TableSchema()
    column = bigquery.TableFieldSchema(name="n", type="RECORD")
    column.mode = "NULLABLE"
    column.fields.append(bigquery.TableFieldSchema(name="of", type="STRING", mode="REQUIRED"))
    schema.fields.append(column)
    inner = '{"name": "of", "type": "STRING", "mode": "REQUIRED"}'
    text = '{"fields": [{"name": "n", "type": "RECORD", "fields": [' + inner + "]}]}"

    assert schema == parse_table_schema_from_json(text)
    assert "RETRY_NEVER" == RetryStrategy.RETRY_NEVER
    assert ("p", None) == (bigquery.TableReference(projectId="p").projectId, bigquery.TableReference().tableId)
    with pytest.raises(ValueError, match="Unable to parse JSON schema"):
        parse_table_schema_from_json("n:INTEGER")


def test_messages_with_equal_data_and_attributes_are_equal() -> None:
    """Whatever their ids; attributes may be missing."""
    message = PubsubMessage(b"x", {"a": "b"}, message_id="1", ordering_key="k")

    assert message == PubsubMessage(b"x", {"a": "b"}) != PubsubMessage(b"x", None)
    assert hash(message) == hash(PubsubMessage(b"x", {"a": "b"}))
    assert ("1", None, "k") == (message.message_id, message.publish_time, message.ordering_key)
    assert "PubsubMessage(b'x', {'a': 'b'})" == str(message)
    assert message == pickle.loads(pickle.dumps(message))


def test_a_message_has_data_or_attributes() -> None:
    """As Pub/Sub demands."""
    with pytest.raises(ValueError, match=r"Either data \(None\) or attributes \(None\) must be set"):
        PubsubMessage(None, None)


def test_messages_are_elements() -> None:
    """Of functions that read their data and attributes."""
    with TestPipeline() as p:
        found = (
            p | beam.Create([PubsubMessage(b"1", {"user": "a"})]) | beam.Map(lambda m: (m.attributes["user"], m.data))
        )
        assert_that(found, equal_to([("a", b"1")]))


def test_an_unknown_disposition_is_refused() -> None:
    """With the known ones."""
    assert BigQueryDisposition.CREATE_NEVER == BigQueryDisposition.validate_create("CREATE_NEVER")
    with pytest.raises(ValueError, match=r"Invalid write disposition APPEND\. Expecting \('WRITE_TRUNCATE', "):
        BigQueryDisposition.validate_write("APPEND")
