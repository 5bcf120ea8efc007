"""Stages and groupings on their own: built by a pipeline, fed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import penstock as beam
from penstock.runners.execution.plan.fusion import Grouping, Plan, Stage, Step, fuse, in_place
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.elements.bundle import GLOBAL_WINDOWS, Bundle
from penstock.triggers import PANE_INFO_UNKNOWN
from penstock.windowing import IntervalWindow

# Value, microseconds, windows, pane, sign.
Row = tuple[Any, int, Any, Any, int]

SECOND = 1_000_000


def plan_of(build: Callable[[beam.Pipeline], Any]) -> Plan:
    """The plan of what a function adds to a pipeline."""
    pipeline = beam.Pipeline("local")
    build(pipeline)
    return fuse(pipeline.graph(), in_place)


def chained(pcoll: Any, transforms: Iterable[Any]) -> Any:
    """Transforms applied one after the other, under the labels "0", "1", ..."""
    for i, transform in enumerate(transforms):
        pcoll = pcoll | (transform if transform._label else str(i) >> transform)
    return pcoll


def only(steps: Iterable[Step], kind: type[Any]) -> Any:
    (found,) = [step for step in steps if isinstance(step, kind)]
    return found


def row(
    value: Any, seconds: float = 0, windows: Any = GLOBAL_WINDOWS, pane: Any = PANE_INFO_UNKNOWN, sign: int = 1
) -> Row:
    """A row, at a time in seconds."""
    return value, round(seconds * SECOND), windows, pane, sign


def bundle(*rows: Row) -> Bundle:
    """A bundle all of whose columns have an entry for each element."""
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
    return Bundle(*columns)


def window(start: float, end: float) -> IntervalWindow:
    return IntervalWindow(start, end)


class StageAlone:
    """The one stage of a chain of transforms.

    Attributes:
      emitted: the bundles that came out, with their tags.
    """

    def __init__(self, *transforms: Any, side_inputs: SideInputViews | None = None, stage: Stage | None = None) -> None:
        if stage is None:
            stage = only(plan_of(lambda p: chained(p | beam.Create([]), transforms)).steps, Stage)
        self.emitted: list[tuple[Any, Bundle]] = []
        self.executor = StageExecutor(stage, lambda tag, made: self.emitted.append((tag, made)), side_inputs)

    def process(self, *bundles: Bundle) -> StageAlone:
        for given in bundles:
            self.executor.process(given)
        return self

    def rows(self, tag: Any = None) -> list[Row]:
        return [r for own, made in self.emitted if own == tag for r in made.rows()]

    def values(self, tag: Any = None) -> list[Any]:
        return [r[0] for r in self.rows(tag)]


class GroupingAlone:
    """A grouping with the transforms before it, which are fused to it.

    Attributes:
      operator: its window operator.
    """

    def __init__(self, *transforms: Any) -> None:
        plan = plan_of(lambda p: chained(p | beam.Create([("", 0)]).with_output_types(Any), transforms))
        grouping = only(plan.steps, Grouping)
        self.fold = Fold(grouping.transform)
        self.fold.setup()
        self.operator = WindowOperator(self.fold)
        stages = [step for step in plan.steps if isinstance(step, Stage)]
        stage = stages[0] if stages else Stage((), grouping.transform.inputs[0], grouping.transform)
        assert stage.fold is grouping.transform
        self.executor = StageExecutor(stage, self._no_output, None, self.operator.cells, self.fold)

    def _no_output(self, tag: Any, made: Bundle) -> None:
        raise AssertionError("a stage that ends in a fold has no output")

    def process(self, *bundles: Bundle) -> GroupingAlone:
        for given in bundles:
            self.executor.process(given)
        return self

    def results(self) -> list[Row]:
        """What comes out at the end of time."""
        return [r for made in self.operator.flush() for r in made.rows()]
