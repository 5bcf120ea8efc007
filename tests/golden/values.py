"""A value of each stored type, by tag and version, and a chunk of each kind.

`write.py` adds the bytes of those that aren't in `files/values.json` and `files/chunks.json` yet.
"""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

import penstock as beam
from penstock.io.cdc.postgres_log import Offset
from penstock.io.cdc.postgres_tables import Table
from penstock.io.cdc.row_change import RowChange
from penstock.io.cdc.sequenced_rows import LatestSequencedRow, SequencedChange
from penstock.io.files.filesystem import FileMetadata
from penstock.io.files.matching import ReadableFile
from penstock.io.files.sinks.staged_file import StagedFile
from penstock.io.files.source import FileRange
from penstock.io.kafka.bounded import Range
from penstock.io.kafka.records import KafkaHeader, KafkaRecord
from penstock.io.kafka.source import TopicPartition
from penstock.io.mqtt.messages import MqttMessage
from penstock.io.nats.bounded import Range as NatsRange
from penstock.io.nats.messages import NatsMessage
from penstock.io.pubsub.messages import PubsubMessage
from penstock.io.redis.source import RedisStreamEntry
from penstock.runners.execution.plan.source_identities import PartitionPosition
from penstock.runners.execution.stages.recorded_outputs import MemoryChanges
from penstock.runners.execution.stages.side_inputs import ViewChangeKind
from penstock.runners.execution.state.keyed_state import ChangeKind
from penstock.runners.execution.streaming import snapshot_chunks as kinds
from penstock.runners.execution.streaming.snapshot_chunks import Chunk, bodies
from penstock.runners.execution.streaming.sources import SplitPartition
from penstock.runners.execution.windows.retractions import Multiset, SignedInputs, SignedWindows
from penstock.runners.execution.windows.snapshots import WindowRecord
from penstock.runners.local.channels.messages import ClockMoved, SignalCame
from penstock.runners.local.subtask.replay_dedup import NUMBERS, ORIGIN
from penstock.runners.spark.micro_batch.structured_streaming import _Position
from penstock.sdk.coders.avro import AvroRecord
from penstock.sdk.coders.key_encoding import CodedKey
from penstock.sdk.coders.sharded_key import ShardedKey
from penstock.sdk.columns import column_elements
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_groups import Collected, Lists, Tagged
from penstock.sdk.combine_fn import NOTHING
from penstock.sdk.dofn.batch_bundle import BatchBundle
from penstock.sdk.dofn.offset_range import OffsetRange
from penstock.sdk.elements.element_wrappers import Remainder, Retracted, TaggedOutput, WindowedValue
from penstock.sdk.sources.splittable_source import InitialRestriction
from penstock.sdk.spark_interfaces import Block
from penstock.sdk.typehints.batch import BatchConverter, NumpyArray
from penstock.sdk.userstate.bag import Chunks
from penstock.sdk.userstate.combining_value import Accumulator
from penstock.sdk.userstate.ordered_list import Timeline
from penstock.transforms.combiners.approximate_quantiles import Ranked
from penstock.transforms.combiners.count_distinct import _NOT_ITSELF
from penstock.transforms.combiners.distinct_sketch import DistinctSketch
from penstock.transforms.combiners.quantile_sketches import KllSketch, VarOptSketch
from penstock.transforms.combiners.to_list import _Early
from penstock.transforms.groups.group_by import named_tuple
from penstock.transforms.times.poll_result import PollResult
from penstock.transforms.times.watch import _Growth
from penstock.triggers import AccumulationMode
from penstock.triggers.after_watermark import Phase
from penstock.triggers.data_driven import Seen
from penstock.triggers.lifetime import FINISHED
from penstock.triggers.pane import PaneInfo, PaneInfoTiming
from penstock.windowing import (
    GLOBAL_WINDOW,
    Duration,
    IntervalWindow,
    Timestamp,
    TimestampCombiner,
    TimestampedValue,
)

WINDOW = IntervalWindow(0, 10)
PANE = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)


def _kll() -> KllSketch:
    sketch = KllSketch(200)
    sketch.add(3, 1)
    return sketch


def _var_opt() -> VarOptSketch:
    sketch = VarOptSketch(200)
    sketch.add("a", 2.5)
    return sketch


def _distinct() -> DistinctSketch:
    sketch = DistinctSketch(12)
    sketch.add(b"a")
    return sketch


def _signed() -> SignedInputs:
    inputs = SignedInputs()
    inputs.accumulator, inputs.count, inputs.others, inputs.stamps = 7, 2, _multiset(), None
    return inputs


def _signed_windows() -> SignedWindows:
    windows = SignedWindows()
    windows.by_window[WINDOW] = _signed()
    return windows


def _multiset() -> Multiset:
    values = Multiset()
    values.add("a", 2)
    values.add([1], 1)
    return values


def _not_a_number() -> Any:
    values = Multiset()
    values.add(float("nan"), 1)
    return next(iter(values._counts))


def _timeline() -> Timeline:
    timeline = Timeline()
    timeline.add(5, "a")
    return timeline


_COLUMNS = pyarrow.record_batch({"a": [1, 2]})
_TAGGED = Tagged(1, column_elements.as_rows)
_CONVERTER = BatchConverter.from_typehints(element_type=int, batch_type=numpy.ndarray)

_ORDERS = Table("public.orders", 16384, (("id", 23), ("price", 1700)), (("id", "integer"),))

_SEQUENCED = SequencedChange(RowChange(1, {"a": 1, "b": 2}, 5, 0, ("b",)), ("lsn", (7,)), b"reader", 3)

VALUES: dict[str, Any] = {
    "accumulation-mode/1": AccumulationMode.RETRACTING,
    "accumulator-state/1": Accumulator((5, 2)),
    "avro-record/1": AvroRecord({"name": "ann"}),
    "bag-state/1": Chunks([1, "a"]),
    "coded-key/1": CodedKey(b"k", "key"),
    "distinct-sketch/1": _distinct(),
    "duration/1": Duration(1.5),
    "early-retraction/1": _Early(("a", 1)),
    "file-metadata/1": FileMetadata("a.txt", 5, 1.5),
    "file-range/1": FileRange("a.txt", 5, 10, 20, 1.5),
    "frame-block/1": Block(b"schema", b"rows"),
    "frame-stream-position/1": _Position(3, 5, 7, False, True, {"query": "q"}),
    "global-window/1": GLOBAL_WINDOW,
    "group-by-key/1": named_tuple("Key", ("a", "b"))(1, 2),
    "initial-restriction/1": InitialRestriction(1, 2, "element", OffsetRange(0, 5)),
    "interval-window/1": WINDOW,
    "kafka-header/1": KafkaHeader("a", b"1"),
    "kafka-partition/1": TopicPartition("t", 3, True),
    "kafka-range/1": Range(TopicPartition("t", 3), 5, 9, 1_000_000),
    "kafka-record/1": KafkaRecord("t", 3, 5, 1000, b"k", b"v", [KafkaHeader("a", b"1")], 0, "CreateTime"),
    "kll-sketch/1": _kll(),
    "pubsub-message/1": PubsubMessage(b"tea", {"user": "ann"}, "7", Timestamp(5), "ann"),
    "mqtt-message/1": MqttMessage("home/kitchen", b"21.5", 1, False, {"unit": "C"}),
    "multiset/1": _multiset(),
    "nats-message/1": NatsMessage("orders", 7, "orders.new", b"tea", {"a": "b"}, 1_000_000),
    "nats-range/1": NatsRange("orders.new", 5, 9, 1_000_000),
    "not-a-number/1": _not_a_number(),
    "latest-sequenced-row/1": LatestSequencedRow(_SEQUENCED, {"a": 1, "b": 2}, {"b": None}),
    "nothing/1": NOTHING,
    "offset-range/1": OffsetRange(0, 5),
    "ordered-list-state/1": _timeline(),
    "pane-info/1": PANE,
    "pane-timing/1": PaneInfoTiming.LATE,
    "precise-timestamp/1": Timestamp(1, 123456789, Timestamp.NANOS_PRECISION),
    "poll-result/1": PollResult(("a",), Timestamp(5), True, False),
    "postgres-changes-offset/1": Offset("7", "00000001", (_ORDERS,), 700, 5, 6, 0, ("1",), 8, 9),
    "postgres-table/1": _ORDERS,
    "ranked/1": Ranked(1, "a"),
    "readable-file/1": ReadableFile(FileMetadata("a.txt", 5, 1.5), "gzip"),
    "redis-stream-entry/1": RedisStreamEntry("prices", "1-0", {"a": "b"}),
    "row-change/1": RowChange(-1, beam.Row(a=1), 5, 2, ("b",)),
    "remainder/1": Remainder("element", (OffsetRange(0, 5),), None),
    "retracted/1": Retracted(5),
    "row/1": beam.Row(a=1, b="x"),
    "sharded-key/1": ShardedKey("k", b"1"),
    "sequenced-change/1": _SEQUENCED,
    "side-input-change/1": ViewChangeKind.COME,
    "signed-inputs/1": _signed(),
    "signed-windows/1": _signed_windows(),
    "split-partition/1": SplitPartition(1, 2, "split"),
    "staged-file/1": StagedFile("a", 5, 1, "group"),
    "staged-file/2": StagedFile("a", 5, 1, "group", 3),
    "state-change/1": ChangeKind.APPEND,
    "tagged-output/1": TaggedOutput("tag", 5),
    "time-domain/1": beam.TimeDomain.REAL_TIME,
    "timestamp/1": Timestamp(1.5),
    "timestamp-combiner/1": TimestampCombiner.OUTPUT_AT_LATEST,
    "timestamped-value/1": TimestampedValue("a", 5),
    "trigger-finished/1": FINISHED,
    "trigger-phase/1": Phase(True, 3),
    "trigger-seen/1": Seen(2, 10, "own"),
    "column-bundle/1": ColumnBundle(_COLUMNS, column_elements.as_rows),
    "dicts-of-columns/1": column_elements.as_dicts,
    "rows-of-columns/1": column_elements.as_rows,
    "values-of-columns/1": column_elements.as_values,
    "tuples-of-columns/1": column_elements.of_columns,
    "nones-of-columns/1": column_elements.as_nones,
    "pairs-of-columns/1": column_elements.Pairs(1, column_elements.as_values, column_elements.of_columns),
    "tagged-columns/1": _TAGGED,
    "lists-of-columns/1": Lists((_TAGGED,)),
    "collected-columns/1": Collected(Lists((_TAGGED,)), 2, ("left", "right")),
    "not-itself/1": _NOT_ITSELF,
    "numpy-array-type/1": NumpyArray[float, ("N", 3)],
    "batch-converter/1": _CONVERTER,
    "batch-bundle/1": BatchBundle(_CONVERTER, numpy.array([1, 2])),
    "varopt-sketch/1": _var_opt(),
    "watched-growth/1": _Growth(5, 4, True, 3, (("a", 1),), ((1, "a", 2),), 0),
    "windowed-value/1": WindowedValue("a", 5, (WINDOW,), PANE),
}

_ROW = (("k", 1), 5, (WINDOW,), PANE, 1)

CHUNKS: dict[str, Chunk] = {
    f"{tag}/{version}": chunk
    for chunk in (
        Chunk("Sum", kinds.WINDOWS, 3, [WindowRecord("k", WINDOW, ((None, False, 5),))]),
        Chunk("Sum", kinds.RUNS, 3, [WindowRecord("k", WINDOW, ((None, False, 5),))]),
        Chunk("Keep", kinds.STATE, 3, [(WINDOW, "k", "seen", ChangeKind.PUT, 5)]),
        Chunk("Keep", kinds.TIMERS, 3, [("k", WINDOW, "end", "", 5, 5, PANE, beam.TimeDomain.WATERMARK)]),
        Chunk("Try", kinds.MEMORY, None, [(1, MemoryChanges(True, [], {3: (("a", 5, (WINDOW,)), [1, 2])}))]),
        Chunk("Limits", kinds.VIEW, None, [(WINDOW, ViewChangeKind.ALL, [1, 2], 0)]),
        Chunk("Sum", kinds.CLOCKS, None, (5, 7, None)),
        Chunk("Keep", kinds.KEPT, 3, [_ROW]),
        Chunk("Keep", kinds.LEFT, 3, [_ROW]),
        Chunk("Keep", kinds.WITHIN, None, [(1, [_ROW])]),
        Chunk("Sum", kinds.FOLDED, 3, [_ROW]),
        Chunk("Sum", f"{kinds.IN_FLIGHT} from Read", None, [b"block"]),
        Chunk("Sum", f"{kinds.IN_FLIGHT_BY_KEY} from Read", 3, [b"block"]),
        Chunk("Limits", kinds.IN_FLIGHT_BROADCAST, None, [b"block"]),
        Chunk("", kinds.NEWS, None, [ClockMoved(5), SignalCame(1, "now")]),
        Chunk("Read", kinds.POSITIONS, None, [PartitionPosition("a.txt", 5, 7, False)]),
        Chunk("Script", kinds.SCRIPT, None, 3),
        Chunk("Read", NUMBERS, None, (0, 2, {(1, 0): {"a.txt": 5}})),
        Chunk("Read", ORIGIN, None, (0, 2, "a.txt")),
    )
    for tag in [chunk.kind.partition(" from ")[0]]
    for version in bodies()[tag].readers
}
