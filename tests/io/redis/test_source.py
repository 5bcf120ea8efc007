"""Redis Streams, on a real server: entries by their ids, again and again, until they are trimmed."""

import itertools
import sys

import pytest
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io import ReadFromRedisStream, RedisStreamEntry
from penstock.sdk.errors import MissingExtraError, SourceError
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MIN_MICROS

_numbers = itertools.count()


class Stream:
    """A stream of a test's own."""

    def __init__(self, server):
        self.url = server.url
        self.client = server.client()
        self.name = f"clicks{next(_numbers)}"

    def add(self, *seconds):
        """Entries that say of themselves which second they are of."""
        for second in seconds:
            self.client.xadd(self.name, {"second": str(second)}, id=f"{second * 1000}-*")

    def source(self, **options):
        return ReadFromRedisStream(self.url, self.name, **options).source

    def reader(self, offset=None, **options):
        return self.source(**options).open(self.name, offset)


@pytest.fixture
def stream(redis_server):
    return Stream(redis_server)


def seconds(entries):
    return [int(entry.fields["second"]) for entry in entries]


def test_entries_come_in_order_and_happened_when_they_were_added(stream):
    """The watermark follows the last one."""
    stream.add(5, 7)
    (partition,) = stream.source().partitions()
    reader = stream.source().open(partition, None)
    assert MIN_MICROS == reader.watermark(Timestamp(100))

    assert [
        (RedisStreamEntry(stream.name, "5000-0", {"second": "5"}), 5_000_000),
        (RedisStreamEntry(stream.name, "7000-0", {"second": "7"}), 7_000_000),
    ] == elements(reader.poll(10, Timestamp(100)))
    assert 7_000_000 == reader.watermark(Timestamp(100))
    assert [] == polled(reader, 100)
    stream.add(7, 9)
    assert ["7000-1", "9000-0"] == [entry.id for entry in polled(reader, 100)]


def test_entries_are_read_again_from_any_offset_and_in_micro_batches(stream):
    """Also when more were added since."""
    stream.add(1, 2, 3, 4, 5)
    made = stream.source()

    assert [1, 2, 3, 4, 5] == seconds(check_replay(made, stream.name, 100))
    end = made.open(stream.name, None).admit(3, None, Timestamp(100))
    stream.add(6)
    (batch,) = made.open(stream.name, None).read_to(end, Timestamp(100))
    assert [1, 2, 3] == seconds(batch.values)


def test_how_much_waits_is_known(stream):
    """As of the last poll."""
    stream.add(1, 2, 3)
    reader = stream.reader()
    reader.poll(1, Timestamp(0))

    assert 2 == reader.backlog()


def test_entries_that_were_trimmed_before_they_were_read_are_an_error(stream):
    """While it is read, and after a failure; those that were read may go."""
    stream.add(1, 2, 3, 4)
    reader = stream.reader()
    reader.poll(2, Timestamp(0))
    offset = reader.offset()
    stream.client.xtrim(stream.name, maxlen=2, approximate=False)
    assert [3] == seconds(reader.poll(1, Timestamp(0)).values)
    stream.add(5, 6)
    stream.client.xtrim(stream.name, maxlen=1, approximate=False)

    with pytest.raises(
        SourceError, match=f"{stream.name}.* all entries after 3000-0 .* 2 of them or more were removed"
    ):
        reader.poll(1, Timestamp(0))
    with pytest.raises(SourceError, match="all entries after 2000-0 .* 3 of them or more"):
        stream.reader(offset).poll(1, Timestamp(0))


def test_what_was_there_before_and_is_gone_is_none_of_ours(stream):
    """A stream that was trimmed, or that entries were deleted from, is read from what is left."""
    stream.add(1, 2, 3, 4)
    stream.client.xtrim(stream.name, maxlen=3, approximate=False)
    stream.client.xdel(stream.name, "3000-0")
    reader = stream.reader()
    assert [2, 4] == seconds(polled(reader, 0))
    stream.client.xtrim(stream.name, maxlen=0, approximate=False)
    stream.add(5)

    assert [5] == seconds(polled(reader, 0))


def test_a_stream_that_was_deleted_is_an_error(stream):
    """It would begin anew with ids that were read before."""
    stream.add(1)
    reader = stream.reader()
    polled(reader, 0)
    stream.client.delete(stream.name)

    with pytest.raises(SourceError, match="read up to 1000-0, found none; was it deleted"):
        reader.poll(1, Timestamp(0))


def test_what_a_durable_checkpoint_holds_may_be_trimmed(stream):
    """If that is asked for, up to the checkpoint's offset and no further."""
    stream.add(1, 2, 3)
    reader = stream.reader(trim=True)
    reader.poll(2, Timestamp(0))
    offset = reader.offset()
    polled(reader, 0)
    reader.acknowledge(None)
    reader.acknowledge(offset)

    assert ["3000-0"] == [id for id, _ in stream.client.xrange(stream.name)]
    assert [3] == seconds(polled(stream.reader(offset), 0))


def test_a_group_is_told_how_far_checkpoints_have_come_and_says_where_to_begin(stream):
    """It is made when it isn't there; without a checkpoint reading begins after it."""
    stream.add(1, 2, 3)
    reader = stream.reader(group="sums")
    for expected in ("1000-0", "2000-0"):
        reader.poll(1, Timestamp(0))
        reader.acknowledge(reader.offset())
        (group,) = stream.client.xinfo_groups(stream.name)
        assert ("sums", expected) == (group["name"], group["last-delivered-id"])

    assert [3] == seconds(polled(stream.reader(group="sums"), 0))
    assert [1, 2, 3] == seconds(polled(stream.reader(group="others"), 0))


def test_bytes_stay_bytes_if_that_is_asked_for(stream):
    """Otherwise what isn't UTF-8 is an error."""
    stream.client.xadd(stream.name, {b"\xff": b"\xfe"})

    assert [{b"\xff": b"\xfe"}] == [entry.fields for entry in polled(stream.reader(decode=False), 0)]
    with pytest.raises(SourceError, match=r"not UTF-8 \(0xff\).*decode=False"):
        stream.reader().poll(1, Timestamp(0))


def test_a_server_that_can_not_be_reached_is_named_without_its_password(redis_server):
    """The cause of the error doesn't contain the password either."""
    wrong = f"redis://:hush@127.0.0.1:{redis_server.port}/0"

    with pytest.raises(
        SourceError, match=f"streams can't be read: Redis at 127.0.0.1:{redis_server.port}/0: .*password"
    ) as error:
        ReadFromRedisStream(wrong, "clicks").source.partitions()
    assert "hush" not in f"{error.value} {error.value.__cause__}"


def test_several_streams_are_partitions_and_the_transform_is_unbounded():
    """Nothing is connected to while the pipeline is built."""
    read = ReadFromRedisStream("redis://nowhere", ["a", "b"])

    assert ("a", "b") == read.source.streams
    assert not (beam.Pipeline() | read).is_bounded
    with pytest.raises(ValueError, match="the name of a stream, got none"):
        ReadFromRedisStream("redis://nowhere", [])
    with pytest.raises(ValueError, match="expected a URL"):
        ReadFromRedisStream("nowhere", "a")


def test_without_the_package_the_extra_is_named(monkeypatch):
    """While the pipeline is built."""
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(MissingExtraError, match=r"ReadFromRedisStream needs .* 'penstock\[redis\]'"):
        ReadFromRedisStream("redis://nowhere", "a")
