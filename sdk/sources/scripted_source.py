"""A source that brings its own clock, for tests (TestStream).

The script says, event by event, which elements arrive, where the watermark and the processing time are, and which
signals arrive. A runner that takes scripts does everything that an event makes due before it looks at the next one;
processing time is the script's, never the wall's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ..bundle import Bundle
from ..digest import digest_of

# Which output of the source; None is the main one.
Tag: TypeAlias = str | None


@attrs.frozen
class ElementsArrive:
    """These elements arrive, as one bundle."""

    tag: Tag
    bundle: Bundle


@attrs.frozen
class WatermarkMoves:
    """The output's watermark moves to this time, in microseconds."""

    tag: Tag
    micros: int


@attrs.frozen
class PercentileMoves:
    """The output's watermark for this share of its elements moves, in microseconds."""

    tag: Tag
    percentile: float
    micros: int


@attrs.frozen
class ClockMoves:
    """Processing time advances by this much, in microseconds."""

    micros: int


@attrs.frozen
class SignalArrives:
    """A signal that triggers may listen to reaches the pipeline."""

    name: str


Event: TypeAlias = ElementsArrive | WatermarkMoves | PercentileMoves | ClockMoves | SignalArrives


@attrs.frozen
class Script:
    """What happens, in order.

    Attributes:
      tags: the outputs; (None,) for a single one.
    """

    events: tuple[Event, ...]
    tags: tuple[Tag, ...] = (None,)

    def identity(self) -> Mapping[str, Any]:
        """Return what a position in it depends on: as `UnboundedSource.identity`."""
        return {"events": digest_of(map(_described, self.events))}

    def of(self, tag: Tag) -> Sequence[Event]:
        """The events of one output."""
        return [event for event in self.events if getattr(event, "tag", tag) == tag]


def _described(event: Event) -> Any:
    """An event as data that has a digest."""
    if isinstance(event, ElementsArrive):
        bundle = event.bundle
        return "elements", event.tag, list(bundle.values), bundle.timestamps
    return type(event).__name__, *attrs.astuple(event)
