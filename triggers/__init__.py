"""When in processing time results are emitted.

trigger.py            Trigger, the base of all: state in, state out
default.py            DefaultTrigger: when the watermark passes the end of the window
accumulation_mode.py  AccumulationMode: how a window's panes relate
pane.py               PaneInfo: which of a window's results an element belongs to
safety.py             check_safe: triggers that might leave data behind
data_loss.py          DataLossReason: why a trigger might leave data unemitted
"""

from .accumulation_mode import AccumulationMode
from .data_loss import DataLossReason
from .default import DefaultTrigger
from .pane import ONLY_PANE, PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from .safety import UnsafeTriggerError, check_safe
from .trigger import Trigger, TriggerContext

__all__ = [
    "ONLY_PANE",
    "PANE_INFO_UNKNOWN",
    "AccumulationMode",
    "DataLossReason",
    "DefaultTrigger",
    "PaneInfo",
    "PaneInfoTiming",
    "Trigger",
    "TriggerContext",
    "UnsafeTriggerError",
    "check_safe",
]
