"""Encrypted connections, to a server whose certificate is known, or isn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.certificates import make_certificate, why_there_is_no_openssl
from servers.nats_server import NatsServer, Stream, why_there_is_no_nats

import penstock as beam
from penstock.io import ReadFromNats, WriteToNats
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SourceError
from penstock.testing.util import assert_that, equal_to


def test_the_server_has_to_be_known(tmp_path: Path) -> None:
    """By the file of its certificate; otherwise the run is refused at once."""
    if reason := why_there_is_no_nats() or why_there_is_no_openssl():
        pytest.skip(reason)
    certificate, key = make_certificate(tmp_path)
    server = NatsServer(tmp_path, certificate, key)
    server.start()
    try:
        stream = Stream(server)
        tls = {"ca_file": str(certificate)}
        with beam.Pipeline("local") as p:
            _ = p | beam.Create([b"1", b"2"]) | WriteToNats(server.url, f"{stream.name}.n", tls=tls)
        with beam.Pipeline("local") as p:
            read = ReadFromNats(server.url, stream.name, bounded=True, tls=tls)
            assert_that(p | read | beam.Map(lambda message: message.data), equal_to([b"1", b"2"]))
        p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
        _ = p | ReadFromNats(server.url, stream.name)
        with pytest.raises(SourceError, match="certificate verify failed"):
            p.run().wait_until_finish()
    finally:
        server.stop()
