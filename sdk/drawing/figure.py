"""A recording of panes as a drawing: event time to the right, processing time upwards (Dataflow Model, section 2.4).

An element is a dot with its value.  The watermark is a line.  A pane is a rectangle as wide as its window, from the
previous pane of the window, or its first element, to the time at which it fired; its value is below its upper edge.
A retracted value is struck out.

The drawing is a list of shapes in pixels, the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from ...frozen import frozen
from .panes import Interval, Pane, PaneRecording

WIDTH, HEIGHT = 760, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 44, 56

INK, GRID, WATERMARK, ELEMENT, RETRACTION = "#222222", "#e4e4e4", "#1f77b4", "#444444", "#b02a37"
# By timing, the colours of a pane's area and of its edge.
COLOURS = {
    "EARLY": ("#fff3cd", "#b8860b"),
    "ON_TIME": ("#d7f0d9", "#2e7d32"),
    "LATE": ("#fbdcdc", "#c62828"),
    "UNKNOWN": ("#e8e8e8", "#666666"),
}
_TIMINGS = {"EARLY": "early pane", "ON_TIME": "on-time pane", "LATE": "late pane", "UNKNOWN": "pane"}

# Steps between two ticks, in seconds.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)
_MOST_TICKS = 9
_SECOND = 1_000_000
_DAY = 86_400


@frozen
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    colour: str
    width: float = 1.0
    dash: tuple[int, int] | None = None


@frozen
class Rectangle:
    """A filled rectangle; `x`, `y` is the upper left corner."""

    x: float
    y: float
    width: float
    height: float
    fill: str


@frozen
class Circle:
    """A circle around a point."""

    x: float
    y: float
    radius: float
    fill: str
    edge: str


@frozen
class Text:
    """A line of text; `x`, `y` is the point of its anchor ("start", "middle" or "end") on the base line."""

    x: float
    y: float
    text: str
    colour: str = INK
    size: float = 12.0
    anchor: str = "middle"
    bold: bool = False
    struck: bool = False


Shape: TypeAlias = Line | Rectangle | Circle | Text


@frozen
class Figure:
    """A drawing.

    Attributes:
      title: what it shows.
      width, height: in pixels.
      shapes: in the order in which they are drawn.
    """

    title: str
    width: int
    height: int
    shapes: tuple[Shape, ...]


def figure_of(recording: PaneRecording) -> Figure:
    """Return the drawing of a recording."""
    scales = _scales_of(recording)
    title = f"{recording.step}, key {_shown(recording.key)}"
    shapes = (
        *_axes(scales),
        *_areas(recording, scales),
        *_watermark(recording, scales),
        *_edges(recording, scales),
        *_elements(recording, scales),
        *_labels(recording, scales),
        *_heading(recording, title),
    )
    return Figure(title, WIDTH, HEIGHT, shapes)


@frozen
class _Scale:
    """Pixels of times, and the range of times."""

    least: int
    most: int
    first: float
    last: float

    def at(self, micros: int) -> float:
        share = (min(max(micros, self.least), self.most) - self.least) / (self.most - self.least)
        return round(self.first + share * (self.last - self.first), 2)

    def ticks(self) -> list[int]:
        span = (self.most - self.least) / _SECOND
        step = next((each for each in _STEPS if span / each <= _MOST_TICKS), None)
        if step is None:
            step = max(1, round(span / _MOST_TICKS / _DAY)) * _DAY
        micros = step * _SECOND
        first = -(-self.least // micros) * micros
        return list(range(first, self.most + 1, micros))


@frozen
class _Scales:
    event: _Scale
    processing: _Scale


def _scales_of(recording: PaneRecording) -> _Scales:
    windows = [pane.window for pane in recording.panes if pane.window is not None]
    event = [element.event_time for element in recording.elements]
    event += [time for window in windows for time in (window.start, window.end)]
    if not event:
        event = [advance.event_time for advance in recording.watermark if advance.event_time is not None] or [0]
    processing = [element.processing_time for element in recording.elements]
    processing += [pane.processing_time for pane in recording.panes]
    # Beyond the last pane and element there is nothing to see but the watermark.
    processing += [recording.end] if not processing else []
    return _Scales(_scale(event, _LEFT, WIDTH - _RIGHT, 0.04), _scale(processing, HEIGHT - _BOTTOM, _TOP + 26, 0.08))


def _scale(times: Sequence[int], first: float, last: float, margin: float) -> _Scale:
    least, most = min(times), max(times)
    room = max(int((most - least) * margin), _SECOND // 2)
    return _Scale(least - room, most + room, first, last)


# --- Shapes


def _axes(scales: _Scales) -> Iterator[Shape]:
    left, right, bottom, top = _LEFT, WIDTH - _RIGHT, HEIGHT - _BOTTOM, _TOP + 26
    yield Rectangle(0, 0, WIDTH, HEIGHT, "#ffffff")
    for micros in scales.event.ticks():
        x = scales.event.at(micros)
        yield Line(((x, bottom), (x, top)), GRID)
        yield Text(x, bottom + 18, clock(micros, scales.event.most), size=11)
    for micros in scales.processing.ticks():
        y = scales.processing.at(micros)
        yield Line(((left, y), (right, y)), GRID)
        yield Text(left - 8, y + 4, clock(micros, scales.processing.most), size=11, anchor="end")
    yield Line(((left, top), (left, bottom), (right, bottom)), INK, 1.5)
    yield Text((left + right) / 2, HEIGHT - 14, "event time", size=13)
    yield Text(_LEFT, _TOP + 14, "processing time ↑", size=13, anchor="start")


def _areas(recording: PaneRecording, scales: _Scales) -> Iterator[Shape]:
    """Yield the areas of panes, the last ones first: a merged window's is behind those of its parts."""
    for i, pane in reversed(list(enumerate(recording.panes))):
        if pane.sign < 0:
            continue
        fill, edge = _colours_of(pane)
        left, right = _extent(pane.window, scales)
        top, bottom = scales.processing.at(pane.processing_time), scales.processing.at(_begin(recording, i))
        yield Rectangle(left, top, round(right - left, 2), max(round(bottom - top, 2), 1.0), fill)
        for x in (left, right):
            yield Line(((x, bottom), (x, top)), edge, 0.8, (3, 3))


def _edges(recording: PaneRecording, scales: _Scales) -> Iterator[Shape]:
    """Yield the upper edges of panes."""
    for pane in recording.panes:
        if pane.sign > 0:
            left, right = _extent(pane.window, scales)
            top = scales.processing.at(pane.processing_time)
            yield Line(((left, top), (right, top)), _colours_of(pane)[1], 3.0)


def _colours_of(pane: Pane) -> tuple[str, str]:
    return COLOURS.get(pane.timing, COLOURS["UNKNOWN"])


def _begin(recording: PaneRecording, index: int) -> int:
    """Return the processing time at which the area of a pane begins."""
    pane = recording.panes[index]
    earlier = [p.processing_time for p in recording.panes[:index] if p.window == pane.window and p.sign > 0]
    if earlier:
        return earlier[-1]
    window = pane.window
    arrived = [
        element.processing_time
        for element in recording.elements
        if element.processing_time <= pane.processing_time
        and (window is None or window.start <= element.event_time < window.end)
    ]
    return min(arrived, default=pane.processing_time)


def _extent(window: Interval | None, scales: _Scales) -> tuple[float, float]:
    if window is None:
        return scales.event.first, scales.event.last
    return scales.event.at(window.start), scales.event.at(window.end)


def _watermark(recording: PaneRecording, scales: _Scales) -> Iterator[Shape]:
    points: list[tuple[float, float]] = []
    x = scales.event.first
    for advance in recording.watermark:
        y = scales.processing.at(advance.processing_time)
        moved = scales.event.last if advance.event_time is None else scales.event.at(advance.event_time)
        points += [(x, y), (moved, y)]
        x = moved
    if points:
        start, end = (points[0][0], scales.processing.first), (points[-1][0], scales.processing.last)
        yield Line(tuple(dict.fromkeys([start, *points, end])), WATERMARK, 2.0)


def _elements(recording: PaneRecording, scales: _Scales) -> Iterator[Shape]:
    for element in recording.elements:
        x, y = scales.event.at(element.event_time), scales.processing.at(element.processing_time)
        edge = COLOURS["LATE"][1] if element.is_late else ELEMENT
        text, is_struck = _shown(element.value), element.sign < 0
        if element.value is None:
            # Such as those that are counted.
            yield Circle(x, y, _SMALL_DOT, edge, edge)
            if is_struck:
                yield Line(((x - _DOT, y), (x + _DOT, y)), edge, 1.2)
        elif len(text) <= _LONGEST_IN_A_DOT:
            yield Circle(x, y, _DOT, "#ffffff", edge)
            yield Text(x, y + 4, text, edge, 10.5, struck=is_struck)
        else:
            yield Circle(x, y, _SMALL_DOT, edge, edge)
            has_room = x + 6 + 6.6 * len(text) < WIDTH
            text_x, anchor = (x + 6, "start") if has_room else (x - 6, "end")
            yield Text(text_x, y + 4, text, edge, 10.5, anchor, struck=is_struck)


# The radius of an element's circle, and the characters that it has room for; the radius of one with text beside it.
_DOT, _LONGEST_IN_A_DOT, _SMALL_DOT = 9, 3, 3

# Places of a value below the edge of its pane, as shares of its length.
_PLACES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92)


def _labels(recording: PaneRecording, scales: _Scales) -> Iterator[Shape]:
    """Yield the values of panes, below their upper edges; where there is room, beside elements and other values."""
    # Boxes: left, right, upper and lower bound.
    taken = [
        (x - _DOT, x + _DOT, y - _DOT, y + _DOT)
        for element in recording.elements
        for x, y in [(scales.event.at(element.event_time), scales.processing.at(element.processing_time))]
    ]
    for pane in recording.panes:
        left, right = _extent(pane.window, scales)
        is_retraction = pane.sign < 0
        size = 12.0 if is_retraction else 15.0
        text = _shown(pane.value)
        if len(text) > _LONGEST_IN_A_DOT:
            # As wide as the window, as far as it can be read then.
            size = max(9.0, min(size, round((right - left) / (0.72 * len(text)), 1)))
        half, y = 0.36 * size * len(text), scales.processing.at(pane.processing_time) + 16
        boxes: list[tuple[float, int, float, _Box]] = []
        for share in _PLACES:
            x = round(left + share * (right - left), 2)
            box = (x - half, x + half, y - size + 2, y + 1)
            boxes.append((sum(_overlap(box, other) for other in taken), len(boxes), x, box))
        _, _, x, box = min(boxes)
        taken.append(box)
        colour = RETRACTION if is_retraction else _colours_of(pane)[1]
        yield Text(x, y, text, colour, size, bold=not is_retraction, struck=is_retraction)


_Box: TypeAlias = tuple[float, float, float, float]


def _overlap(one: _Box, other: _Box) -> float:
    """Return the area that two boxes have in common."""
    width = min(one[1], other[1]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[2], other[2])
    return width * height if width > 0 and height > 0 else 0.0


def _heading(recording: PaneRecording, title: str) -> Iterator[Shape]:
    """Yield the title and the legend: beside each other if there is room, or else the legend below."""
    entries, width = _legend(recording), WIDTH - _LEFT - _RIGHT
    widths = [6.4 * len(text) + 30 for text, _ in entries]
    x, y = WIDTH - _RIGHT - sum(widths), 20.0
    if len(title) * _TITLE > width - sum(widths):
        y += _LINE
        kept = int(width / _TITLE)
        if len(title) > kept:
            # The end has the key, and the innermost label.
            title = f"{title[: kept // 2]}…{title[len(title) - (kept - kept // 2 - 1) :]}"
    yield Text(_LEFT, 20, title, bold=True, size=14, anchor="start")
    for (text, colour), own in zip(entries, widths, strict=True):
        yield Line(((x, y - 4), (x + 12, y - 4)), colour, 3.0)
        yield Text(x + 17, y, text, colour, 11, "start", struck=text == "retraction")
        x = round(x + own, 2)


# The width of a character of the title, and the height of a line of the heading.
_TITLE, _LINE = 9.4, 20


def _legend(recording: PaneRecording) -> list[tuple[str, str]]:
    """Return the texts of the legend with their colours."""
    used = {pane.timing for pane in recording.panes if pane.sign > 0}
    entries = [("watermark", WATERMARK)]
    entries += [(_TIMINGS[timing], edge) for timing, (_, edge) in COLOURS.items() if timing in used]
    if any(pane.sign < 0 for pane in recording.panes):
        entries.append(("retraction", RETRACTION))
    return entries


def clock(micros: int, most: int) -> str:
    """Return a time for an axis: hours, minutes and seconds, and the day of times after 1971.

    >>> clock(43_226_000_000, 50_000_000_000), clock(90_000_000, 100_000_000)
    ('12:00:26', '1:30')
    """
    seconds = micros // _SECOND
    if abs(most) // _SECOND > 365 * _DAY:
        return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).strftime("%m-%d %H:%M:%S").removesuffix(":00")
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    hours, rest = divmod(seconds, 3600)
    if most // _SECOND < 3600:
        return f"{sign}{seconds // 60}:{seconds % 60:02}"
    return f"{sign}{hours}:{rest // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")


# The characters of a value that are shown.
_LONGEST = 18


def _shown(value: Any) -> str:
    text = _text_of(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _text_of(value: Any) -> str:
    """Return data of JSON as text, with the fields of an object by name.

    >>> _text_of({"team": "a", "count": 3}), _text_of([1, None]), _text_of({"$type": "decimal", "value": "1.5"})
    ('team: a, count: 3', '[1, none]', '1.5')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"[{', '.join(map(_text_of, value))}]"
    if isinstance(value, dict):
        kind = value.get("$type")
        if kind is not None and "value" in value:
            return _text_of(value["value"])
        fields = value.get("fields") if kind is not None else value
        if isinstance(fields, dict):
            return ", ".join(f"{name}: {_text_of(part)}" for name, part in fields.items())
    return json.dumps(value, ensure_ascii=False)
