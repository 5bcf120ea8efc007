"""DataLossReason: the reason why a trigger may not emit data."""

from __future__ import annotations

from enum import Flag


class DataLossReason(Flag):
    """The reason why a trigger may not emit data before its window expires.

    MAY_FINISH: it may finish before all data has arrived.
    CONDITION_NOT_GUARANTEED: its condition may never be true.  Beam's, and unused here, since all data is emitted when
      the window expires.

    >>> from penstock.trigger import AfterCount, Repeatedly
    >>> AfterCount(2).may_lose_data(None).name, Repeatedly(AfterCount(2)).may_lose_data(None).name
    ('MAY_FINISH', 'NO_POTENTIAL_LOSS')
    """

    NO_POTENTIAL_LOSS = 0
    MAY_FINISH = 1
    CONDITION_NOT_GUARANTEED = 2


class UnsafeTriggerError(ValueError):
    """A grouping's trigger may finish before all data has arrived.

    >>> import penstock as beam
    >>> from penstock.trigger import AccumulationMode, AfterCount, UnsafeTriggerError
    >>> once = beam.WindowInto(beam.window.FixedWindows(60), AfterCount(2), AccumulationMode.DISCARDING)
    >>> try:
    ...     _ = beam.Pipeline() | beam.Create([("a", 1)]) | once | beam.GroupByKey()
    ... except UnsafeTriggerError as error:
    ...     print(str(error)[:60])
    GroupByKey: Unsafe trigger: `AfterCount(2)` may lose data. R
    """
