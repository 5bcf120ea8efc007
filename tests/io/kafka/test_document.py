"""The programs of docs/connectors/kafka.md run as they are written, on a real broker and a real registry."""

from __future__ import annotations

import re

import pytest
from kafka.broker import KafkaBroker
from kafka.registry import Registry
from package.unpack_wheel import ROOT


def test_the_programs_count_words_and_orders(
    broker: KafkaBroker, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the addresses of another broker and another registry."""
    text = (ROOT / "docs" / "connectors" / "kafka.md").read_text()
    program, read, of_registry = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    for topic in ("words", "counts", "orders"):
        broker.create_topic(topic, 2)
    names: dict[str, object] = {}
    exec(program.replace("localhost:9092", broker.address), names)
    exec(read, names)

    assert ["('a', 2)", "('b', 1)"] == sorted(capsys.readouterr().out.splitlines())
    exec(of_registry.replace("http://localhost:8081", registry.url), names)
    assert ["Result(item='jam', sum=1)", "Result(item='tea', sum=3)"] == sorted(capsys.readouterr().out.splitlines())
