"""Segment programs: what a task holds before its scheduler takes it."""

from __future__ import annotations

import pathlib

import pytest
from support.runners.segments import spark_plan

import penstock as beam
from penstock.runners.execution.batch.bounded_program import BoundedProgram
from penstock.runners.execution.batch.segment_program import SegmentProgram, TaskReport, decoded


@pytest.mark.parametrize("is_grouped", [True, False])
def test_a_task_hands_on_large_values_before_it_has_made_all(is_grouped: bool, tmp_path: pathlib.Path) -> None:
    """Blocks of a shuffle, and of side inputs: 60 values of 10 MB are one bundle of small elements before."""
    made = tmp_path / "made"
    made.touch()
    taken: list[int] = []

    def large(n: int) -> tuple[int, bytes]:
        with made.open("a") as file:
            file.write(".")
        return n, bytes(10 << 20)

    p = beam.Pipeline()
    values = p | beam.Create(list(range(60))) | beam.Map(large)
    if is_grouped:
        _ = values | beam.GroupByKey()
    else:
        _ = p | "One" >> beam.Create([1]) | beam.Map(lambda x, sides: x, beam.pvalue.AsList(values))
    program = BoundedProgram(spark_plan(p), 100)
    number = next(i for i, segment in enumerate(program.segments) if segment.groupings or segment.side_outputs)
    task = SegmentProgram.of(program, number)
    most = 0
    for _, _, block in task.rows(0, task.split(lambda size: 1), decoded({}), TaskReport.empty()):
        taken.append(len(block))
        most = max(most, made.stat().st_size * (10 << 20) - sum(taken))
    assert 60 * (10 << 20) <= sum(taken)
    assert most < 100 << 20
