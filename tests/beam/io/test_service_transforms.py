"""Reads and writes of services, in pipelines that aren't run."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import penstock as beam
from penstock.beam.import_hook import install_import_hook
from penstock.beam.io.service_transforms import service_transform
from penstock.sdk.errors import UnsupportedError
from penstock.testing import TestPipeline, assert_that, equal_to


@pytest.fixture(autouse=True)
def _beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()


def _of(path: str) -> Any:
    found = service_transform(path)
    assert found is not None
    return found


def test_requests_and_schemas_are_no_transforms() -> None:
    """Nor are transforms of other packages than `io`."""
    paths = ["io.gcp.bigquery.ReadFromBigQueryRequest", "io.jdbc.JdbcConfig", "yaml.yaml_io.WriteToTextThing"]
    assert [None, None, None] == [service_transform(path) for path in paths]


def test_reads_and_writes_of_services_can_be_built_but_not_run() -> None:
    """As in tests of the construction of a pipeline.  The error names the transform by its label."""
    from apache_beam.io import ReadFromMongoDB, WriteToMongoDB

    p = beam.Pipeline()
    messages = p | "Messages" >> ReadFromMongoDB(uri="mongodb://host", db="clicks", coll="all")
    _ = messages | beam.Map(len) | "Save" >> WriteToMongoDB(uri="mongodb://host", db="clicks")

    with pytest.raises(UnsupportedError, match=r"^Messages: apache_beam\.io\.mongodbio\.ReadFromMongoDB: pens"):
        p.run()


def test_a_write_to_a_service_is_refused_even_without_elements() -> None:
    """Nothing would tell otherwise that it is missing."""
    p = beam.Pipeline()
    _ = p | beam.Create([]) | "Save" >> _of("io.kafka.WriteToKafka")({"bootstrap.servers": "host"}, "topic")

    with pytest.raises(UnsupportedError, match=r"^Save: apache_beam\.io\.kafka\.WriteToKafka: penstock"):
        p.run()


def test_a_read_of_a_stream_is_unbounded() -> None:
    """So that its groupings are checked as those of a stream."""
    p = beam.Pipeline()
    read = {
        path: (p | path >> _of(path)()).is_bounded
        for path in ("io.debezium.ReadFromDebezium", "io.kafka.ReadFromKafka", "io.mongodbio.ReadFromMongoDB")
    }

    assert [False, False, True] == list(read.values())


def test_a_subclass_of_a_service_s_write_may_expand_to_something_else() -> None:
    """Such as a fake in a test; the arguments are kept."""
    from apache_beam.io import WriteToMongoDB

    class Fake(WriteToMongoDB):  # type: ignore[misc]
        def expand(self, rows: object) -> object:
            return rows | beam.Map(lambda row: (self.args[0], row))  # type: ignore[operator]

    with TestPipeline() as p:
        written = p | beam.Create([1]) | Fake("table")
        assert_that(written, equal_to([("table", 1)]))
