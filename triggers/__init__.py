"""Triggers, which decide in processing time when results are emitted.

trigger.py                Trigger: the base class, whose methods map states to states
lifetime.py               Lifetime: the start, the finish and the revival of a trigger

Single triggers:

default.py                DefaultTrigger: the watermark passes the end of the window; then each late element
after_watermark.py        AfterWatermark: the watermark passes the end, with early and late triggers
after_percentile.py       AfterWatermarkPercentile: a share of the input passes the end
after_processing_time.py  AfterProcessingTime: a span of processing time
after_count.py            AfterCount: a number of elements
after_size.py             AfterSize: a number of bytes
data_driven.py            DataDrivenTrigger: a user's condition on the elements
after_signal.py           AfterSignal: an external signal
always.py                 Always: any element
never.py                  Never: the expiry of the window

Composite triggers:

composites/               Repeatedly, AfterEach, AfterAny, AfterAll, OrFinally

Related types:

accumulation_mode.py      AccumulationMode: the relation between a window's panes
pane.py                   PaneInfo: the pane of an element
data_loss.py              DataLossReason: the reason why a trigger may not emit data
safety.py                 check_safe: refusal of unsafe triggers
"""

from .accumulation_mode import AccumulationMode
from .after_count import AfterCount
from .after_percentile import AfterWatermarkPercentile
from .after_processing_time import AfterProcessingTime
from .after_signal import AfterSignal
from .after_size import AfterSize
from .after_watermark import AfterWatermark
from .always import Always
from .composites.after_all import AfterAll
from .composites.after_any import AfterAny
from .composites.after_each import AfterEach
from .composites.or_finally import OrFinally
from .composites.repeatedly import Repeatedly
from .data_driven import DataDrivenTrigger, PaneSoFar
from .data_loss import DataLossReason, UnsafeTriggerError
from .default import DefaultTrigger
from .never import Never
from .pane import ONLY_PANE, PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
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
    # Composite triggers.
    "Repeatedly",
    "AfterEach",
    "AfterAny",
    "AfterAll",
    "OrFinally",
    # Related types.
    "AccumulationMode",
    "DataLossReason",
    "UnsafeTriggerError",
    "check_safe",
    "ONLY_PANE",
    "PANE_INFO_UNKNOWN",
    "PaneInfo",
    "PaneInfoTiming",
]
