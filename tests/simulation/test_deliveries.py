"""Strong and weak productions under seeds, with negative controls of both."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from simulation.negative_controls import WorkersWithDuplicates
from simulation.simulated_pipelines import BETWEEN, PIPELINES, script

import penstock as beam
from penstock.runners.local.productions.producer import Producer
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.sdk.errors import SimulationError
from penstock.windowing import FixedWindows


def simulation_of(build: Callable[[beam.Pipeline], None], **settings: Any) -> Simulation:
    """Return the simulation of a pipeline that a function builds."""
    pipeline = beam.Pipeline()
    build(pipeline)
    return Simulation(pipeline.graph(), SimulationSettings(**settings))


def errors_of(simulation: Simulation, seeds: range) -> list[str]:
    """Return the errors of the first failing seed."""
    for seed in seeds:
        try:
            simulation.run(seed)
        except SimulationError as error:
            return [str(error)]
    return []


def scattered(p: beam.Pipeline) -> None:
    """Sums of elements under random keys; the total is always the same."""
    _ = (
        p
        | beam.io.Read(script(8))
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(lambda pair: (random.choice("abcdefgh"), pair[1]))
        | "Parts" >> beam.CombinePerKey(sum)
        | beam.Map(lambda pair: ("all", pair[1]))
        | "Whole" >> beam.CombinePerKey(sum)
    )


def read_by_all(p: beam.Pipeline) -> None:
    """Sums of sums over a source that every subtask reads a part of; a script would be played by one subtask."""
    pairs = [beam.window.TimestampedValue(("abcdef"[n * n % 6], n), n) for n in range(60)]
    _ = (
        p
        | beam.Create(pairs)
        | beam.WindowInto(FixedWindows(10))
        | "Parts" >> beam.CombinePerKey(sum)
        | beam.Map(lambda pair: (pair[1] % 3, pair[1]))
        | "Whole" >> beam.CombinePerKey(sum)
    )


def greatest(p: beam.Pipeline, offset: float = BETWEEN, allowed_lateness: float = 0) -> None:
    """Maxima by key: a duplicate makes no difference as long as its window is open."""
    windows = beam.WindowInto(FixedWindows(10, offset), allowed_lateness=allowed_lateness)
    _ = p | beam.io.Read(script(9)) | windows | beam.CombinePerKey(max)


def test_strong_productions_bear_code_that_never_does_the_same_twice() -> None:
    """Delivered elements are in the log, and are redelivered unchanged."""
    simulation = simulation_of(scattered, delivery="strong", parallelism=3)

    assert [] == errors_of(simulation, range(20))


def test_without_the_log_before_delivery_such_code_gives_wrong_results() -> None:
    """A negative control: weak productions send first, and after a failure another receiver gets the same."""
    simulation = simulation_of(scattered, delivery="weak", parallelism=3)

    (error,) = errors_of(simulation, range(200))

    assert "output of Whole" in error


def test_a_replaced_worker_goes_on_with_the_others() -> None:
    """The others resend deliveries that were not acknowledged; the new worker resends those in its logs."""
    simulation = simulation_of(read_by_all, delivery="strong", parallelism=3)

    runs = [simulation.run(seed) for seed in range(20)]

    assert 1 < sum("replaces workers" in line for run in runs for line in run.trace)


def test_other_subtasks_find_what_is_theirs_in_the_logs() -> None:
    """Some runs restart with more subtasks, or with fewer."""
    simulation = simulation_of(read_by_all, delivery="strong")

    runs = [simulation.run(seed) for seed in range(30)]

    assert 1 < sum(any("layout-2" in line for line in run.trace) for run in runs)


def test_without_dropping_duplicates_results_are_wrong() -> None:
    """A negative control: deliveries without an acknowledgement are processed twice."""
    simulation = simulation_of(PIPELINES["windowed_sums"], delivery="strong", workers=WorkersWithDuplicates)

    (error,) = errors_of(simulation, range(200))

    assert "in the end" in error or "too much" in error


def _sends(producer: Producer, pending: Any) -> None:
    for sender in producer._senders.values():
        if sender.holds:
            sender.release()


def _reports(producer: Producer, pending: Any) -> None:
    for report in pending.reports:
        producer._release(report)


@pytest.mark.parametrize("does", [_sends, _reports])
def test_if_anything_is_heard_of_a_production_before_it_is_durable_results_are_wrong(
    does: Callable[[Producer, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative control: a failure forgets the production, although others have received its output."""
    cut = Producer._cut

    def cut_and_told(producer: Producer, is_whole: bool, now: int) -> Any:
        pending = cut(producer, is_whole, now)
        does(producer, pending)
        return pending

    monkeypatch.setattr(Producer, "_cut", cut_and_told)

    assert [] != errors_of(simulation_of(read_by_all, delivery="strong", parallelism=3), range(200))


def test_weak_productions_lose_nothing_and_do_where_twice_is_as_good_as_once() -> None:
    """A maximum; a sum would be wrong."""
    assert [] == errors_of(simulation_of(greatest, delivery="weak"), range(20))
    assert [] != errors_of(simulation_of(PIPELINES["windowed_sums"], delivery="weak"), range(60))


def test_what_weak_productions_send_again_is_late_where_a_window_that_has_fired_is_kept() -> None:
    """A maximum has another pane then.  Without lateness it takes a watermark that stops at the window's very end."""
    (error,) = errors_of(simulation_of(partial(greatest, allowed_lateness=5), delivery="weak"), range(100))

    assert "in the end" in error


def test_productions_under_the_same_seed_leave_the_same_trace() -> None:
    """Logs, acknowledgements and all."""
    simulation = simulation_of(PIPELINES["join"], delivery="strong")

    assert 1 == len({simulation.run(5).trace for _ in range(3)})
