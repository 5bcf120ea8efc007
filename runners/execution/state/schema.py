"""What a step's state looks like, in words: so that a changed pipeline isn't given state that it can't read.

A checkpoint's manifest has them by label.  What may change all the same, such as a trigger's count or a window's size,
isn't in them.

>>> before = {"Sum": {"windows": "values, for DefaultTrigger"}, "Once": {"state seen": "SetStateSpec"}}
>>> now = {"Sum": {"windows": "values, for AfterCount"}, "Once": {"state seen": "SetStateSpec", "timer t": "WATERMARK"}}
>>> [str(each) for each in mismatches(before, now)]
["'Sum': windows (then: values, for DefaultTrigger; now: values, for AfterCount)"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.stateful_dofn import signature_of
from ....sdk.userstate import CombiningValueStateSpec
from ....triggers.accumulation_mode import AccumulationMode
from ....triggers.trigger import Trigger
from ..plan.fusion import Grouping, Keyed, Plan, Step

# By step, what it keeps: by name, in words.
Shapes = Mapping[str, Mapping[str, str]]

# What a grouping keeps, and the beginnings of what a DoFn does.
WINDOWS, STATE, TIMER = "windows", "state ", "timer "


@attrs.frozen
class Mismatch:
    """State that the step of its label can't go on with.

    Attributes:
      label, name: the step's, and its own.
      was, now: in words; None if the step keeps nothing of that name any more.
    """

    label: str
    name: str
    was: str
    now: str | None

    def __str__(self) -> str:
        return f"{self.label!r}: {self.name} (then: {self.was}; now: {self.now or 'none'})"


def shapes_of(plan: Plan) -> dict[str, dict[str, str]]:
    """What the steps of a pipeline keep."""
    return {step.transform.label: dict(_of_step(step)) for step in plan.steps if isinstance(step, (Grouping, Keyed))}


def mismatches(before: Shapes, now: Shapes) -> list[Mismatch]:
    """What was kept once and isn't any more, or otherwise.  What is new begins empty, and is no mismatch."""
    return [
        Mismatch(label, name, was, now.get(label, {}).get(name))
        for label, shapes in before.items()
        for name, was in shapes.items()
        if now.get(label, {}).get(name) != was
    ]


def _of_step(step: Step) -> Iterator[tuple[str, str]]:
    if isinstance(step, Grouping):
        primitive = step.primitive
        windowing = primitive.windowing
        what = "values" if primitive.combine is None else _name_of(primitive.combine.object)
        retracting = windowing.accumulation_mode is AccumulationMode.RETRACTING
        yield WINDOWS, f"{what}, for {_of_trigger(windowing.trigger)}{', retracting' if retracting else ''}"
    elif isinstance(step, Keyed):
        pardo = step.transform.primitive
        assert isinstance(pardo, graph.ParDo)
        assert pardo.fn is not None
        signature = signature_of(pardo.fn.object[0])
        for spec in signature.states:
            combined = f" of {_name_of(spec.combine_fn)}" if isinstance(spec, CombiningValueStateSpec) else ""
            yield f"{STATE}{spec.name}", f"{type(spec).__name__}{combined}"
        for timer in signature.timers:
            yield f"{TIMER}{timer.name}", str(timer.time_domain)


def _name_of(combine_fn: Any) -> str:
    return type(combine_fn).__qualname__


def _of_trigger(trigger: Trigger) -> str:
    """A trigger's class, and those of the triggers that it is made of: not their numbers."""
    parts = [_of_trigger(part) for value in vars(trigger).values() for part in _triggers(value)]
    return f"{type(trigger).__name__}({', '.join(parts)})" if parts else type(trigger).__name__


def _triggers(value: Any) -> Iterable[Trigger]:
    if isinstance(value, Trigger):
        return [value]
    return [part for part in value if isinstance(part, Trigger)] if isinstance(value, (list, tuple)) else []
