"""The schema of a step's state, as text: detect that a changed pipeline can't read the state of a checkpoint.

A checkpoint's manifest has the schemas by label.  Parameters that may change, such as a trigger's count or a window's
size, are not in them.

>>> before = {"Sum": {"windows": "values, for DefaultTrigger"}, "Once": {"state seen": "SetStateSpec"}}
>>> now = {"Sum": {"windows": "values, for AfterCount"}, "Once": {"state seen": "SetStateSpec", "timer t": "WATERMARK"}}
>>> [str(each) for each in mismatches(before, now)]
["'Sum': windows (then: values, for DefaultTrigger; now: values, for AfterCount)"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....frozen import frozen
from ....sdk import graph
from ....sdk.dofn.stateful_dofn import signature_of
from ....sdk.userstate import CombiningValueStateSpec
from ....triggers.accumulation_mode import AccumulationMode
from ....triggers.trigger import Trigger
from ..plan.fusion import Grouping, Keyed, Plan, Step

# By step, its state: by name, the schema as text.
Shapes = Mapping[str, Mapping[str, str]]

# The name of a grouping's state, and the prefixes of names of a DoFn's.
WINDOWS, STATE, TIMER = "windows", "state ", "timer "


@frozen
class Mismatch:
    """State that its step can't restore.

    Attributes:
      label, name: the step's, and the state's.
      was, now: the schemas; None if the step has no state of that name any more.
    """

    label: str
    name: str
    was: str
    now: str | None

    def __str__(self) -> str:
        return f"{self.label!r}: {self.name} (then: {self.was}; now: {self.now or 'none'})"


def shapes_of(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the schemas of a pipeline's steps."""
    return {step.transform.label: dict(_of_step(step)) for step in plan.steps if isinstance(step, (Grouping, Keyed))}


def mismatches(before: Shapes, now: Shapes) -> list[Mismatch]:
    """Return the state that has been removed or has changed.  New state begins empty, and is no mismatch."""
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
    """Return a trigger's class, and those of its parts, without their parameters."""
    parts = [_of_trigger(part) for value in vars(trigger).values() for part in _triggers(value)]
    return f"{type(trigger).__name__}({', '.join(parts)})" if parts else type(trigger).__name__


def _triggers(value: Any) -> Iterable[Trigger]:
    if isinstance(value, Trigger):
        return [value]
    return [part for part in value if isinstance(part, Trigger)] if isinstance(value, (list, tuple)) else []
