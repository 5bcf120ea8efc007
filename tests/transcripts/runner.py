"""Transcripts: what happens to a windowed grouping, and the panes that are expected of it.

`load` reads them; `run` plays one to a `Player`, which is whatever is tried: the window
operator alone, a pipeline with TestStream, or the naive model beside this file; `differences`
says where the panes differ.  The format is described in docs/transcripts.md.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Protocol

import attrs
import yaml

from penstock import triggers
from penstock.sdk.windowing_strategy import WindowingStrategy
from penstock.transforms.combiners import CountCombineFn
from penstock.triggers import AccumulationMode, DataDrivenTrigger, PaneInfo, PaneInfoTiming
from penstock.windowing import Duration, FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner
from penstock.windowing.timestamp import MAX_MICROS

SECOND = 1_000_000
DIRECTORY = pathlib.Path(__file__).parent
DEFAULT_KEY = "k"

# The window of a pane: the two ends in microseconds, or None for the global window.
Interval = tuple[int, int] | None


@attrs.frozen
class Pane:
    """One pane, or the retraction of one."""

    key: str
    value: Any
    window: Interval
    timestamp: int
    info: PaneInfo
    sign: int = 1


@attrs.frozen
class Element:
    """An element on its way into the grouping."""

    key: str
    value: Any
    timestamp: int


@attrs.frozen
class Step:
    """One line of a script, and what is expected of it.

    Attributes:
      kind: elements, watermark, processing_time, percentile or signal.
      what: the elements; a time in microseconds; a share and a time; a name.
      panes: in the order in which they come out.
      dropped: how many elements are too late.
    """

    kind: str
    what: Any
    panes: tuple[Pane, ...]
    dropped: int


@attrs.frozen
class Transcript:
    """A script for one windowing strategy."""

    name: str
    file: str
    window: str
    trigger: str
    mode: AccumulationMode
    lateness: int
    timestamp: TimestampCombiner
    combine: str
    in_order: bool
    steps: tuple[Step, ...]
    # The panes where its elements are the input of a batch, if those aren't the same.
    batch: tuple[Pane, ...] | None = None

    @property
    def windowing(self) -> WindowingStrategy:
        """The windowing strategy of the transcript."""
        return WindowingStrategy(
            window_fn=window_fn(self.window),
            trigger=trigger(self.trigger),
            accumulation_mode=self.mode,
            timestamp_combiner=self.timestamp,
            allowed_lateness=Duration.of_micros(self.lateness),
        )

    @property
    def combine_fn(self) -> Any:
        """The argument of `CombinePerKey`, or None for a plain grouping."""
        return COMBINE_FNS[self.combine]

    @property
    def has_clocks(self) -> bool:
        """Whether anything but elements and the end of the stream happens."""
        return any(step.kind != "elements" and step.what != MAX_MICROS for step in self.steps)

    @property
    def batch_panes(self) -> tuple[Pane, ...]:
        """The panes where the elements are the input of a batch.

        No clock moves before its end.  So a trigger that looks at nothing but clocks is asked
        there for the first time, even one that would fire for each bundle of a stream.
        """
        return self.batch if self.batch is not None else tuple(pane for step in self.steps for pane in step.panes)

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


class Player(Protocol):
    """A system under test that plays a transcript.  Each method returns the panes of the output, in order."""

    @property
    def dropped(self) -> int:
        """How many elements came too late, so far."""

    def elements(self, elements: list[Element]) -> list[Pane]:
        """One bundle comes."""

    def watermark(self, micros: int) -> list[Pane]:
        """The watermark moves."""

    def processing_time(self, micros: int) -> list[Pane]:
        """The clock moves."""

    def percentile(self, share: float, micros: int) -> list[Pane]:
        """A percentile watermark moves."""

    def signal(self, name: str) -> list[Pane]:
        """A signal comes."""


def run(transcript: Transcript, player: Player) -> list[str]:
    """Play a transcript; the differences between what was expected and what came out, if any."""
    found = []
    for number, step in enumerate(transcript.steps, 1):
        dropped = player.dropped
        what = step.what
        panes = getattr(player, step.kind)(*(what if step.kind == "percentile" else (what,)))
        found += [f"step {number}, {step.kind}: {text}" for text in differences(step.panes, panes, transcript.in_order)]
        if player.dropped - dropped != step.dropped:
            found.append(f"step {number}: expected {step.dropped} dropped, got {player.dropped - dropped}")
    return found


def differences(expected: Iterable[Pane], actual: Iterable[Pane], in_order: bool = False) -> list[str]:
    """Where two lists of panes differ.

    Windows that have nothing to do with each other may come in any order, unless `in_order`.
    A retraction comes before what replaces it.
    """
    wanted, got = [_with_sorted_values(pane) for pane in expected], [_with_sorted_values(pane) for pane in actual]
    missing, surplus = Counter(map(shown, wanted)), Counter(map(shown, got))
    found = [f"expected {text}" for text in (missing - surplus).elements()]
    found += [f"unexpected {text}" for text in (surplus - missing).elements()]
    if found:
        return found
    if in_order and wanted != got:
        return [f"expected in this order: {', '.join(map(shown, wanted))}; got {', '.join(map(shown, got))}"]
    for window in dict.fromkeys((pane.key, pane.window) for pane in wanted):
        first, second = ([p for p in panes if (p.key, p.window) == window] for panes in (wanted, got))
        if first != second:
            found.append(f"expected in this order: {', '.join(map(shown, first))}; got {', '.join(map(shown, second))}")
    # Merged windows: what is retracted has another window than what replaces it.
    for index, pane in enumerate(got):
        before = next((p for p in reversed(got[:index]) if p.sign > 0 and p.key == pane.key), None)
        if pane.sign < 0 and before is not None and pane.window and before.window and _within(pane, before):
            found.append(f"{shown(pane)} came after {shown(before)}")
    return found


def _within(inner: Pane, outer: Pane) -> bool:
    assert inner.window is not None
    assert outer.window is not None
    return outer.window[0] <= inner.window[0] and inner.window[1] <= outer.window[1] and inner.window != outer.window


# The order of the values of a plain grouping is undefined.
def _with_sorted_values(pane: Pane) -> Pane:
    return attrs.evolve(pane, value=sorted(pane.value, key=repr)) if isinstance(pane.value, list) else pane


# Reading


# Where PyYAML has libyaml, it takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load() -> list[Transcript]:
    """All transcripts, file by file."""
    return list(_loaded())


# Once for all the tests that play them.
@cache
def _loaded() -> tuple[Transcript, ...]:
    found: list[Transcript] = []
    for path in sorted(DIRECTORY.glob("*.yaml")):
        found += [_transcript(path.stem, entry) for entry in yaml.load(path.read_text(), _LOADER)]
    return tuple(found)


FIELDS = {"name", "window", "trigger", "mode", "lateness", "timestamp", "combine", "in_order", "script", "batch"}


def _transcript(file: str, entry: dict[str, Any]) -> Transcript:
    unknown = entry.keys() - FIELDS
    if unknown:
        raise ValueError(f"{file}: {entry.get('name')}: unknown {sorted(unknown)}")
    return Transcript(
        name=entry["name"],
        file=file,
        window=entry["window"],
        trigger=entry["trigger"],
        mode=AccumulationMode[entry["mode"].upper()],
        lateness=micros(entry.get("lateness", 0)),
        timestamp=TIMESTAMPS[entry.get("timestamp", "end")],
        combine=entry.get("combine", "sum"),
        in_order=entry.get("in_order", False),
        steps=tuple(_step(step) for step in entry["script"]),
        batch=tuple(map(parsed, entry["batch"])) if "batch" in entry else None,
    )


def _step(line: dict[str, Any]) -> Step:
    rest = dict(line)
    panes = tuple(parsed(text) for text in rest.pop("panes", []))
    dropped = rest.pop("dropped", 0)
    ((kind, what),) = rest.items()
    if kind == "elements":
        what = [Element(k[0] if k else DEFAULT_KEY, _value(v), micros(t)) for v, t, *k in what]
    elif kind == "percentile":
        ((share, time),) = what.items()
        what = (float(share), micros(time))
    elif kind in ("watermark", "processing_time"):
        what = micros(what)
    elif kind != "signal":
        raise ValueError(f"unknown step {line!r}")
    return Step(kind, what, panes, dropped)


# A text of a given length, for what is counted in bytes.
def _value(value: Any) -> Any:
    size = re.fullmatch(r"(\d+) bytes", value) if isinstance(value, str) else None
    return "x" * int(size[1]) if size else value


def micros(time: Any) -> int:
    """Microseconds from seconds, or from a time of the day (which YAML reads as seconds)."""
    if time == "infinity":
        return MAX_MICROS
    if isinstance(time, str) and ":" in time:
        hours, minutes, seconds = time.split(":")
        return (int(hours) * 60 + int(minutes)) * 60 * SECOND + round(float(seconds) * SECOND)
    return round(float(time) * SECOND)


PANE = re.compile(
    r"(?P<sign>[+-])(?P<value>.+) (?P<window>\[(?P<start>\S+), (?P<end>\S+)\)|global)( @ (?P<timestamp>\S+))?"
    r" (?P<timing>EARLY|ON_TIME|LATE) (?P<index>\d+)/(?P<nonspeculative>-1|\d+)(?P<first> first)?(?P<last> last)?"
    r"( key=(?P<key>\S+))?"
)


def parsed(text: str) -> Pane:
    """A pane as it is written in a transcript."""
    match = PANE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a pane such as '+3 [0, 60) EARLY 0/-1 first', got {text!r}")
    window = None if match["window"] == "global" else (micros(match["start"]), micros(match["end"]))
    end = end_of(window)
    info = PaneInfo(
        is_first=match["first"] is not None,
        is_last=match["last"] is not None,
        timing=PaneInfoTiming[match["timing"]],
        index=int(match["index"]),
        nonspeculative_index=int(match["nonspeculative"]),
    )
    return Pane(
        key=match["key"] or DEFAULT_KEY,
        value=ast.literal_eval(match["value"]),
        window=window,
        timestamp=end if match["timestamp"] is None else micros(match["timestamp"]),
        info=info,
        sign=1 if match["sign"] == "+" else -1,
    )


def end_of(window: Interval) -> int:
    """The last instant of a window."""
    return GLOBAL_END if window is None else window[1] - 1


def shown(pane: Pane) -> str:
    """A pane as it is written in a transcript."""
    window = "global" if pane.window is None else f"[{clock(pane.window[0])}, {clock(pane.window[1])})"
    stamp = "" if pane.timestamp == end_of(pane.window) else f" @ {clock(pane.timestamp)}"
    info = pane.info
    first, last = " first" * info.is_first, " last" * info.is_last
    key = "" if pane.key == DEFAULT_KEY else f" key={pane.key}"
    number = f"{info.timing.name} {info.index}/{info.nonspeculative_index}"
    return f"{'+' if pane.sign > 0 else '-'}{pane.value!r} {window}{stamp} {number}{first}{last}{key}"


def clock(time: int) -> str:
    """Seconds; from an hour on, a time of the day."""
    if time == MAX_MICROS:
        return "infinity"
    seconds = time // SECOND if time % SECOND == 0 else time / SECOND
    if seconds < 3600:
        return str(seconds)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


# What the fields of a transcript mean

GLOBAL_END = GlobalWindows().assign_micros(0)[0].max_micros

TIMESTAMPS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}


COMBINE_FNS: dict[str, Any] = {"sum": sum, "count": CountCombineFn(), "list": None}

WINDOW_FNS: dict[str, Callable[..., Any]] = {
    "global": GlobalWindows,
    "fixed": FixedWindows,
    "sliding": SlidingWindows,
    "sessions": Sessions,
}


def window_fn(text: str) -> Any:
    """`fixed 60`, `sliding 60 20`, `sessions 10` or `global`; seconds."""
    name, *seconds = text.split()
    return WINDOW_FNS[name](*map(int, seconds))


class AfterFullStop(DataDrivenTrigger):
    """Fires on a punctuation."""

    def update(self, own: Any, element: Any, pane: Any) -> bool:
        return bool(own) or element.endswith(".")

    def is_ready(self, own: Any, pane: Any) -> bool:
        return bool(own)

    def merge(self, owns: Any, pane: Any) -> bool:
        return any(owns)


class AfterSpike(DataDrivenTrigger):
    """Fires on an element that is so many times the mean of those before it in the pane."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def update(self, own: Any, element: Any, pane: Any) -> tuple[float, bool]:
        total, spiked = own or (0, False)
        mean = total / max(pane.count - 1, 1)
        return total + element, spiked or (pane.count > 1 and element > self.factor * mean)

    def is_ready(self, own: Any, pane: Any) -> bool:
        return bool(own[1])

    def merge(self, owns: Any, pane: Any) -> tuple[float, bool]:
        return sum(total for total, _ in owns), any(spiked for _, spiked in owns)


def trigger(text: str) -> triggers.Trigger:
    """A trigger as it is written in Python."""
    names = {name: getattr(triggers, name) for name in triggers.__all__}
    made = eval(text, {"AfterFullStop": AfterFullStop, "AfterSpike": AfterSpike, **names})
    assert isinstance(made, triggers.Trigger)
    return made
