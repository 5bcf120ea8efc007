"""The pane rules of docs/triggers.md, as plainly as they can be written: slow, and sharing nothing with the library.

It keeps all elements for ever, looks at every window after everything that happens, sets no
timers, and has triggers of its own: trees of nodes, each with a flag that says whether it is done.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import attrs
from transcripts.runner import SECOND, Element, Pane, Transcript

from penstock.triggers import AccumulationMode, PaneInfo, PaneInfoTiming
from penstock.windowing import TimestampCombiner
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS

GLOBAL_END = MAX_MICROS - 24 * 3600 * SECOND
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


@attrs.define(eq=False)
class World:
    """The clocks; `output` is how far the watermark is downstream."""

    watermark: int = MIN_MICROS
    output: int = MIN_MICROS
    now: int = 0
    percentiles: dict[float, int] = attrs.field(factory=dict)
    signals: dict[str, int] = attrs.field(factory=dict)


# Triggers


class Node:
    """A trigger of one window."""

    looks_at_elements = False

    def __init__(self, world: World, children: Sequence[Node] = (), **settings: Any) -> None:
        self.world = world
        self.children = list(children)
        self.settings = settings
        self.restart()

    def restart(self) -> None:
        """As though nothing had come."""
        self.done = False
        self.touched = False
        for child in self.children:
            child.restart()

    def go_on(self, end: int) -> None:
        """Begin in the midst of a window that has had elements."""
        self.restart()
        for child in self.children:
            child.go_on(end)

    def element(self, value: Any, end: int) -> None:
        """An element comes."""
        self.touched = True

    def is_due(self, end: int) -> bool:
        """Whether to fire, if not done."""
        raise NotImplementedError

    def fire(self, end: int) -> None:
        """It has fired."""
        self.done = True

    def absorb(self, others: list[Node], end: int) -> None:
        """Become what `others`, the same trigger in several windows, merge into."""
        waiting = [other for other in others if other.touched and not other.done]
        if waiting:
            self.touched = True
            self.take(waiting)
        elif any(other.done for other in others):
            self.done = self.touched = True

    def take(self, waiting: list[Any]) -> None:
        """Take over what others wait for."""

    def counts(self) -> bool:
        """Whether the trigger, or any of its parts, looks at each element."""
        return self.looks_at_elements or any(child.counts() for child in self.children)


class Count(Node):
    looks_at_elements = True

    def restart(self) -> None:
        super().restart()
        self.seen = 0

    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        self.seen += 1

    def take(self, waiting: list[Any]) -> None:
        self.seen = sum(other.seen for other in waiting)

    def is_due(self, end: int) -> bool:
        return self.seen >= self.settings["n"]


class Size(Count):
    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        self.seen += len(value) - 1


class FullStop(Node):
    looks_at_elements = True

    def restart(self) -> None:
        super().restart()
        self.stopped = False

    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        self.stopped = self.stopped or value[-1] == "."

    def take(self, waiting: list[Any]) -> None:
        self.stopped = any(other.stopped for other in waiting)

    def is_due(self, end: int) -> bool:
        return self.stopped


class Spike(Node):
    looks_at_elements = True

    def restart(self) -> None:
        super().restart()
        self.values: list[float] = []
        self.spiked = False

    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        if self.values and value > self.settings["n"] * sum(self.values) / len(self.values):
            self.spiked = True
        self.values.append(value)

    def take(self, waiting: list[Any]) -> None:
        self.values = [value for other in waiting for value in other.values]
        self.spiked = any(other.spiked for other in waiting)

    def is_due(self, end: int) -> bool:
        return self.spiked


class ProcessingTime(Node):
    def element(self, value: Any, end: int) -> None:
        if not self.touched:
            self.at = self.world.now + self.settings.get("n", self.settings.get("delay", 0)) * SECOND
            if "align_to" in self.settings:
                period = self.settings["align_to"] * SECOND
                self.at = self.at - self.at % period + period
        super().element(value, end)

    def take(self, waiting: list[Any]) -> None:
        self.at = min(other.at for other in waiting)

    def is_due(self, end: int) -> bool:
        return self.touched and self.world.now >= self.at


class Signal(Node):
    def element(self, value: Any, end: int) -> None:
        if not self.touched:
            self.before = self.world.signals.get(self.settings["n"], 0)
        super().element(value, end)

    def take(self, waiting: list[Any]) -> None:
        self.before = min(other.before for other in waiting)

    def is_due(self, end: int) -> bool:
        return self.touched and self.world.signals.get(self.settings["n"], 0) > self.before


class Always(Node):
    def is_due(self, end: int) -> bool:
        return self.touched

    def fire(self, end: int) -> None:
        self.touched = False


class Never(Node):
    def is_due(self, end: int) -> bool:
        return False


class Watermark(Node):
    """AfterWatermark; `children` are what is repeated before and after, or None."""

    def __init__(self, world: World, children: Sequence[Node] = (), **parts: Any) -> None:
        self.before: Node | None = Repeat(world, [parts["early"]]) if "early" in parts else None
        self.after: Node | None = Repeat(world, [parts["late"]]) if "late" in parts else None
        super().__init__(world, [part for part in (self.before, self.after) if part])

    def passed(self, end: int) -> bool:
        """Whether the clock that this looks at has passed the end of the window."""
        return self.world.watermark >= end

    def restart(self) -> None:
        super().restart()
        self.was_on_time = False

    def go_on(self, end: int) -> None:
        self.restart()
        if not self.passed(end):
            self.touched = True
            if self.before:
                self.before.go_on(end)

    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        part = self.after if self.was_on_time else self.before
        if part:
            part.element(value, end)

    def is_due(self, end: int) -> bool:
        if not self.touched:
            return False
        if self.was_on_time:
            return self.after is not None and self.after.is_due(end)
        return self.passed(end) or (self.before is not None and self.before.is_due(end))

    def fire(self, end: int) -> None:
        if self.was_on_time and self.after:
            self.after.fire(end)
        elif self.passed(end):
            self.was_on_time = True
            self.done = self.after is None
            if self.after:
                self.after.go_on(end)
        elif self.before:
            self.before.fire(end)

    def absorb(self, others: list[Any], end: int) -> None:
        touched = [other for other in others if other.touched]
        if not touched:
            return
        self.touched = True
        self.was_on_time = self.passed(end) and any(other.was_on_time for other in touched)
        self.done = self.was_on_time and any(other.done for other in touched)
        part = self.after if self.was_on_time else self.before
        same = [other for other in touched if other.was_on_time == self.was_on_time]
        if part and same:
            part.absorb([other.after if self.was_on_time else other.before for other in same], end)
        elif part:
            part.go_on(end)


class Percentile(Watermark):
    def __init__(self, world: World, children: Sequence[Node] = (), n: float = 0) -> None:
        self.share = n
        super().__init__(world)

    def passed(self, end: int) -> bool:
        return max(self.world.watermark, self.world.percentiles.get(self.share, MIN_MICROS)) >= end


class Repeat(Node):
    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        self.children[0].element(value, end)

    def is_due(self, end: int) -> bool:
        return self.children[0].is_due(end)

    def fire(self, end: int) -> None:
        self.children[0].fire(end)
        if self.children[0].done:
            self.children[0].go_on(end)

    def absorb(self, others: list[Node], end: int) -> None:
        self.touched = any(other.touched for other in others)
        self.children[0].absorb([other.children[0] for other in others], end)


class Default(Repeat):
    def __init__(self, world: World, children: Sequence[Node] = ()) -> None:
        super().__init__(world, [Watermark(world)])


class Parts(Node):
    """A trigger composed of others."""

    def open(self) -> list[Node]:
        """The parts that aren't done."""
        return [child for child in self.children if not child.done]

    def element(self, value: Any, end: int) -> None:
        super().element(value, end)
        for child in self.open():
            child.element(value, end)

    def fire(self, end: int) -> None:
        for child in self.open():
            if child.is_due(end):
                child.fire(end)
        self.done = self.is_over()
        if self.done:
            for child in self.open():
                child.restart()

    def is_over(self) -> bool:
        """Whether the trigger is finished, by its finished parts."""
        raise NotImplementedError

    def absorb(self, others: list[Node], end: int) -> None:
        self.touched = any(other.touched for other in others)
        for index, child in enumerate(self.children):
            child.absorb([other.children[index] for other in others], end)
        self.done = self.touched and self.is_over()


class Any_(Parts):
    def is_due(self, end: int) -> bool:
        return any(child.is_due(end) for child in self.open())

    def is_over(self) -> bool:
        return any(child.done for child in self.children)


class All(Parts):
    def is_due(self, end: int) -> bool:
        return all(child.is_due(end) for child in self.open())

    def is_over(self) -> bool:
        return all(child.done for child in self.children)


class Each(Parts):
    def open(self) -> list[Node]:
        return super().open()[:1]

    def is_due(self, end: int) -> bool:
        return any(child.is_due(end) for child in self.open())

    def fire(self, end: int) -> None:
        (child,) = self.open()
        child.fire(end)
        if child.done:
            for following in self.open():
                following.go_on(end)
        self.done = self.is_over()

    def is_over(self) -> bool:
        return not self.open()

    def go_on(self, end: int) -> None:
        self.restart()
        self.children[0].go_on(end)

    def absorb(self, others: list[Node], end: int) -> None:
        super().absorb(others, end)
        first = self.children.index(self.open()[0]) if self.open() else len(self.children)
        for child in self.children[first + 1 :]:
            child.restart()


NODES: dict[str, type[Node]] = {
    "AfterCount": Count,
    "AfterSize": Size,
    "AfterFullStop": FullStop,
    "AfterSpike": Spike,
    "AfterProcessingTime": ProcessingTime,
    "AfterSignal": Signal,
    "AfterWatermark": Watermark,
    "AfterWatermarkPercentile": Percentile,
    "DefaultTrigger": Default,
    "Always": Always,
    "Never": Never,
    "Repeatedly": Repeat,
    "AfterAny": Any_,
    "AfterAll": All,
    "OrFinally": Any_,
    "AfterEach": Each,
}


def tree(text: str, world: World) -> Node:
    """A trigger, from how it is written."""

    def of(call: ast.expr) -> Any:
        if isinstance(call, ast.Constant):
            return call.value
        name, parts, named = taken_apart(call)
        made = [of(part) for part in parts]
        settings = {key: of(value) for key, value in named.items()}
        if made and not isinstance(made[0], Node):
            return NODES[name](world, n=made[0], **settings)
        return NODES[name](world, made, **settings)

    made: Node = of(ast.parse(text, mode="eval").body)
    return made


def taken_apart(call: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """A call's name and arguments."""
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return call.func.id, call.args, {str(keyword.arg): keyword.value for keyword in call.keywords}


# Windows


@attrs.define(eq=False)
class Window:
    """One key's window; `elements` are (value, timestamp), `counted` the times that the next pane's timestamp is of."""

    key: str
    interval: tuple[int, int] | None
    trigger: Node
    elements: list[tuple[Any, int]] = attrs.field(factory=list)
    is_new: list[bool] = attrs.field(factory=list)
    counted: list[int] = attrs.field(factory=list)
    panes: int = 0
    on_time_panes: int = 0
    was_on_time: bool = False
    standing: list[Pane] = attrs.field(factory=list)

    @property
    def end(self) -> int:
        """The first instant after it; no watermark short of it completes the window."""
        return GLOBAL_END + 1 if self.interval is None else self.interval[1]


class NaiveModel:
    """Plays a transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.world = World()
        self.windows: list[Window] = []
        self.dropped = 0
        self.out: list[Pane] = []
        self.by_element = tree(transcript.trigger, self.world).counts()

    # What happens

    def elements(self, elements: list[Element]) -> list[Pane]:
        """A bundle, which is several of one element where each counts."""
        bundles = [[element] for element in elements] if self.by_element else [elements]
        for bundle in bundles:
            self.advance_output()
            touched: list[tuple[Window, Any]] = []
            for element in bundle:
                for interval in self.intervals(element.timestamp):
                    window = self.window_for(element.key, interval)
                    if window is None:
                        self.dropped += 1
                        continue
                    window.elements.append((element.value, element.timestamp))
                    window.is_new.append(True)
                    self.count(window, element.timestamp)
                    touched = [pair for pair in touched if pair[0] is not window and pair[0] in self.windows]
                    touched.append((window, element.value))
            for window, value in touched:
                if not window.trigger.done:
                    window.trigger.element(value, window.end)
                if self.world.watermark >= window.end:
                    self.advance_output()
                self.look(window)
        return self.taken()

    def watermark(self, micros: int) -> list[Pane]:
        """The watermark."""
        self.advance_output()
        self.world.watermark = micros
        out = self.look_at_all()
        for window in self.windows:
            self.take_back_replaced(window)
        return [*out, *self.taken()]

    def processing_time(self, micros: int) -> list[Pane]:
        """The clock."""
        self.advance_output()
        self.world.now = micros
        return self.look_at_all()

    def percentile(self, share: float, micros: int) -> list[Pane]:
        """A percentile watermark."""
        self.advance_output()
        self.world.percentiles[share] = micros
        return self.look_at_all()

    def signal(self, name: str) -> list[Pane]:
        """A signal."""
        self.advance_output()
        self.world.signals[name] = self.world.signals.get(name, 0) + 1
        return self.look_at_all()

    # Windows

    def intervals(self, time: int) -> list[tuple[int, int] | None]:
        """Where a timestamp belongs."""
        name, *numbers = self.transcript.window.split()
        seconds = [int(number) * SECOND for number in numbers]
        if name == "global":
            return [None]
        if name == "sessions":
            return [(time, time + seconds[0])]
        size = seconds[0]
        period = seconds[1] if name == "sliding" else size
        last = time - time % period
        return [(start, start + size) for start in range(last, time - size, -period)]

    def window_for(self, key: str, interval: tuple[int, int] | None) -> Window | None:
        """The window that an element goes into, merged with those it joins; None if that has expired."""
        joined = []
        if interval is not None and self.transcript.window.startswith("sessions"):
            for window in self.windows:
                assert window.interval is not None
                if window.key == key and window.interval[0] < interval[1] and interval[0] < window.interval[1]:
                    joined.append(window)
            ends = [interval, *(window.interval for window in joined if window.interval)]
            interval = (min(start for start, _ in ends), max(end for _, end in ends))
        else:
            joined = [window for window in self.windows if (window.key, window.interval) == (key, interval)]
        if len(joined) == 1 and joined[0].interval == interval:
            return joined[0]
        new = Window(key, interval, tree(self.transcript.trigger, self.world))
        if self.has_expired(new):
            return None
        if joined:
            new.elements = [pair for window in joined for pair in window.elements]
            new.is_new = [is_new for window in joined for is_new in window.is_new]
            new.counted = [time for window in joined if self.counts(window) for time in window.counted]
            new.was_on_time = any(window.was_on_time for window in joined) and self.world.watermark >= new.end
            new.standing = [pane for window in joined for pane in window.standing]
            new.trigger.absorb([window.trigger for window in joined], new.end)
        self.windows = [window for window in self.windows if window not in joined] + [new]
        return new

    def has_expired(self, window: Window) -> bool:
        """Whether a window has expired."""
        watermark = self.world.watermark
        return watermark > window.end + self.transcript.lateness or watermark == MAX_MICROS

    # The watermark downstream, and its holds

    def advance_output(self) -> None:
        """Advance the output watermark to the least hold."""
        holds = [time for window in self.windows for time in self.holds(window) if time >= self.world.output]
        self.world.output = max(self.world.output, min([self.world.watermark, *holds]))

    def holds(self, window: Window) -> list[int]:
        """Return the timestamps that may still appear in the output of a window."""
        found = []
        is_complete, last = self.world.watermark >= window.end, window.end - 1
        if any(window.is_new) and self.counts(window):
            found.append(self.of_times(window.counted))
        elif any(window.is_new) and is_complete:
            found.append(last)
        if self.transcript.mode is AccumulationMode.RETRACTING and not is_complete:
            found += [pane.timestamp for pane in window.standing if pane.timestamp < last]
        return found

    def counts(self, window: Window) -> bool:
        """Whether there are times that a pane's timestamp may be of: the output watermark hasn't passed it."""
        return bool(window.counted) and self.of_times(window.counted) >= self.world.output

    def count(self, window: Window, time: int) -> None:
        """An element is not behind the output watermark, or it doesn't count."""
        if self.transcript.timestamp is TimestampCombiner.OUTPUT_AT_EOW:
            return
        if not self.counts(window):
            window.counted = []
        if time >= self.world.output:
            window.counted.append(time)

    def of_times(self, times: list[int]) -> int:
        """The earliest or latest."""
        return min(times) if self.transcript.timestamp is TimestampCombiner.OUTPUT_AT_EARLIEST else max(times)

    # Panes

    def look_at_all(self) -> list[Pane]:
        """All windows, in the order in which they end."""
        for window in sorted(self.windows, key=lambda window: (window.end, window.key)):
            self.look(window)
        return self.taken()

    def look(self, window: Window) -> None:
        """Fire or close a window, if it is time."""
        is_over = self.has_expired(window)
        if not window.trigger.done and window.trigger.is_due(window.end):
            self.emit(window, is_over)
            window.trigger.fire(window.end)
        elif is_over and any(window.is_new):
            self.emit(window, is_over)
        if is_over:
            self.windows.remove(window)

    def emit(self, window: Window, is_last: bool) -> None:
        """Emit a pane, unless it would say nothing."""
        is_late = window.was_on_time or self.world.output >= window.end
        timing = EARLY if self.world.watermark < window.end else LATE if is_late else ON_TIME
        if timing is not ON_TIME and not any(window.is_new):
            return
        window.was_on_time = timing is not EARLY
        mode = self.transcript.mode
        shown = [
            pair
            for pair, is_new in zip(window.elements, window.is_new)
            if is_new or mode is not AccumulationMode.DISCARDING
        ]
        window.is_new = [False] * len(window.is_new)
        info = PaneInfo(
            is_first=window.panes == 0,
            is_last=is_last,
            timing=timing,
            index=window.panes,
            nonspeculative_index=-1 if timing is EARLY else window.on_time_panes,
        )
        pane = Pane(window.key, self.combined(shown), window.interval, self.stamp(window, timing), info)
        if mode is AccumulationMode.RETRACTING:
            same = [(p.value, p.window, p.timestamp) for p in window.standing]
            if (timing is ON_TIME or is_last) and same == [(pane.value, pane.window, pane.timestamp)]:
                return
            self.out += [attrs.evolve(standing, sign=-1) for standing in window.standing]
            window.standing = [pane]
        self.out.append(pane)
        window.panes += 1
        window.on_time_panes += timing is not EARLY

    def take_back_replaced(self, window: Window) -> None:
        """Take back what was said of former windows that expire downstream now, if it holds no watermark there."""
        holds = [time for time in self.holds(window) if time >= self.world.output]
        for pane in list(window.standing):
            is_held = bool(holds) and pane.timestamp >= min(holds)
            if pane.window != window.interval and not is_held:
                assert pane.window is not None
                if pane.window[1] + self.transcript.lateness <= self.world.watermark:
                    window.standing.remove(pane)
                    self.out.append(attrs.evolve(pane, sign=-1))

    def combined(self, pairs: list[tuple[Any, int]]) -> Any:
        """The value of a pane."""
        values = [value for value, _ in pairs]
        return {"sum": sum, "count": len, "list": lambda values: sorted(values, key=repr)}[self.transcript.combine](
            values
        )

    def stamp(self, window: Window, timing: PaneInfoTiming) -> int:
        """The timestamp of a pane."""
        mode = self.transcript.mode
        found = self.of_times(window.counted) if self.counts(window) else window.end - 1
        if mode is AccumulationMode.RETRACTING and timing is LATE:
            found = next((pane.timestamp for pane in window.standing if pane.window == window.interval), found)
        if mode is AccumulationMode.DISCARDING:
            window.counted = []
        return found

    def taken(self) -> list[Pane]:
        """Return the output since the last call."""
        out, self.out = self.out, []
        return out
