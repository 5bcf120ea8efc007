"""Keys of a real Redis hold what signed elements come to, all that a commit changes or nothing of it."""

import itertools
import pickle
import random
import sys

import pytest

import penstock as beam
from penstock.io import WriteToRedis
from penstock.io.redis import changes
from penstock.io.redis import sink as redis_sink
from penstock.io.redis.sink import RedisSink
from penstock.io.sinks import net_changes
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import MissingExtraError, SinkError
from penstock.sdk.sink import LabelledSink
from penstock.testing import ScriptedSource
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing.windows import IntervalWindow

_prefixes = (f"test{n}:" for n in itertools.count())
MINUTE = (IntervalWindow(0, 60),)
NEXT_MINUTE = (IntervalWindow(60, 120),)


class Keys:
    """The keys of a test's own."""

    def __init__(self, server):
        self.url = server.url
        self.client = server.client()
        self.prefix = next(_prefixes)

    def sink(self, **options):
        return LabelledSink(WriteToRedis(self.url, self.prefix, **options).sink, "WriteToRedis")

    def write(self, transaction, *bundles, **options):
        sink = self.sink(**options)
        sink.prepare(transaction)
        sink.commit(transaction, self.stage(sink, transaction, *bundles))

    def stage(self, sink, transaction, *bundles):
        """Return the tokens that workers stage, one worker for each bundle."""
        tokens = []
        for number, bundle in enumerate(bundles):
            writer = pickle.loads(pickle.dumps(sink.sink)).open_writer(sink.context(transaction, f"unit{number}"))
            writer.write(bundle)
            tokens.append(pickle.loads(pickle.dumps(writer.stage())))
        return tokens

    def found(self):
        kinds = {key: self.client.type(key) for key in self.client.scan_iter(f"{self.prefix}*")}
        read = {"string": self.client.get, "hash": self.client.hgetall}
        return {key.removeprefix(self.prefix): read[kind](key) for key, kind in kinds.items()}

    def left(self):
        """The sink's own keys, but for that of what was committed."""
        return sorted(
            key
            for key in self.client.scan_iter(f"{self.sink().sink.own('WriteToRedis')}*")
            if not key.endswith(":committed")
        )


@pytest.fixture
def keys(redis_server):
    return Keys(redis_server)


def signed(*changes):
    """A bundle of (sign, key, value)."""
    return Bundle([(key, value) for _, key, value in changes], signs=[sign for sign, _, _ in changes])


def test_texts_numbers_and_records_are_kept(keys):
    """A record is a hash, without its fields that are None."""
    keys.write("1", Bundle([("a", "text"), ("b", 2), (3, 0.5), (b"c", {"n": 1, "name": "ann", "gone": None})]))
    assert {"a": "text", "b": "2", "3": "0.5", "c": {"n": "1", "name": "ann"}} == keys.found()
    assert [] == keys.left()


def test_a_key_is_set_corrected_and_deleted(keys):
    """Each in a transaction of its own; a hash loses the fields that it doesn't have any more."""
    keys.write("1", Bundle([("a", 1), ("b", {"x": 1, "y": 2})]))
    keys.write("2", signed((+1, "a", 2), (-1, "a", 1)), signed((+1, "b", {"x": 3}), (-1, "b", {"x": 1, "y": 2})))
    assert {"a": "2", "b": {"x": "3"}} == keys.found()
    keys.write("3", signed((-1, "a", 2), (-1, "b", {"x": 3})))
    assert {} == keys.found()


def test_a_retraction_of_what_a_key_does_not_hold_deletes_nothing(keys):
    """Text, a hash with other fields, another kind of key, or none at all."""
    keys.write("1", Bundle([("a", 1), ("b", {"x": 1, "y": 2}), ("c", 1)]))
    keys.client.rpush(keys.prefix + "list", "kept")
    keys.write("2", signed((-1, "a", 7), (-1, "b", {"x": 1}), (-1, "c", {"x": 1}), (-1, "list", 1), (-1, "none", 1)))
    keys.client.delete(keys.prefix + "list")
    assert {"a": "1", "b": {"x": "1", "y": "2"}, "c": "1"} == keys.found()


def test_the_latest_window_and_pane_stay(keys):
    """Wherever they were written; two of the same are an error."""
    keys.write("1", Bundle([("a", 2)], 5, NEXT_MINUTE), Bundle([("a", 1)], 7, MINUTE), Bundle([("b", 1)], 5, MINUTE))
    assert {"a": "2", "b": "1"} == keys.found()
    with pytest.raises(SinkError, match=r"WriteToRedis: .* Redis at .* key 'test\d+:b' has two values of one window"):
        keys.write("2", Bundle([("b", 3), ("b", 4)], 5, MINUTE))
    keys.sink().abort("2")
    assert ({"a": "2", "b": "1"}, []) == (keys.found(), keys.left())


def test_nothing_is_visible_before_the_commit_and_what_others_staged_is_never(keys):
    """Only tokens that the runner accepted count."""
    sink = keys.sink()
    sink.prepare("1")
    keys.stage(sink, "1", Bundle([("a", 1)]))
    accepted = keys.stage(sink, "1", *[Bundle([])] * 3, Bundle([("b", 1)]))[3:]
    assert {} == keys.found()
    sink.commit("1", accepted)
    assert ({"b": "1"}, []) == (keys.found(), keys.left())


def test_committing_twice_changes_nothing(keys):
    """Also when another client has changed a key meanwhile."""
    sink = keys.sink()
    sink.prepare("1")
    tokens = keys.stage(sink, "1", Bundle([("a", 1)]))
    sink.commit("1", tokens)
    keys.client.set(keys.prefix + "a", 7)
    sink.commit("1", tokens)
    assert {"a": "7"} == keys.found()


def test_a_committed_transaction_is_remembered_though_the_clock_was_set_back(keys, monkeypatch):
    """Those that are forgotten are the oldest, and not the ones with the earliest times."""
    monkeypatch.setattr(redis_sink, "_REMEMBERED", 2)
    for time, name in ((2_000.0, "1"), (2_001.0, "2"), (1_000.0, "3")):
        monkeypatch.setattr(redis_sink.time, "time", lambda time=time: time)
        sink = keys.sink()
        sink.prepare(name)
        tokens = keys.stage(sink, name, Bundle([("a", int(name))]))
        sink.commit(name, tokens)
    keys.client.set(keys.prefix + "a", 7)
    sink.commit("3", tokens)
    assert {"a": "7"} == keys.found()


def test_of_a_series_of_transactions_the_last_one_stands_for_those_before(keys):
    """After any number of commits, and with numbers of any width."""
    sink = keys.sink()
    committed = {}
    for name in ("00000001-ab", "00000002-ab", "000000000001-ab", "00000001-cd-1"):
        sink.prepare(name)
        committed[name] = keys.stage(sink, name, Bundle([("a", len(committed))]))
        sink.commit(name, committed[name])
    for name, tokens in committed.items():
        sink.commit(name, tokens)
    last = keys.client.hgetall(sink.sink.own("WriteToRedis", "last", "committed"))
    assert {
        "________-ab": "00000002-ab",
        "____________-ab": "000000000001-ab",
        "________-cd-1": "00000001-cd-1",
    } == last
    assert {"a": "3"} == keys.found()
    with pytest.raises(SinkError, match="staged changes of transaction '00000003-ab' are gone"):
        sink.commit("00000003-ab", committed["00000001-ab"])


def test_an_aborted_transaction_leaves_nothing_and_takes_nothing(keys):
    """A worker that didn't hear of it is told."""
    sink = keys.sink()
    sink.prepare("1")
    writer = sink.sink.open_writer(sink.context("1", "late"))
    keys.stage(sink, "1", Bundle([("a", 1)]))
    sink.abort("1")
    sink.abort("1")
    writer.write(Bundle([("b", 1)]))
    with pytest.raises(SinkError, match="transaction '1' isn't prepared in Redis at 127.0.0.1"):
        writer.stage()
    assert ({}, []) == (keys.found(), keys.left())


def test_staged_changes_that_are_gone_are_an_error(keys):
    """Nothing of the rest is published."""
    sink = keys.sink()
    sink.prepare("1")
    tokens = keys.stage(sink, "1", Bundle([("a", 1)]), Bundle([("b", 1), ("b", 1)]))
    keys.client.delete(tokens[1][0])
    with pytest.raises(SinkError, match="2 of 2 staged changes of transaction '1' are gone"):
        sink.commit("1", tokens)
    sink.abort("1")
    assert ({}, []) == (keys.found(), keys.left())


@pytest.mark.parametrize("is_read", [False, True])
def test_a_concurrent_commit_is_noticed(keys, monkeypatch, is_read):
    """As when a worker was taken for dead: it is committed once, before this one has read the changes or after."""
    sink = keys.sink()
    sink.prepare("1")
    tokens = keys.stage(sink, "1", Bundle([("a", 1)]))
    net, calls = RedisSink.net, []

    def meanwhile(self, changes, rejected):
        calls.append(1)
        if len(calls) == 1 and not is_read:
            commit()
        effects = list(net(self, changes, rejected))
        if len(calls) == 1 and is_read:
            commit()
        return effects

    def commit():
        keys.sink().commit("1", tokens)
        keys.client.set(keys.prefix + "a", 7)

    monkeypatch.setattr(RedisSink, "net", meanwhile)
    sink.commit("1", tokens)
    assert ({"a": "7"}, 2) == (keys.found(), len(calls))


def test_a_commit_that_ends_half_way_has_changed_nothing(keys, monkeypatch):
    """The server forgets the commands that it has queued; the next commit applies all changes, from the disk."""
    monkeypatch.setattr(net_changes, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(changes, "_AT_ONCE", 3)
    sink = keys.sink()
    sink.prepare("1")
    tokens = keys.stage(sink, "1", Bundle([(f"k{n}", n) for n in range(20)]))
    commands, sent = changes.commands, []

    def ending(effects):
        for command in commands(effects):
            if len(sent) == 4:
                raise OSError("no space left on the disk")
            sent.append(command)
            yield command

    with monkeypatch.context() as patch:
        patch.setattr(redis_sink, "commands", ending)
        with pytest.raises(OSError, match="no space left"):
            sink.commit("1", tokens)
    assert (4, {}) == (len(sent), keys.found())
    for _ in range(2):
        sink.commit("1", tokens)
        assert {f"k{n}": str(n) for n in range(20)} == keys.found()
    assert [] == keys.left()


@pytest.mark.parametrize("seed", range(20))
def test_any_order_and_split_of_changes_comes_to_the_same(keys, seed):
    """The successive values of each key over several transactions."""
    draw, held = random.Random(seed), {}
    for transaction in range(3):
        changes = []
        for _ in range(draw.randint(0, 12)):
            key, value = draw.choice("abc"), draw.choice([None, 1, 2, {"x": 1}, {"x": 2, "y": 1}])
            changes += [(-1, key, held.pop(key))] if key in held else []
            if value is not None:
                held[key] = value
                changes.append((+1, key, value))
        draw.shuffle(changes)
        units = [[] for _ in range(3)]
        for change in changes:
            draw.choice(units).append(change)
        keys.write(str(transaction), *(signed(*unit) for unit in units if unit))
        expected = {k: {n: str(x) for n, x in v.items()} if isinstance(v, dict) else str(v) for k, v in held.items()}
        assert expected == keys.found()
    assert [] == keys.left()


def test_what_redis_can_not_keep_is_named(keys):
    """With what was found and expected."""
    for element, message in [
        (1, r"expected \(key, value\) pairs, got 1"),
        (("a", [1]), r"the value of b'test\d+:a' is a list, \[1\]; expected text, bytes or a number, or a record"),
        (("a", {"x": [1]}), "the field 'x' of .* is a list"),
        (("a", {"x": None}), "has no field that isn't None"),
        ((None, 1), "the key is a NoneType, None; expected text, bytes or a number$"),
        (("a", True), "is a bool, True"),
    ]:
        with pytest.raises(SinkError, match=message):
            keys.write("1", Bundle([element]))


def test_a_server_that_can_not_be_reached_is_named_without_its_password(redis_server):
    """Before anything runs."""
    sink = LabelledSink(WriteToRedis(f"redis://:hush@127.0.0.1:{redis_server.port}/0").sink, "WriteToRedis")
    with pytest.raises(SinkError, match=r"keys '\*' can't be written: Redis at 127.0.0.1:\d+/0: .*password") as error:
        sink.prepare("1")
    assert "hush" not in str(error.value)


def test_without_the_package_the_extra_is_named(monkeypatch):
    """While the pipeline is built."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match=r"WriteToRedis needs .* 'penstock\[redis\]'"):
        WriteToRedis("redis://nowhere")


@pytest.mark.parametrize("flags", [{}, {"parallelism": 2, "workers": 1}], ids=["alone", "side by side"])
def test_a_stream_with_retractions_ends_with_the_rows_of_a_batch_run(keys, flags):
    """Sums by key are put out early, and taken back; so is how many there are of each."""
    numbers = [[beam.window.TimestampedValue(n, n // 10) for n in range(start, 300, 2)] for start in range(2)]
    options = beam.options.pipeline_options.PipelineOptions(checkpoint_interval=0.3, **flags)
    early = {"accumulation_mode": AccumulationMode.RETRACTING}
    with beam.Pipeline(options=options) as p:
        sums = (
            p
            | beam.io.Read(ScriptedSource(numbers))
            | beam.Map(lambda n: (n % 7, n))
            | beam.WindowInto(beam.window.FixedWindows(30), trigger=AfterWatermark(early=AfterCount(3)), **early)
            | beam.CombinePerKey(sum)
        )
        _ = (
            sums
            | "Remainder" >> beam.MapTuple(lambda key, total: (total % 3, total))
            | "All"
            >> beam.WindowInto(beam.window.FixedWindows(60), trigger=AfterWatermark(early=AfterCount(2)), **early)
            | "Totals" >> beam.CombinePerKey(sum)
            | "Hash" >> beam.MapTuple(lambda remainder, total: (remainder, {"total": total}))
            | beam.io.WriteToRedis(keys.url, keys.prefix)
        )
    totals = {key: sum(n for n in range(300) if n % 7 == key) for key in range(7)}
    expected = {}
    for total in totals.values():
        expected[str(total % 3)] = {"total": str(int(expected.get(str(total % 3), {}).get("total", 0)) + total)}
    assert (expected, []) == (keys.found(), keys.left())
