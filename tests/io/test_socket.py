"""Lines over TCP, from a server of the test's own."""

import socket

import pytest
from support.pipelines.unbounded_readers import polled

import penstock as beam
from penstock.io import ReadFromSocket
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MAX_MICROS


@pytest.fixture
def server():
    """A server that one client can connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def source(server):
    host, port = server.getsockname()
    return ReadFromSocket(host, port, at_most_once=True).source


@pytest.fixture
def connected(server):
    """A reader, and the other end of its connection, which sends and waits until all has arrived."""
    made = source(server)
    (partition,) = made.partitions()
    reader = made.open(partition, None)
    theirs, _ = server.accept()
    yield reader, theirs
    reader.close()
    theirs.close()


def arrived(reader, count):
    """Poll until so many lines have come: the loopback is quick, but it isn't a function call."""
    lines = []
    while len(lines) < count:
        lines += polled(reader, 5)
    return lines


def test_lines_come_whole_and_a_poll_never_waits(connected):
    """An unfinished line is buffered until its end arrives."""
    reader, theirs = connected
    assert None is reader.poll(10, Timestamp(5))
    theirs.sendall("ä\r\nb\nc".encode())
    assert ["ä", "b"] == arrived(reader, 2)
    theirs.sendall(b"c\n")

    assert ["cc"] == arrived(reader, 1)
    assert 3 == reader.offset()
    assert 5_000_000 == reader.watermark(Timestamp(5))


def test_no_more_lines_are_given_than_were_asked_for(connected):
    """The rest waits."""
    reader, theirs = connected
    theirs.sendall(b"a\nb\nc\n")
    theirs.shutdown(socket.SHUT_WR)
    bundle = None
    while bundle is None:
        bundle = reader.poll(1, Timestamp(5))

    assert ["a"] == bundle.values
    assert ["b", "c"] == arrived(reader, 2)


def test_the_input_ends_when_the_server_closes_the_connection(connected):
    """A last line that isn't ended counts then."""
    reader, theirs = connected
    theirs.sendall(b"a\nb")
    theirs.shutdown(socket.SHUT_WR)

    assert ["a", "b"] == arrived(reader, 2)
    while not reader.is_finished():
        assert [] == polled(reader, 5)
    assert MAX_MICROS == reader.watermark(Timestamp(5))


def test_a_connection_that_breaks_is_an_error_that_says_after_how_many_lines(connected):
    """It is for the runner to connect again."""
    reader, theirs = connected
    theirs.sendall(b"a\n")
    assert ["a"] == arrived(reader, 1)
    # Closing without saying goodbye.
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()

    with pytest.raises(SourceError, match="the connection broke after 1 lines"):
        arrived(reader, 1)


def test_lines_that_are_not_text_are_an_error(connected):
    """The error names the line."""
    reader, theirs = connected
    theirs.sendall(b"\xff\n")

    with pytest.raises(SourceError, match=r"lines 1 to 1 is not UTF-8 \(0xff\)"):
        arrived(reader, 1)


def test_an_unreachable_server_is_an_error_with_the_address(server):
    """When it is opened."""
    made = source(server)
    server.close()

    with pytest.raises(SourceError, match=rf"ReadFromSocket: 127.0.0.1:{made.port} can't be reached.*is the server"):
        made.open(made.partitions()[0], None)


def test_that_lines_may_be_lost_has_to_be_said():
    with pytest.raises(ValueError, match="a port between 1 and 65535, got '80'"):
        ReadFromSocket("localhost", "80", at_most_once=True)
    with pytest.raises(ValueError, match="at_most_once=True"):
        ReadFromSocket("localhost", 9999)
    read = ReadFromSocket("localhost", 9999, at_most_once=True)
    assert not read.source.replayable
    assert not (beam.Pipeline() | read).is_bounded
