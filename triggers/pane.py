"""PaneInfo: the pane of an element (Dataflow Model, section 2.3)."""

from __future__ import annotations

from enum import IntEnum

from ..frozen import frozen
from ..persistence import stored_as


@stored_as("pane-timing", 1)
class PaneInfoTiming(IntEnum):
    """The time of a pane relative to the watermark passing the end of its window.

    >>> import penstock as beam
    >>> def timing(total, pane=beam.DoFn.PaneInfoParam):
    ...     return f"{pane.timing} {total}"
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2]) | beam.CombineGlobally(sum) | beam.Map(timing) | beam.Map(print)
    UNKNOWN 3
    """

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    UNKNOWN = 3

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    @classmethod
    def to_string(cls, value: int) -> str:
        """Return the timing's name.

        >>> PaneInfoTiming.to_string(1)
        'ON_TIME'
        """
        return cls(value).name


@stored_as("pane-info", 1)
@frozen(repr=False)
class PaneInfo:
    """The pane of an element: a result of its window.

    Attributes:
      is_first: whether it is the first pane of the window.
      is_last: whether it is the last pane of the window.
      timing: EARLY, ON_TIME or LATE; UNKNOWN outside of a grouping.
      index: 0 for the window's first pane, then 1, 2, ...
      nonspeculative_index: the index among the panes that aren't early; -1 for an early pane.

    >>> PaneInfo(is_last=False, timing=PaneInfoTiming.EARLY, nonspeculative_index=-1)
    PaneInfo(first: True, last: False, timing: EARLY, index: 0, nonspeculative_index: -1)
    """

    is_first: bool = True
    is_last: bool = True
    timing: PaneInfoTiming = PaneInfoTiming.UNKNOWN
    index: int = 0
    nonspeculative_index: int = 0

    def __repr__(self) -> str:
        return (
            f"PaneInfo(first: {self.is_first}, last: {self.is_last}, timing: {self.timing}, index: {self.index}, "
            f"nonspeculative_index: {self.nonspeculative_index})"
        )


PANE_INFO_UNKNOWN = PaneInfo()
# The only pane of a window whose trigger fires once, at the end.
ONLY_PANE = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
