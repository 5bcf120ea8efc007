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

from ...frozen import frozen
from ..errors import PenstockError, StateNotFoundError

FORMAT, VERSION = "penstock panes", 1


@frozen
class Interval:
    """The interval [start, end) of event time, in microseconds."""

    start: int
    end: int


@frozen
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


@frozen
class WatermarkAdvance:
    """An advance of the grouping's input watermark.

    Attributes:
      processing_time: in microseconds.
      event_time: the watermark from then on; None for the end of time.
    """

    processing_time: int
    event_time: int | None


@frozen
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


@frozen
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
    def from_json(cls, data: bytes, where: str = "the recording", key: str | None = None) -> PaneRecording:
        """Return the recording of `to_json`, or that of a running job's page: the document `/api/panes`.

        Args:
          where: the file, for errors.
          key: the text of the key, if the page's document has several.

        Raises `PenstockError` for other data, and `StateNotFoundError`, naming the keys, for another key.
        """
        try:
            found = msgspec.json.decode(data, type=dict[str, Any])
            if "format" not in found and {"inputs", "panes", "watermarks"} <= found.keys():
                return _of_page(msgspec.convert(found, _PageDocument), where, key)
            form = found.pop("format", None), found.pop("version", None)
            if form == (FORMAT, VERSION):
                return msgspec.convert(found, cls)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise PenstockError(f"{where}: expected a recording of panes as JSON (docs/panes.md): {error}") from None
        raise PenstockError(f"{where}: found {form}; expected a recording of panes, version {VERSION} (docs/panes.md)")


# --- The document of a page


@frozen
class _PageInput:
    key: str
    value: str
    timestamp: int
    at: int
    sign: int = 1


@frozen
class _PagePane:
    key: str
    value: str
    start: int | None
    end: int
    timing: str
    number: int
    sign: int
    at: int


@frozen
class _PageDocument:
    step: str | None
    inputs: list[_PageInput]
    panes: list[_PagePane]
    watermarks: list[tuple[int, int]]
    now: int | None = None


def _of_page(found: _PageDocument, where: str, key: str | None) -> PaneRecording:
    keys = list(dict.fromkeys([*(each.key for each in found.inputs), *(each.key for each in found.panes)]))
    # The page has the texts of keys as Python shows them.
    chosen = [each for each in keys if key is None or each in (key, repr(key))]
    if found.step is None or len(chosen) != 1:
        what = (
            "no step is chosen" if found.step is None else f"{len(chosen)} keys" if key is None else f"no key {key!r}"
        )
        raise StateNotFoundError(f"{where}: {what}: choose one with --key. Keys: {', '.join(keys[:10]) or 'none'}")
    (own,) = chosen
    advances = sorted(found.watermarks)

    def is_late(each: _PageInput) -> bool:
        return any(at <= each.at and each.timestamp < micros for at, micros in advances)

    return PaneRecording(
        found.step,
        own,
        tuple(Element(e.value, e.timestamp, e.at, is_late(e), e.sign) for e in found.inputs if e.key == own),
        tuple(WatermarkAdvance(at, None if micros >= _END else micros) for at, micros in advances),
        tuple(
            Pane(p.value, p.at, None if p.start is None else Interval(p.start, p.end), p.timing, p.number, p.sign)
            for p in found.panes
            if p.key == own
        ),
        max([*(each.at for each in found.inputs), *(each.at for each in found.panes)], default=found.now or 0),
    )


# A watermark from here on is the end of time.
_END = 9_000_000_000_000_000_000
