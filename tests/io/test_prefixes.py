"""A commit publishes the results of a prefix of the input; two sinks of a kind stand side by side."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Callable

import pytest
from kafka.topics import Topic
from servers.nats_server import Stream
from support.io.account_readers import Kafka, Nats, PostgreSQL, Reader, Sqlite
from support.io.account_transfers import PROGRAM
from support.programs.running_program import RunningProgram, children


def kafka_reader(request: pytest.FixtureRequest) -> Reader:
    """Return the reader of two new topics."""
    broker = request.getfixturevalue("broker")
    return Kafka(broker, [Topic(broker), Topic(broker)])


def nats_reader(request: pytest.FixtureRequest) -> Reader:
    """Return the reader of two new streams."""
    server = request.getfixturevalue("nats_server")
    return Nats(server, [Stream(server), Stream(server)])


# Of each kind of commit one: one transaction of the target, one by records and a token, and message by message.
READERS: dict[str, Callable[[pytest.FixtureRequest], Reader]] = {
    "sqlite": lambda request: Sqlite(request.getfixturevalue("tmp_path")),
    "postgresql": lambda request: PostgreSQL(request.getfixturevalue("postgresql").url),
    "kafka": kafka_reader,
    "nats": nats_reader,
}


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> Reader:
    """A reader of a store of a test's own."""
    return READERS[request.param](request)


def watch(reader: Reader, directory: pathlib.Path, workers: int) -> None:
    """Run the program and look at what it publishes, until it was killed and has gone on for some checkpoints.

    One of several workers is killed, or the program, which is started again.
    """
    parallel = [f"--parallelism={workers}"] if workers > 1 else []
    arguments = reader.computed, reader.kind, reader.where, *reader.names, "--checkpoint_dir=kept", *parallel
    checkpoints: set[str] = set()

    def has_seen(count: int) -> bool:
        checkpoints.update(path.name for path in (directory / "kept").glob("manifest-*.checkpoint"))
        return reader.has_seen(count) and len(checkpoints) >= count

    reader.prepare(workers)
    with RunningProgram(directory, PROGRAM, *arguments) as running:
        running.wait_until(lambda: has_seen(3), "commits")
        if workers > 1:
            os.kill(children(running.process.pid)[0], signal.SIGKILL)
        else:
            running.signal(signal.SIGKILL)
            running.ended()
            running = RunningProgram(directory, PROGRAM, *arguments)
        with running:
            running.wait_until(lambda: has_seen(6), "commits after a kill")
            running.signal(signal.SIGTERM)
            assert 0 == running.ended(), running.log
    reader.end()


CASES = [("postgresql", 1), ("kafka", 2), ("nats", 2)]


@pytest.mark.parametrize(("reader", "workers"), CASES, indirect=["reader"], ids=[name for name, _ in CASES])
def test_a_reader_sees_prefixes_only(reader: Reader, workers: int, tmp_path: pathlib.Path) -> None:
    """Credits and debits cancel in each state of both tables, also after a worker or the whole program was killed.

    The suite of sinks shows of each sink what a reader sees of a commit that is killed.
    """
    watch(reader, tmp_path, workers)
    for name, states in reader.states.items():
        assert [] == [state for state, is_prefix in states.items() if not is_prefix], name
        assert len(states) > 4


@pytest.mark.parametrize("reader", ["sqlite"], indirect=True)
def test_a_reader_of_a_join_sees_prefixes_only(reader: Reader, tmp_path: pathlib.Path) -> None:
    """Both sides of each transfer come from one input, and meet behind a shuffle."""
    reader.computed = "joined"
    watch(reader, tmp_path, workers=2)
    for name, states in reader.states.items():
        assert [] == [state for state, is_prefix in states.items() if not is_prefix], name
        assert len(states) > 4
