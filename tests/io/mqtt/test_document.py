"""The program of docs/connectors/mqtt.md runs as it is written, on a real broker."""

from __future__ import annotations

import pytest
from servers.mosquitto import Mosquitto
from support.programs.document_code import programs


def test_the_programs_write_and_read(mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]) -> None:
    """At the address of another broker, and for a shorter time."""
    write, read, as_client = programs("docs/connectors/mqtt.md", __file__)
    names: dict[str, object] = {}
    exec(write.replace("mqtt://localhost:1883", mosquitto.url), names)
    read = read.replace("mqtt://localhost:1883", mosquitto.url).replace("max_read_time=2", "max_read_time=0.5")
    exec(read, names)
    exec(as_client, names)

    assert ["home/kitchen 21.5"] == capsys.readouterr().out.splitlines()
