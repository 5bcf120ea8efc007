"""How often garbage is looked for."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.runners.execution.gc_tuning import (
    NEW_OBJECTS,
    THOROUGH,
    YOUNG_COLLECTIONS,
    look_rarely_for_garbage,
    rarely_collected,
    set_aside,
    set_modules_aside,
)
from penstock.sdk.runner import create_runner
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The collector is afterwards what it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_process_of_its_own_looks_rarely_from_then_on_and_leaves_out_what_there_was() -> None:
    """Also behind a bundle, which would else put back what was before it."""
    look_rarely_for_garbage()
    with rarely_collected():
        pass
    assert NEW_OBJECTS == gc.get_threshold()[0]
    assert gc.get_freeze_count() > 0


# By the way a pipeline runs: its flags.
RUNS = {"in process": [], "a job": ["--checkpoint_dir={}"], "workers": ["--parallelism=2"], "a script": []}


@pytest.mark.parametrize("run", RUNS)
def test_user_code_runs_while_garbage_is_looked_for_rarely(run: str, tmp_path: Path) -> None:
    """In every engine; the program's own setting is restored afterwards, also after an error."""
    before = gc.get_threshold()
    flags = [flag.format(tmp_path) for flag in RUNS[run]]

    def build(p: beam.Pipeline, function: Callable[[Any], Any]) -> beam.PCollection[Any]:
        read = TestStream().add_elements([1]) if run == "a script" else beam.Create([1])
        return p | read | beam.Map(function)

    with beam.Pipeline(argv=flags) as p:
        assert_that(build(p, lambda x: gc.get_threshold()), equal_to([(NEW_OBJECTS, YOUNG_COLLECTIONS, before[2])]))
    assert before == gc.get_threshold()
    again = [flag.format(tmp_path / "again") for flag in RUNS[run]]
    with pytest.raises(ZeroDivisionError), beam.Pipeline(argv=again) as p:
        build(p, lambda x: 1 // 0)
    assert before == gc.get_threshold()


@pytest.mark.parametrize("threshold", [0, 2 * NEW_OBJECTS])
def test_a_higher_threshold_of_the_program_is_kept(threshold: int) -> None:
    """Or never."""
    gc.set_threshold(threshold, *(before := gc.get_threshold())[1:])
    with beam.Pipeline(argv=[]) as p:
        assert_that(p | beam.Create([1]) | beam.Map(lambda x: gc.get_threshold()), equal_to([(threshold, *before[1:])]))


def test_a_collector_that_was_switched_off_stays_so() -> None:
    """The program's choice takes precedence."""
    gc.set_threshold(0)
    look_rarely_for_garbage()
    assert 0 == gc.get_threshold()[0]


class Node:
    """Something that refers to itself, which only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_set_aside_is_not_gone_through_but_now_and_then() -> None:
    """Garbage that was young goes at once; what became garbage later, within so many times."""
    young = weakref.ref(Node())
    kept = Node()
    old = weakref.ref(kept)
    set_aside()
    assert young() is None

    del kept
    gc.collect()
    assert old() is not None
    for _ in range(THOROUGH):
        set_aside()
    assert old() is None


def test_modules_are_not_gone_through_once_they_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is then is frozen with them, and only then: all that comes later is collected as usual."""
    monkeypatch.setitem(sys.modules, "one_that_is_new", types.ModuleType("one_that_is_new"))
    set_modules_aside()
    frozen = gc.get_freeze_count()
    assert frozen > 0

    later = weakref.ref(Node())
    set_modules_aside()
    assert frozen == gc.get_freeze_count()
    gc.collect()
    assert later() is None


@pytest.mark.parametrize("runner", ["spark-batch", "spark-microbatch"])
def test_the_modules_of_a_spark_worker_are_not_gone_through_after_each_task(runner: str, spark: Any) -> None:
    """PySpark's daemon collects all garbage then; micro-batches freeze a subtask's state, too, from the second on."""
    for frozen in (False, True):
        with TestPipeline(create_runner(runner)) as p:
            counts = p | beam.Create([1]) | beam.Map(lambda x: gc.get_freeze_count() > 10_000)
            if frozen:
                assert_that(counts, equal_to([True]))
