"""State and timers of a DoFn, for each key and window (MillWheel, section 4; Beam's userstate).

A DoFn declares them by name, as defaults of its parameters:

>>> import penstock as beam
>>> from penstock.sdk.userstate import CombiningValueStateSpec
>>> class Number(beam.DoFn):
...     SEEN = CombiningValueStateSpec("seen", sum)
...     def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
...         seen.add(1)
...         yield seen.read(), *element

state_spec.py           StateSpec: a state's name and kind
state_ttl.py            StateTtl: how long a state is kept
read_modify_write.py    ReadModifyWriteStateSpec: one value
bag.py                  BagStateSpec: values, in the order of addition
set.py                  SetStateSpec: distinct values
combining_value.py      CombiningValueStateSpec: the accumulator of a combiner
map.py                  MapStateSpec: values by name
ordered_list.py         OrderedListStateSpec: values by timestamp
store.py                StateStore: the storage of all of these
timer_spec.py           TimerSpec, TimeDomain, on_timer, on_window_expiration
timer.py                RuntimeTimer: sets and clears a timer
"""

from .bag import BagRuntimeState, BagStateSpec
from .combining_value import CombiningValueRuntimeState, CombiningValueStateSpec
from .map import MapRuntimeState, MapStateSpec
from .ordered_list import OrderedListRuntimeState, OrderedListStateSpec
from .read_modify_write import ReadModifyWriteRuntimeState, ReadModifyWriteStateSpec
from .set import SetRuntimeState, SetStateSpec
from .state_spec import AccumulatingRuntimeState, RuntimeState, StateSpec
from .state_ttl import StateTtl
from .store import DictStore, StateColumn, StateStore
from .timer import BaseTimer, RuntimeTimer
from .timer_spec import TimeDomain, TimerSpec, on_timer, on_window_expiration

__all__ = [
    "StateSpec",
    "StateTtl",
    "ReadModifyWriteStateSpec",
    "BagStateSpec",
    "SetStateSpec",
    "CombiningValueStateSpec",
    "MapStateSpec",
    "OrderedListStateSpec",
    "RuntimeState",
    "AccumulatingRuntimeState",
    "ReadModifyWriteRuntimeState",
    "BagRuntimeState",
    "SetRuntimeState",
    "CombiningValueRuntimeState",
    "MapRuntimeState",
    "OrderedListRuntimeState",
    "StateStore",
    "DictStore",
    "StateColumn",
    "TimeDomain",
    "TimerSpec",
    "on_timer",
    "on_window_expiration",
    "BaseTimer",
    "RuntimeTimer",
]
