"""The programs on Kafka in docs/ run as they are written, on a real broker and a real registry."""

from __future__ import annotations

import pathlib
import signal

import confluent_kafka
import pytest
from kafka.broker import KafkaBroker
from kafka.registry import Registry
from support.programs.document_code import programs, started
from support.programs.running_program import wait_until


def test_the_programs_count_words_and_orders(
    broker: KafkaBroker, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the addresses of another broker and another registry."""
    program, read, of_registry = programs("docs/connectors/kafka.md", __file__)
    for topic in ("words", "counts", "orders"):
        broker.create_topic(topic, 2)
    names: dict[str, object] = {}
    exec(program.replace("localhost:9092", broker.address), names)
    exec(read, names)

    assert ["('a', 2)", "('b', 1)"] == sorted(capsys.readouterr().out.splitlines())
    exec(of_registry.replace("http://localhost:8081", registry.url), names)
    assert ["Result(item='jam', sum=1)", "Result(item='tea', sum=3)"] == sorted(capsys.readouterr().out.splitlines())


# 2026-01-01 in UTC.
START = 1_767_225_600


def test_the_stream_of_the_first_hour_resumes(broker: KafkaBroker, tmp_path: pathlib.Path) -> None:
    """No click counts twice, whatever was read before the first stop."""
    program, command = programs("docs/tutorials/first_hour.md", __file__)
    (tmp_path / "stream.py").write_text(program.replace("localhost:9092", broker.address))
    broker.create_topic("clicks", 1)

    def click(*seconds: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
        for second in seconds:
            producer.produce("clicks", b"home", timestamp=(START + second) * 1000)
        producer.flush()

    def printed() -> list[str]:
        return (tmp_path / "out").read_text().splitlines()

    expected = ["00:00:00 home 10", "00:00:10 home 10", "00:00:20 home 10", "00:00:30 home 10"]
    for seconds, windows in ((range(30), 2), (range(30, 45), 4)):
        click(*seconds)
        with started(command, tmp_path, {"env/bin/": ""}) as stream:
            wait_until(lambda windows=windows: len(printed()) >= windows or stream.poll() is not None, "the windows")
            stream.send_signal(signal.SIGINT)
        assert expected[:windows] == printed(), (tmp_path / "err").read_text()
