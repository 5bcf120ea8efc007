"""The library of transforms, all composed of the model's primitives.

Primitives, and transforms directly on top of them:

create.py             Create, Impulse: PCollections of given values
read.py               Read: the elements of a source
write.py              Write: elements into a sink
par_do/               ParDo, Map, FlatMap, Filter and the like: functions of elements
assign_windows.py     WindowInto (AssignWindows): windows, triggers and accumulation
group_by_key.py       GroupByKey (GroupByKeyAndWindow): the values of each key and window
combine.py            CombinePerKey, CombineGlobally, CombineValues: aggregations
hot_key_fanout.py     aggregation of hot keys in two steps
feedback.py           Feedback: a loop
flatten.py            Flatten, FlattenWith: several PCollections as one

Composed of these:

groups/               pairs, groups and parts: WithKeys, CoGroupByKey, GroupBy, Distinct, Partition
deduplicate.py        Deduplicate, DeduplicatePerKey: each element once within a span of time
batches/              batches of elements: BatchElements, GroupIntoBatches
times/                times, windows and order: WithTimestamps, Reify, Reshuffle, Watch, WaitOn, PeriodicImpulse
elementwise/          single elements: Regex, ToString, LogElements, Tee
error_handling.py     dead letters: elements for which a function raises an exception

Ready-made aggregations:

combiners/            Count, Mean, Top, Sample, ToList, ApproximateQuantiles and others
stats.py              the approximate ones, under Beam's module name

Imported when used:

enrichment.py         Enrichment: rows joined with the answers of a service, which may be cached
services/             calls of services, with throttling, repeats and caches
async_dofn.py         AsyncWrapper: the calls of a DoFn in the background
sql/                  SqlTransform: SQL by DuckDB

Names at Beam's paths, for type checkers (at run time `sdk/names/namespaces.py` has them):

core.py               transforms and DoFns
ptransform.py         PTransform
trigger.py            triggers
userstate.py          states and timers
util.py               transforms for pairs, batches and times
window.py             windows and timestamps
"""

from typing import TYPE_CHECKING, Any

from .assign_windows import AssignWindows, Windowing, WindowInto
from .batches.batch_elements import BatchElements
from .batches.group_into_batches import GroupIntoBatches
from .batches.length_bucket import WithLengthBucketKey
from .batches.sort_and_batch import SortAndBatchElements
from .combine import CombineGlobally, CombinePerKey, CombineValues
from .create import Create, Impulse
from .deduplicate import Deduplicate, DeduplicatePerKey
from .elementwise.log_elements import LogElements
from .elementwise.regex import Regex
from .elementwise.tee import Tee
from .elementwise.to_string import ToString
from .error_handling import CollectingErrorHandler, ErrorHandler
from .feedback import Feedback
from .flatten import Flatten, FlattenWith
from .group_by_key import GroupByKey, GroupByKeyAndWindow
from .groups.co_group_by_key import CoGroupByKey
from .groups.distinct import Distinct, RemoveDuplicates
from .groups.group_by import GroupBy, Select
from .groups.group_by_encrypted_key import GroupByEncryptedKey
from .groups.keys import Keys, KvSwap, Values, WithKeys
from .groups.partition import Partition, PartitionFn
from .par_do.async_map import AsyncMap
from .par_do.map_and_filter import Filter, FlatMap, FlatMapTuple, Map, MapTuple
from .par_do.pardo import ExceptionHandling, ParDo
from .read import Read
from .times.periodic_sequence import PeriodicImpulse, PeriodicSequence
from .times.poll_result import PollResult
from .times.refreshed_side_input import RefreshedSideInput
from .times.reify import Reify
from .times.reshuffle import Reshuffle, ReshufflePerKey
from .times.wait_on import WaitOn
from .times.watch import Watch
from .times.with_timestamps import WithTimestamps
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
