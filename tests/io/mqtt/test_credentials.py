"""Credentials: wrong ones are refused at once, and right ones show nowhere."""

from __future__ import annotations

import logging
import time
import traceback
from pathlib import Path

import pytest
from servers.mosquitto import PASSWORD, USER, Mosquitto
from servers.shown_secrets import all_that_is_shown
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import ReadFromMqtt, WriteToMqtt
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SinkError, SourceError

WRONG = "guessed-at-the-well"


@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_wrong_credentials_are_refused_before_the_run(
    mosquitto: Mosquitto, topic: str, writes: bool, protocol: str
) -> None:
    """Without waiting, as for a broker that doesn't answer."""
    url = mosquitto.url_of_ann(WRONG)
    p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
    if writes:
        _ = p | beam.Create([b"b"]) | WriteToMqtt(url, topic, protocol=protocol)
    else:
        _ = p | ReadFromMqtt(url, topic, client_id=topic, protocol=protocol)
    began = time.monotonic()
    with pytest.raises((SourceError, SinkError), match="Not authorized; are the credentials .* right") as raised:
        p.run().wait_until_finish()
    assert time.monotonic() - began < 15
    assert WRONG not in "".join(traceback.format_exception(raised.value))


def test_a_password_shows_nowhere(
    mosquitto: Mosquitto, topic: str, other_topic: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Of a stream from topic to topic: in no checkpoint, log, metric or drawing."""
    caplog.set_level(logging.DEBUG)
    found: list[bytes] = []
    client = mosquitto.client()
    client.on_message = lambda client, userdata, message: found.append(message.payload)
    client.subscribe(other_topic, 1)
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1, "metrics_port": 0}
    p = beam.Pipeline("local", options=PipelineOptions([], parallelism=2, **flags))
    url = mosquitto.url_of_ann()
    read = ReadFromMqtt(
        f"mqtt://127.0.0.1:{mosquitto.port_of_ann}", topic, client_id=topic, username=USER, password=PASSWORD
    )
    write = WriteToMqtt(url, other_topic, payload=lambda message: message.payload)
    _ = p | read | beam.Reshuffle() | write
    shown = [repr(one) + str(one.display_data()) for one in (read, write)]
    shown += [repr(write.sink.writing), repr(read._reading), str(vars(write.sink))]
    result = p.run()
    try:

        def has_come() -> bool:
            mosquitto.publish(topic, [b"a"])
            return bool(found)

        wait_until(has_come, "a message was copied")
        text = all_that_is_shown(p, result, tmp_path / "kept")
    finally:
        result.cancel()
        client.disconnect()
        client.loop_stop()
    assert PASSWORD not in "".join([*shown, text, caplog.text])
