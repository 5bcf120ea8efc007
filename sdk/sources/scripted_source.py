"""Script: a source with its own clock, for tests (TestStream).

The events of a script are arriving elements, moves of the watermark and of the processing time, and signals. A runner
completes all work that an event makes due before the next event. Processing time is the script's, not the wall clock's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ...frozen import frozen
from ..coders.digest import digest_of
from ..elements.bundle import Bundle

# The output of the source; None for the main output.
Tag: TypeAlias = str | None


@frozen
class ElementsArrive:
    """Arrival of elements as one bundle."""

    tag: Tag
    bundle: Bundle


@frozen
class WatermarkMoves:
    """Move of an output's watermark to this time, in microseconds."""

    tag: Tag
    micros: int


@frozen
class PercentileMoves:
    """Move of an output's percentile watermark, in microseconds."""

    tag: Tag
    percentile: float
    micros: int


@frozen
class ClockMoves:
    """Advance of processing time by a number of microseconds."""

    micros: int


@frozen
class SignalArrives:
    """Arrival of a signal for triggers."""

    name: str


Event: TypeAlias = ElementsArrive | WatermarkMoves | PercentileMoves | ClockMoves | SignalArrives


@frozen
class Script:
    """Events in order.

    Attributes:
      tags: the outputs; (None,) for a single one.
    """

    events: tuple[Event, ...]
    tags: tuple[Tag, ...] = (None,)

    def identity(self) -> Mapping[str, Any]:
        """Return the settings that offsets depend on, as `UnboundedSource.identity` does."""
        return {"events": digest_of(map(_described, self.events))}

    def of(self, tag: Tag) -> Sequence[Event]:
        """Return the events of one output."""
        return [event for event in self.events if getattr(event, "tag", tag) == tag]


def _described(event: Event) -> Any:
    """Return an event as data for a digest."""
    if isinstance(event, ElementsArrive):
        bundle = event.bundle
        return "elements", event.tag, list(bundle.values), bundle.timestamps
    return type(event).__name__, *attrs.astuple(event)
