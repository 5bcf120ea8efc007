"""Steps wired together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.operators.dataflow import Dataflow
from penstock.runners.execution.plan.fusion import Grouping, Plan, Stage, fuse, in_place
from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.side_inputs import AsList
from penstock.windowing import IntervalWindow


class Wired:
    """A pipeline's plan, wired, with its sources to be fed by hand."""

    def __init__(self, pipeline: beam.Pipeline, may_fold: Any = in_place) -> None:
        self.plan: Plan = fuse(pipeline.graph(), may_fold)
        self.counts = Counts()
        self.views = SideInputViews()
        self.operators = {
            s.transform.label: Operator(Fold(s.transform)) for s in self.plan.steps if isinstance(s, Grouping)
        }
        self.dataflow = Dataflow(self.plan, self.plan.steps, self.views, self.operators, {}, self.counts, {})

    def id_of(self, label: str) -> int:
        return next(i for i, node in self.plan.graph.pcollections.items() if node.producer.split("/")[0] == label)

    def feed(self, label: str, values: list[Any]) -> None:
        self.dataflow.send_to(self.id_of(label))(Bundle(values))

    def watch(self, label: str) -> list[Any]:
        """The values that come, from now on."""
        seen: list[Any] = []
        self.dataflow.attach(self.id_of(label), lambda bundle: seen.extend(bundle.values))
        return seen


class Operator:
    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.operator = WindowOperator(fold)

    @property
    def cells(self) -> Any:
        return self.operator.cells

    def results(self) -> list[Any]:
        return [value for bundle in self.operator.flush() for value in bundle.values]


def test_a_bundle_goes_to_everyone_who_takes_the_pcollection() -> None:
    """To stages, and to attached consumers."""
    p = beam.Pipeline()
    source = p | "source" >> beam.Create([0])
    source | "plus" >> beam.Map(lambda x: x + 1)
    source | "times" >> beam.Map(lambda x: x * 2)
    wired = Wired(p)
    plus, times, itself = wired.watch("plus"), wired.watch("times"), wired.watch("source")
    wired.feed("source", [1, 2])
    wired.feed("source", [3])
    assert ([2, 3, 4], [2, 4, 6], [1, 2, 3]) == (plus, times, itself)


def test_a_flatten_passes_on_each_of_its_inputs() -> None:
    """Twice what it is given twice."""
    p = beam.Pipeline()
    a, b = p | "a" >> beam.Create([0]), p | "b" >> beam.Create([0])
    (a, b, a) | "both" >> beam.Flatten()
    wired = Wired(p)
    both = wired.watch("both")
    wired.feed("a", [1])
    wired.feed("b", [2])
    assert [1, 1, 2] == both


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_stage_folds_into_its_grouping_or_hands_bundles_to_it(is_fused: bool) -> None:
    """The results are the same."""
    p = beam.Pipeline()
    pairs = p | "source" >> beam.Create([0]) | "pair" >> beam.Map(lambda x: (x % 2, x))
    pairs | "sum" >> beam.CombinePerKey(sum)
    wired = Wired(p, lambda *_: is_fused)
    wired.feed("source", [1, 2, 3])
    wired.feed("source", [4])
    assert [(1, 4), (0, 6)] == wired.operators["sum"].results()


def test_what_needs_a_side_input_is_kept_until_that_is_complete() -> None:
    """Then it is processed in the order in which it came, and what comes later at once."""
    p = beam.Pipeline()
    side = p | "side" >> beam.Create([0])
    p | "source" >> beam.Create([0]) | "use" >> beam.Map(lambda x, s: x + sum(s), AsList(side))
    wired = Wired(p)
    use = wired.watch("use")
    wired.feed("source", [1, 2])
    wired.feed("source", [3])
    assert [] == use
    wired.views.add(wired.id_of("side"), Bundle([10, 20]))
    (stage,) = (s for s in wired.plan.steps if isinstance(s, Stage))
    run = wired.dataflow.stages[stage.id]
    run.unblock()
    assert [31, 32, 33] == use
    wired.feed("source", [4])
    assert [31, 32, 33, 34] == use


def test_what_is_kept_holds_the_watermark_back() -> None:
    """At the earliest of its timestamps."""
    p = beam.Pipeline()
    side = p | "side" >> beam.Create([0])
    p | "source" >> beam.Create([0]) | "use" >> beam.Map(lambda x, s: x, AsList(side))
    wired = Wired(p)
    (stage,) = (s for s in wired.plan.steps if isinstance(s, Stage))
    run = wired.dataflow.stages[stage.id]
    assert None is run.hold()
    run.receive(Bundle([1, 2], [70, 30]))
    run.receive(Bundle([3], 50))
    assert 30 == run.hold()
    run.unblock()
    assert None is run.hold()


def test_windows_whose_side_inputs_are_ready_go_ahead() -> None:
    """The others wait."""
    p = beam.Pipeline()
    side = p | "side" >> beam.Create([0])
    p | "source" >> beam.Create([0]) | "use" >> beam.Map(lambda x, s: x, AsList(side))
    wired = Wired(p)
    use = wired.watch("use")
    early, late = IntervalWindow(0, 10), IntervalWindow(10, 20)
    (stage,) = (s for s in wired.plan.steps if isinstance(s, Stage))
    run = wired.dataflow.stages[stage.id]
    run.is_ready = lambda window: window == early
    run.receive(Bundle([1, 2], [0, 10], [(early,), (late,)]))
    run.receive(Bundle([3], 0, (early,)))
    assert [1, 3] == use
    run.is_ready = lambda window: True
    run.process_ready()
    assert [1, 3, 2] == use


def test_elements_are_counted_by_step() -> None:
    """In and out; what a fold takes in doesn't come out of it."""
    p = beam.Pipeline()
    words = p | "source" >> beam.Create([""]) | "split" >> beam.FlatMap(str.split)
    words | "long" >> beam.Filter(lambda word: len(word) > 2)
    words | "pair" >> beam.Map(lambda word: (word, 1)) | "sum" >> beam.CombinePerKey(sum)
    wired = Wired(p)
    wired.feed("source", ["to be or not to be"])
    counts = {label: (count.read, count.written) for label, count in wired.counts.steps.items()}
    assert {"split": (1, 6), "long": (6, 1), "pair + sum": (6, 0)} == counts


class Reporting(beam.DoFn):
    """Makes a file of what happens to it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name

    def setup(self) -> None:
        (self.directory / f"{self.name} is set up").touch()

    def process(self, element: Any) -> Any:
        return [element]

    def teardown(self) -> None:
        (self.directory / f"{self.name} is torn down").touch()


def test_dofns_are_torn_down_that_were_set_up(tmp_path: Path) -> None:
    """A stage that no bundle has reached was not."""
    p = beam.Pipeline()
    p | "a" >> beam.Create([0]) | "first" >> beam.ParDo(Reporting(tmp_path, "first"))
    p | "b" >> beam.Create([0]) | "second" >> beam.ParDo(Reporting(tmp_path, "second"))
    wired = Wired(p)
    wired.feed("a", [1])
    assert ["first is set up"] == sorted(path.name for path in tmp_path.iterdir())
    wired.dataflow.teardown()
    assert ["first is set up", "first is torn down"] == sorted(path.name for path in tmp_path.iterdir())


def test_readiness_of_side_inputs_is_asked_once_for_each_window() -> None:
    """Not for each waiting element: a stream asks whenever a watermark moves."""
    p = beam.Pipeline()
    side = p | "Side" >> beam.Create([1])
    p | "Main" >> beam.Create([1]) | "Out" >> beam.Map(lambda x, known: x, beam.pvalue.AsList(side))
    wired = Wired(p)
    seen = wired.watch("Out")
    (run,) = (run for step, run in wired.dataflow.stages.items() if run.executor.stage.side_inputs)
    windows = [IntervalWindow(start, start + 10) for start in (0, 10, 20)]
    complete, asked = set[Any](), list[Any]()

    def is_ready(window: Any) -> bool:
        asked.append(window)
        return window in complete

    run.is_ready = is_ready
    for n in range(5):
        values = list(range(6 * n, 6 * n + 6))
        run.receive(Bundle(values, [100 + x for x in values], [(windows[x % 3],) for x in values]))
    assert [6, 6, 6, 6, 6] == [len(bundle) for bundle in run.kept()]
    assert 5 * 3 == len(asked)
    assert 100 == run.hold()

    asked.clear()
    run.process_ready()
    assert set(windows) == set(asked)
    assert 3 == len(asked)
    assert [] == seen

    complete.add(windows[0])
    run.process_ready()
    assert [x for x in range(30) if x % 3 == 0] == seen
    assert 101 == run.hold()

    complete.update(windows)
    run.process_ready()
    assert list(range(30)) == sorted(seen)
    assert run.hold() is None
    assert [] == run.kept()
