"""The program of docs/connectors/kafka.md runs as it is written, on a real broker."""

from __future__ import annotations

import re

import pytest
from kafka.broker import KafkaBroker
from package.unpack_wheel import ROOT


def test_the_program_counts_words(broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """At the address of another broker."""
    text = (ROOT / "docs" / "connectors" / "kafka.md").read_text()
    program, read = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    for topic in ("words", "counts"):
        broker.create_topic(topic, 2)
    names: dict[str, object] = {}
    exec(program.replace("localhost:9092", broker.address), names)
    exec(read, names)

    assert ["('a', 2)", "('b', 1)"] == sorted(capsys.readouterr().out.splitlines())
