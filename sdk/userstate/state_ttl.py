"""StateTtl: how long a state is kept after it was written.

>>> from penstock.sdk.userstate import TimeDomain
>>> StateTtl(3600), StateTtl(60, TimeDomain.REAL_TIME, refreshed_by_reads=True)
(StateTtl(Duration(3600)), StateTtl(Duration(60), REAL_TIME, refreshed_by_reads=True))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...windowing import Duration
from ...windowing.duration import DurationTypes
from .timer_spec import TimeDomain

if TYPE_CHECKING:
    from typing import TypeAlias

    # The argument of a spec.
    Ttl: TypeAlias = "DurationTypes | StateTtl | None"


class StateTtl:
    """How long the state of a key is kept after it was last written.

    Once the time has passed, the state is empty, as after `clear`.  In event time, the time is that of the element or
    event-time timer that is being processed, or the watermark if an element is late.  In processing time it is the
    runner's clock, so that results depend on when elements come.  What has expired is removed from memory and from
    disk, also if its key never comes again.

    Args:
      duration: in seconds, or a Duration or timedelta; more than nothing.
      time_domain: `TimeDomain.WATERMARK` (event time) or `TimeDomain.REAL_TIME`.
      refreshed_by_reads: whether a call of a method that has the state as a parameter counts as a write.

    Raises `TypeError` or `ValueError` for other values.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import ReadModifyWriteStateSpec
    >>> class Again(beam.DoFn):
    ...     SEEN = ReadModifyWriteStateSpec("seen", ttl=60)
    ...     def process(self, pair, seen=beam.DoFn.StateParam(SEEN), at=beam.DoFn.TimestampParam):
    ...         yield int(at), seen.read() is not None
    ...         seen.write(True)
    >>> times = [beam.window.TimestampedValue(("a", 1), at) for at in (0, 30, 100)]
    >>> times | beam.ParDo(Again())
    [(0, False), (30, True), (100, False)]
    """

    __slots__ = ("duration", "refreshed_by_reads", "time_domain")

    def __init__(
        self,
        duration: DurationTypes,
        time_domain: TimeDomain = TimeDomain.WATERMARK,
        refreshed_by_reads: bool = False,
    ) -> None:
        self.duration = Duration.of(duration)
        self.time_domain = TimeDomain(time_domain)
        self.refreshed_by_reads = refreshed_by_reads
        if self.duration.micros <= 0:
            raise ValueError(f"StateTtl: the duration must be more than nothing, got {duration!r}")

    @staticmethod
    def of(ttl: DurationTypes | StateTtl) -> StateTtl:
        """Return a StateTtl for a duration in event time, or one itself."""
        return ttl if isinstance(ttl, StateTtl) else StateTtl(ttl)

    def __repr__(self) -> str:
        domain = f", {self.time_domain}" if self.time_domain is not TimeDomain.WATERMARK else ""
        reads = ", refreshed_by_reads=True" if self.refreshed_by_reads else ""
        return f"StateTtl({self.duration!r}{domain}{reads})"
