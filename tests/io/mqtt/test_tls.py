"""Encrypted connections, to a broker whose certificate is known, or isn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.certificates import make_certificate, why_there_is_no_openssl
from servers.mosquitto import Mosquitto, why_there_is_no_mosquitto

import penstock as beam
from penstock.io import MqttMessage, ReadFromMqtt, WriteToMqtt
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SourceError
from penstock.testing.util import assert_that, equal_to


def test_the_broker_has_to_be_known(tmp_path: Path) -> None:
    """By the file of its certificate; otherwise the run is refused at once."""
    if reason := why_there_is_no_mosquitto() or why_there_is_no_openssl():
        pytest.skip(reason)
    certificate, key = make_certificate(tmp_path)
    broker = Mosquitto(tmp_path, certificate, key)
    broker.start()
    try:
        url, tls = broker.url.replace("mqtt:", "mqtts:"), {"ca_file": str(certificate)}
        with beam.Pipeline("local") as p:
            _ = p | beam.Create([b"1"]) | WriteToMqtt(url, "kept", retain=True, tls=tls)
        with beam.Pipeline("local") as p:
            read = ReadFromMqtt(url, "kept", max_read_time=0.3, tls=tls)
            payloads = p | read | beam.Map(lambda message: (type(message), message.payload))
            assert_that(payloads, equal_to([(MqttMessage, b"1")]))
        p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
        _ = p | ReadFromMqtt(url, "kept", client_id="c")
        with pytest.raises(SourceError, match="certificate verify failed"):
            p.run().wait_until_finish()
    finally:
        broker.stop()
