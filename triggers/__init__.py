"""When in processing time results are emitted.

trigger.py                Trigger, the base of all: state in, state out
lifetime.py               how a trigger begins, finishes, and begins again when windows merge

What a single trigger waits for:

default.py                DefaultTrigger: the watermark to pass the end of the window, and then what is late
after_watermark.py        AfterWatermark: the same, with triggers for before and after
after_percentile.py       AfterWatermarkPercentile: a share of the input to pass it
after_processing_time.py  AfterProcessingTime: time to go by
after_count.py            AfterCount: so many elements
after_size.py             AfterSize: so many bytes
data_driven.py            DataDrivenTrigger: what the user says of the elements
after_signal.py           AfterSignal: a signal from outside
always.py                 Always: nothing
never.py                  Never: for ever

What is made of triggers:

composite.py              Composite: what these have in common
repeatedly.py             Repeatedly: again and again
after_each.py             AfterEach: one after the other
after_any.py              AfterAny: an OR
after_all.py              AfterAll: an AND
or_finally.py             OrFinally: one until another

What goes with them:

accumulation_mode.py      AccumulationMode: how a window's panes relate
pane.py                   PaneInfo: which of a window's results an element belongs to
data_loss.py              DataLossReason: why a trigger might leave data unemitted
safety.py                 whether a grouping may have its trigger
"""

from .accumulation_mode import AccumulationMode
from .after_all import AfterAll
from .after_any import AfterAny
from .after_count import AfterCount
from .after_each import AfterEach
from .after_percentile import AfterWatermarkPercentile
from .after_processing_time import AfterProcessingTime
from .after_signal import AfterSignal
from .after_size import AfterSize
from .after_watermark import AfterWatermark
from .always import Always
from .data_driven import DataDrivenTrigger, PaneSoFar
from .data_loss import DataLossReason, UnsafeTriggerError
from .default import DefaultTrigger
from .never import Never
from .or_finally import OrFinally
from .pane import ONLY_PANE, PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from .repeatedly import Repeatedly
from .safety import check_safe
from .trigger import Trigger, TriggerContext

# Beam's name.
TriggerFn = Trigger

__all__ = [
    "Trigger",
    "TriggerFn",
    "TriggerContext",
    # Single triggers.
    "DefaultTrigger",
    "AfterWatermark",
    "AfterWatermarkPercentile",
    "AfterProcessingTime",
    "AfterCount",
    "AfterSize",
    "DataDrivenTrigger",
    "PaneSoFar",
    "AfterSignal",
    "Always",
    "Never",
    # Made of triggers.
    "Repeatedly",
    "AfterEach",
    "AfterAny",
    "AfterAll",
    "OrFinally",
    # What goes with them.
    "AccumulationMode",
    "DataLossReason",
    "UnsafeTriggerError",
    "check_safe",
    "ONLY_PANE",
    "PANE_INFO_UNKNOWN",
    "PaneInfo",
    "PaneInfoTiming",
]
