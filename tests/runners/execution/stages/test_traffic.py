"""Traffic: what passes between the operations of a fused stage, estimated from some of its bundles."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from support.execution.stages import StageAlone

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.operators.dataflow import StageRun
from penstock.runners.execution.stages import traffic as stage_traffic
from penstock.runners.execution.stages.traffic import ALL, EdgeTraffic, StageTraffic
from penstock.sdk.elements.bundle import Bundle
from penstock.windowing import FixedWindows, TimestampedValue


class EveryOther(beam.DoFn):
    """Outputs even numbers at a time of their own, and others to another output, or not at all."""

    def process(self, n: int) -> Any:
        if n % 2 == 0:
            yield TimestampedValue(n, n)
        elif n % 3 == 0:
            yield beam.pvalue.TaggedOutput("thirds", n)


class Counted:
    """A stage at work whose inner edges are counted."""

    def __init__(self, *transforms: Any) -> None:
        self.stage = StageAlone(*transforms)
        self.run = StageRun(self.stage.executor, Counts())
        self.clock = Clock()
        self.run.traffic = StageTraffic(self.stage.executor.stage, self.clock)

    def receive(self, *bundles: Bundle) -> Counted:
        for given in bundles:
            self.run.receive(given)
        return self

    def elements(self) -> list[int]:
        """The elements on each edge, first to last."""
        assert self.run.traffic is not None
        return [each.elements for each in self.run.traffic.traffic().values()]

    def sizes(self) -> list[float]:
        """The average size of an element on each edge."""
        assert self.run.traffic is not None
        return [each.size / each.elements for each in self.run.traffic.traffic().values()]


def counts(executor: Any) -> bool:
    """Whether there is a kernel that counts."""
    return any(is_counting for _, is_counting, _ in executor.chain(0)._kernels)


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [
        pytest.param([beam.Map(str), beam.Map(len), beam.Map(abs)], [100, 100], id="maps"),
        pytest.param([beam.Filter(lambda n: n < 25), beam.Map(str), beam.Map(len)], [25, 25], id="a filter"),
        pytest.param([beam.FlatMap(range), beam.Filter(lambda n: n > 50), beam.Map(str)], [4950, 1176], id="flat map"),
        pytest.param([beam.ParDo(EveryOther()), beam.Map(str)], [50], id="timestamps and tags"),
        pytest.param([beam.Map(str), beam.WindowInto(FixedWindows(1)), beam.Map(len)], [100, 100], id="windows"),
        pytest.param([beam.Map(lambda n: TimestampedValue(n, n)), beam.Map(str), beam.Map(len)], [100] * 2, id="times"),
    ],
)
def test_the_elements_on_each_edge_are_counted(transforms: list[Any], expected: list[int]) -> None:
    """Also those with timestamps of their own, which don't pass through the loop of the others."""
    assert expected == Counted(*transforms).receive(Bundle(list(range(100)))).elements()


def test_some_bundles_stand_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first elements about one in 256 is counted; sums are right where each bundle is like the next."""
    counted = Counted(beam.Filter(lambda n: n % 4 == 0), beam.Map(str))
    sampled = 0

    def count(*given: Any) -> Any:
        nonlocal sampled
        sampled += given[0] == 0
        return taken(*given)

    assert counted.run.traffic is not None
    taken = counted.run.traffic._take
    monkeypatch.setattr(counted.run.traffic, "_take", count)
    for _ in range(1_000):
        counted.receive(Bundle(list(range(100))))

    assert [25_000] == counted.elements()
    assert 1_000 // 256 <= sampled <= 1_000 // 256 + 5


def test_subtasks_share_their_samples() -> None:
    """The elements of both are counted, and few of the second one's are sampled."""
    first, second = (Counted(beam.Filter(lambda n: n % 4 == 0), beam.Map(str)) for _ in range(2))
    second.run.traffic = first.run.traffic
    for _ in range(10):
        first.receive(Bundle(list(range(100))))
    second.receive(Bundle(list(range(100))))

    assert [275] == first.elements()
    assert not counts(second.stage.executor)
    assert counts(first.stage.executor)


def test_a_stage_that_is_not_looked_at_counts_nothing() -> None:
    """The function that counts isn't even made; and what it emits is the same as that of the one that counts."""
    plain = StageAlone(beam.Filter(lambda n: n % 4 == 0), beam.Map(str)).process(Bundle(list(range(100))))
    counted = Counted(beam.Filter(lambda n: n % 4 == 0), beam.Map(str)).receive(Bundle(list(range(100))))

    assert not counts(plain.executor)
    assert plain.rows() == counted.stage.rows()


def test_no_edge_is_counted_after_the_page_is_closed() -> None:
    """From the next bundle on."""
    counted = Counted(beam.Map(str), beam.Map(len)).receive(Bundle(list(range(10))))
    traffic = counted.run.traffic
    assert traffic is not None
    counted.run.stop_counting()
    counted.receive(Bundle(list(range(10))))

    assert [10] == [each.elements for each in traffic.traffic().values()]


def test_columns_are_counted_as_a_whole() -> None:
    """And have the size of their records."""
    from penstock.sdk.columns.expressions import bundle_of_records

    rows = [beam.Row(n=n, text="x" * 10) for n in range(100)]
    counted = Counted(beam.Select(n="n", text="text"), beam.Select(n="n"), beam.Map(lambda row: row.n))
    counted.receive(bundle_of_records(rows))

    assert [100, 100] == counted.elements()
    # A number, ten letters, and the place of the next text.
    assert 8 + 10 + 4 == round(counted.sizes()[0])


def test_bytes_are_those_of_pickled_samples() -> None:
    """One of 2,048 elements is pickled, or one in a second."""
    edge, small, large = EdgeTraffic(), "x", "x" * 1_000
    edge.count(Clock(0), Bundle([small] * 10))
    assert 10 * len(pickle.dumps(small, protocol=5)) == edge.traffic(ALL).size
    edge.count(Clock(999_999), Bundle([large] * 10))
    assert 20 * len(pickle.dumps(small, protocol=5)) == edge.traffic(ALL).size
    edge.count(Clock(1_000_000), Bundle([large] * 10))
    assert 30 * len(pickle.dumps(small, protocol=5)) < edge.traffic(ALL).size


def test_an_element_that_cannot_be_pickled_has_no_bytes() -> None:
    """The elements are counted all the same."""
    edge = EdgeTraffic()
    edge.count(Clock(0), Bundle([lambda: None]))
    assert (1, 0) == edge.traffic(ALL)[:2]


def test_older_samples_lose_their_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that lets more pass than before is seen."""
    monkeypatch.setattr(stage_traffic, "_MEMORY", 100)
    monkeypatch.setattr(stage_traffic, "_SHARE", 1)
    counted = Counted(beam.Filter(lambda n: n > 0), beam.Map(str))
    counted.receive(*[Bundle([0] * 50) for _ in range(10)])
    assert [0] == counted.elements()
    for _ in range(20):
        counted.receive(Bundle([1] * 50))
        counted.elements()
    assert 900 <= counted.elements()[0] <= 1_000
    assert counted.stage.values() == ["1"] * 1_000
