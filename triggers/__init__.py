"""When in processing time results are emitted.

trigger.py   Trigger, the base of all; AccumulationMode, how panes relate
default.py   DefaultTrigger: when the watermark passes the end of the window
pane.py      PaneInfo: which of a window's results an element belongs to
"""

from .default import DefaultTrigger
from .pane import ONLY_PANE, PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from .trigger import AccumulationMode, DataLossReason, Trigger, TriggerContext

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
]
