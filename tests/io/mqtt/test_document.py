"""The program of docs/connectors/mqtt.md runs as it is written, on a real broker."""

from __future__ import annotations

import re

import pytest
from package.unpack_wheel import ROOT
from servers.mosquitto import Mosquitto


def test_the_programs_write_and_read(mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]) -> None:
    """At the address of another broker."""
    text = (ROOT / "docs" / "connectors" / "mqtt.md").read_text()
    write, read = re.findall(r"```py\n(.*?)```", text, re.DOTALL)[:2]
    names: dict[str, object] = {}
    exec(write.replace("mqtt://localhost:1883", mosquitto.url), names)
    exec(read.replace("mqtt://localhost:1883", mosquitto.url), names)

    assert ["home/kitchen 21.5"] == capsys.readouterr().out.splitlines()
