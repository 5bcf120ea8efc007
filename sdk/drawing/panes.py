"""PaneRecording: what a grouping received and emitted for a key, with the times at which it did.

It is the data behind a drawing of event time against processing time.  docs/panes.md has the schema of its JSON.

>>> recording = PaneRecording(
...     step="Sum",
...     key="team",
...     elements=(Element(5, event_time=26_000_000, processing_time=319_000_000),),
...     watermark=(WatermarkAdvance(processing_time=350_000_000, event_time=120_000_000),),
...     panes=(Pane(5, 350_000_000, Interval(0, 120_000_000), "ON_TIME"),),
...     end=350_000_000,
... )
>>> recording == PaneRecording.from_json(recording.to_json())
True
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from ..errors import PenstockError

FORMAT, VERSION = "penstock panes", 1


@attrs.frozen
class Interval:
    """The interval [start, end) of event time, in microseconds."""

    start: int
    end: int


@attrs.frozen
class Element:
    """An element that arrived at the grouping.

    Attributes:
      value: as data of JSON.
      event_time, processing_time: in microseconds.
      is_late: True if the watermark had passed its event time.
      sign: 1, or -1 for a retraction.
    """

    value: Any
    event_time: int
    processing_time: int
    is_late: bool = False
    sign: int = 1


@attrs.frozen
class WatermarkAdvance:
    """An advance of the grouping's input watermark.

    Attributes:
      processing_time: in microseconds.
      event_time: the watermark from then on; None for the end of time.
    """

    processing_time: int
    event_time: int | None


@attrs.frozen
class Pane:
    """A pane that the grouping emitted.

    Attributes:
      value: as data of JSON.
      processing_time: in microseconds.
      window: None for the global window.
      timing: EARLY, ON_TIME, LATE or UNKNOWN.
      index: the number of the pane in its window.
      sign: 1, or -1 for the retraction of an earlier pane.
    """

    value: Any
    processing_time: int
    window: Interval | None
    timing: str = "UNKNOWN"
    index: int = 0
    sign: int = 1


@attrs.frozen
class PaneRecording:
    """The elements, the watermark and the panes of one step and key, each in the order in which they came.

    Attributes:
      step: the full label of the grouping.
      key: the key, as data of JSON.
      end: the processing time at the end of the recording, in microseconds.
    """

    step: str
    key: Any
    elements: tuple[Element, ...] = ()
    watermark: tuple[WatermarkAdvance, ...] = ()
    panes: tuple[Pane, ...] = ()
    end: int = 0

    def to_json(self) -> bytes:
        """Return the recording as JSON."""
        return msgspec.json.encode({"format": FORMAT, "version": VERSION, **attrs.asdict(self, recurse=False)})

    @classmethod
    def from_json(cls, data: bytes, where: str = "the recording") -> PaneRecording:
        """Return the recording of `to_json`.

        Args:
          where: the file, for the `PenstockError` of other data.
        """
        try:
            found = msgspec.json.decode(data, type=dict[str, Any])
            form = found.pop("format", None), found.pop("version", None)
            if form == (FORMAT, VERSION):
                return msgspec.convert(found, cls)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise PenstockError(f"{where}: expected a recording of panes as JSON (docs/panes.md): {error}") from None
        raise PenstockError(f"{where}: found {form}; expected a recording of panes, version {VERSION} (docs/panes.md)")
