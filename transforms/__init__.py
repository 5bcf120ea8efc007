"""The library of transforms, all composed of the model's primitives.

Primitives, and transforms directly on top of them:

create.py             Create, Impulse: PCollections of given values
read.py               Read: the elements of a source
periodic_sequence.py  PeriodicImpulse, PeriodicSequence: elements at regular intervals
write.py              Write: elements into a sink
pardo.py              ParDo: DoFns applied to each element, and the handling of their exceptions
argument_types.py     types of functions' arguments and side inputs
side_input_panes.py   the panes that a view of a side input shows
refreshed_side_input.py RefreshedSideInput: a side input that is loaded at intervals
map_and_filter.py     Map, FlatMap, Filter, MapTuple, FlatMapTuple: functions of elements
async_map.py          AsyncMap: async functions of elements, with timeouts, retries and rate limits
filled_collections.py warnings of Map(list.append) and DoFns that do the same, which fill a copy of the list
splittable_par_do.py  ParDo of a splittable DoFn
assign_windows.py     WindowInto (AssignWindows): windows, triggers and accumulation
group_by_key.py       GroupByKey (GroupByKeyAndWindow): the values of each key and window
combine.py            CombinePerKey, CombineGlobally, CombineValues: aggregations
hot_key_fanout.py     aggregation of hot keys in two steps
feedback.py           Feedback: a loop
flatten.py            Flatten, FlattenWith: several PCollections as one

Pairs, groups and parts:

keys.py               Keys, Values, KvSwap, WithKeys: items of pairs, and pairs of values
secret.py             Secret: keys of the encryption of groups
group_by_encrypted_key.py GroupByEncryptedKey: groups that are encrypted while they are grouped
co_group_by_key.py    CoGroupByKey: several PCollections grouped by their keys
group_by.py           GroupBy, Select: grouping by fields, and selecting them
distinct.py           Distinct: each element once
deduplicate.py        Deduplicate, DeduplicatePerKey: each element once within a span of time
partition.py          Partition: a PCollection split into several

Batches:

batch_elements.py     BatchElements: lists of adaptive size
buffered_batches.py   ... buffered from one bundle to the next
sort_and_batch.py     SortAndBatchElements: lists of elements of similar size
group_into_batches.py GroupIntoBatches: lists of each key's values
length_bucket.py      WithLengthBucketKey: elements of similar length under one key

Times, windows and order:

with_timestamps.py    WithTimestamps: event times computed from elements
reify.py              Reify: timestamps and windows as parts of the value
reshuffle.py          Reshuffle: redistribution over the workers
watch.py              Watch: new outputs of a function that is polled
poll_result.py        PollResult: the result of a poll; after_total_of: the end of polling
wait_on.py            WaitOn: held back until others are done

Text, logging and errors:

regex.py              Regex: regular expressions
to_string.py          ToString: elements as text
log_elements.py       LogElements: prints or logs elements
tee.py                Tee: a branch of a chain of transforms
error_handling.py     dead letters: elements for which a function raises an exception
runtime_type_check.py checks of elements against type hints

Ready-made aggregations:

combiners/            Count, Mean, Top, Sample, ToList, ApproximateQuantiles and others
stats.py              the approximate ones, under Beam's module name

Imported when used:

enrichment.py         Enrichment: rows joined with the answers of a service, which may be cached
request_response.py   RequestResponseIO: the answers of a service, with throttling and repeats
response_caches.py    caches of answers, in memory and in Redis
async_dofn.py         AsyncWrapper: the calls of a DoFn in the background
sql/                  SqlTransform: SQL by DuckDB

Names at Beam's paths, for type checkers (at run time `sdk/namespaces.py` has them):

core.py               transforms and DoFns
ptransform.py         PTransform
trigger.py            triggers
userstate.py          states and timers
util.py               transforms for pairs, batches and times
window.py             windows and timestamps
"""

from typing import TYPE_CHECKING, Any

from .assign_windows import AssignWindows, Windowing, WindowInto
from .async_map import AsyncMap
from .batch_elements import BatchElements
from .co_group_by_key import CoGroupByKey
from .combine import CombineGlobally, CombinePerKey, CombineValues
from .create import Create, Impulse
from .deduplicate import Deduplicate, DeduplicatePerKey
from .distinct import Distinct, RemoveDuplicates
from .error_handling import CollectingErrorHandler, ErrorHandler
from .feedback import Feedback
from .flatten import Flatten, FlattenWith
from .group_by import GroupBy, Select
from .group_by_encrypted_key import GroupByEncryptedKey
from .group_by_key import GroupByKey, GroupByKeyAndWindow
from .group_into_batches import GroupIntoBatches
from .keys import Keys, KvSwap, Values, WithKeys
from .length_bucket import WithLengthBucketKey
from .log_elements import LogElements
from .map_and_filter import Filter, FlatMap, FlatMapTuple, Map, MapTuple
from .pardo import ExceptionHandling, ParDo
from .partition import Partition, PartitionFn
from .periodic_sequence import PeriodicImpulse, PeriodicSequence
from .poll_result import PollResult
from .read import Read
from .refreshed_side_input import RefreshedSideInput
from .regex import Regex
from .reify import Reify
from .reshuffle import Reshuffle, ReshufflePerKey
from .sort_and_batch import SortAndBatchElements
from .tee import Tee
from .to_string import ToString
from .wait_on import WaitOn
from .watch import Watch
from .with_timestamps import WithTimestamps
from .write import Write

from . import combiners, stats  # isort: skip
from .combiners import ApproximateQuantiles, ApproximateUnique  # isort: skip

# Beam's namespaces, which the package above sets: `beam.transforms.userstate.TimerSpec`.
if TYPE_CHECKING:
    from . import core as core
    from . import ptransform as ptransform
    from . import trigger as trigger
    from . import userstate as userstate
    from . import util as util
    from . import window as window
sideinputs: Any
timeutil: Any

__all__ = [
    # The primitives.
    "Create",
    "Impulse",
    "Read",
    "PeriodicImpulse",
    "PeriodicSequence",
    "RefreshedSideInput",
    "Watch",
    "PollResult",
    "Write",
    "ParDo",
    "Map",
    "AsyncMap",
    "FlatMap",
    "Filter",
    "MapTuple",
    "FlatMapTuple",
    "AssignWindows",
    "WindowInto",
    "Windowing",
    "GroupByKeyAndWindow",
    "GroupByKey",
    "GroupByEncryptedKey",
    "CombinePerKey",
    "CombineGlobally",
    "CombineValues",
    "Feedback",
    "Flatten",
    "FlattenWith",
    # Pairs, groups and parts.
    "Keys",
    "Values",
    "KvSwap",
    "WithKeys",
    "CoGroupByKey",
    "GroupBy",
    "Select",
    "Distinct",
    "RemoveDuplicates",
    "Deduplicate",
    "DeduplicatePerKey",
    "Partition",
    "PartitionFn",
    # Batches.
    "BatchElements",
    "SortAndBatchElements",
    "GroupIntoBatches",
    "WithLengthBucketKey",
    # Times, windows and order.
    "WithTimestamps",
    "Reify",
    "Reshuffle",
    "ReshufflePerKey",
    "WaitOn",
    # Text, logging and errors.
    "Regex",
    "ToString",
    "LogElements",
    "Tee",
    "ExceptionHandling",
    "ErrorHandler",
    "CollectingErrorHandler",
    # Ready-made aggregations.
    "combiners",
    "stats",
    "ApproximateQuantiles",
    "ApproximateUnique",
]
