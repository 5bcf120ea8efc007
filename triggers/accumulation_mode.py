"""AccumulationMode: the relation between a window's panes (Dataflow Model, section 2.3)."""

from __future__ import annotations

from enum import IntEnum

from ..persistence import stored_as


@stored_as("accumulation-mode", 1)
class AccumulationMode(IntEnum):
    """The relation between a window's panes.

    DISCARDING: a pane has the elements since the last pane.
    ACCUMULATING: a pane has all elements so far, and replaces the last pane.
    RETRACTING: a pane has all elements so far.  The pane that it replaces is retracted first, in all later steps and
      sinks.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, Repeatedly
    >>> stream = TestStream().add_elements([("a", 1)]).add_elements([("a", 2)]).advance_watermark_to_infinity()
    >>> def signed(pair, sign=beam.DoFn.SignParam):
    ...     print(f"{sign:+d}", pair, end="; ")
    >>> for mode in AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING, AccumulationMode.RETRACTING:
    ...     with beam.Pipeline() as p:
    ...         each = beam.WindowInto(beam.window.GlobalWindows(), Repeatedly(AfterCount(1)), mode)
    ...         _ = p | stream | each | beam.CombinePerKey(sum) | beam.ParDo(signed)
    ...     print(mode.name)
    +1 ('a', 1); +1 ('a', 2); DISCARDING
    +1 ('a', 1); +1 ('a', 3); ACCUMULATING
    +1 ('a', 1); -1 ('a', 1); +1 ('a', 3); RETRACTING
    """

    DISCARDING = 1
    ACCUMULATING = 2
    RETRACTING = 3
