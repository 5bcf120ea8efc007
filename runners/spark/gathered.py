"""What the sources give to the next batch, while it is gathered."""

from __future__ import annotations

import attrs

from .planned_batch import Reading


@attrs.define
class Gathered:
    """What the sources give to a batch.

    Attributes:
      now: processing time, in microseconds.
      watermarks: of sources' PCollections, in microseconds, those that have moved.
      frames: DataFrames that are read, by label; of a stream the number of Spark's batch, of any other one None.
      percentiles: percentile watermarks that have moved, by share.
      all_watermarks: those of all sources, as far as they are known.
    """

    now: int
    readings: list[Reading] = attrs.field(factory=list)
    frames: dict[str, int | None] = attrs.field(factory=dict)
    watermarks: dict[int, int] = attrs.field(factory=dict)
    percentiles: dict[float, int] = attrs.field(factory=dict)
    signals: list[str] = attrs.field(factory=list)
    all_watermarks: dict[int, int] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come."""
        return not (self.readings or self.frames or self.watermarks or self.percentiles or self.signals)
