"""Batches, and the other transforms of transforms.util."""

import apache_beam as beam
from apache_beam.transforms import util, window
from refusals import refused


def batch_elements() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(range(7), reshuffle=False)
            | beam.BatchElements(min_batch_size=3, max_batch_size=3)
            | beam.Map(len)
            | beam.CombineGlobally(lambda sizes: sum(sizes))
            | beam.Map(print)
        )


def batch_elements_refuses_its_arguments() -> None:
    with refused(ValueError):
        beam.BatchElements(min_batch_size=5, max_batch_size=3)


def batch_elements_by_size() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["a" * n for n in (5, 5, 5)], reshuffle=False)
            | beam.BatchElements(min_batch_size=10, max_batch_size=10, element_size_fn=len)
            | beam.Map(lambda batch: sum(map(len, batch)) <= 15)
            | beam.Distinct()
            | beam.Map(print)
        )


def group_into_batches() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", x) for x in range(5)] + [("b", 1)])
            | beam.GroupIntoBatches(2)
            | beam.MapTuple(lambda k, vs: (k, len(list(vs))))
            | beam.Map(print)
        )


def group_into_batches_by_window() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", x) for x in (1, 2, 3, 11)])
            | beam.Map(lambda kv: window.TimestampedValue(kv, kv[1]))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.GroupIntoBatches(2)
            | beam.Map(lambda kv, w=beam.DoFn.WindowParam: (kv[0], len(list(kv[1])), w))
            | beam.Map(print)
        )


def group_into_batches_refuses_its_arguments() -> None:
    with refused(Exception):
        beam.GroupIntoBatches(0)
    with refused(Exception):
        beam.GroupIntoBatches(None)


def reify() -> None:
    with beam.Pipeline() as p:
        stamped = p | beam.Create([("a", 1)]) | beam.Map(lambda kv: window.TimestampedValue(kv, kv[1]))
        stamped | beam.Reify.Timestamp() | "1" >> beam.Map(lambda x: print("timestamp", x))
        stamped | beam.Reify.Window() | "2" >> beam.Map(lambda x: print("window", x))
        (
            stamped
            | beam.Reify.TimestampInValue()
            | "3" >> beam.Map(lambda x: print("in value", x[0], x[1].value, x[1].timestamp))
        )
        stamped | beam.Reify.WindowInValue() | "4" >> beam.Map(lambda x: print("window in value", x))


def log_elements() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.LogElements(prefix="got: ") | beam.combiners.Count.Globally() | beam.Map(print)


def log_elements_with_everything() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.LogElements(with_timestamp=True, with_window=True)
        )


def log_elements_with_seconds() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.LogElements(with_timestamp=True, with_pane_info=True, use_epoch_time=True)
        )


def sharded_keys() -> None:
    from apache_beam.utils.sharded_key import ShardedKey

    print(ShardedKey("a", b"1") == ShardedKey("a", b"1"), ShardedKey("a", b"1").key, repr(ShardedKey("a", b"1")))
    print(ShardedKey("a", b"1") != ShardedKey("a", b"2"), len({ShardedKey("a", b"1"), ShardedKey("a", b"1")}))


def sort_and_batch() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["a" * n for n in (3, 1, 2)], reshuffle=False)
            | beam.SortAndBatchElements(min_batch_size=1, max_batch_size=2, max_batch_weight=100)
            | beam.Map(len)
            | beam.CombineGlobally(sum)
            | beam.Map(print)
        )


def length_buckets() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["a", "bbb", "cccccc"])
            | beam.ParDo(util.WithLengthBucketKey(length_fn=len, bucket_boundaries=[2, 4]))
            | beam.MapTuple(lambda key, text: print(key[1], text))
        )


def remove_duplicates() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 1, 2]) | util.Distinct() | beam.Map(print)


def reshuffle_keeps_timestamps() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1])
            | beam.Map(lambda x: window.TimestampedValue(x, x))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.Reshuffle()
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam: (x, t, w))
            | beam.Map(print)
        )


def reshuffle_per_key() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("a", 2)]) | util.ReshufflePerKey() | beam.Map(print)


def buckets_of_reshuffle_are_refused() -> None:
    with refused(ValueError, TypeError):
        beam.Reshuffle(0)
    with refused(ValueError, TypeError):
        beam.Reshuffle("a")


def co_group_of_three() -> None:
    with beam.Pipeline() as p:
        parts = [p | f"c{n}" >> beam.Create([("k", n)]) for n in range(3)]
        parts | beam.CoGroupByKey() | beam.Map(print)


def deduplicate() -> None:
    from apache_beam.transforms.deduplicate import Deduplicate

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, 1, 2])
            | beam.Map(lambda x: window.TimestampedValue(x, 10))
            | Deduplicate(event_time_duration=60)
            | beam.Map(print)
        )


def deduplicate_per_key() -> None:
    from apache_beam.transforms.deduplicate import DeduplicatePerKey

    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("a", 1), ("b", 2)])
            | beam.Map(lambda x: window.TimestampedValue(x, 10))
            | DeduplicatePerKey(processing_time_duration=60)
            | beam.Map(print)
        )


def deduplicate_without_a_duration() -> None:
    from apache_beam.transforms.deduplicate import Deduplicate

    with refused(ValueError), beam.Pipeline() as p:
        p | beam.Create([1]) | Deduplicate()
