"""Changes of the parallelism, and savepoints: the merged logs are a consistent cut at any moment."""

from __future__ import annotations

import pathlib

import pytest
from support.runners.production_streams import Visit, job_of, stopped
from support.runners.restartable_streams import Stream

import penstock as beam
from penstock.runners.execution.checkpoints.control_requests import Answer
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.plan.execution_graph import cut, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.productions.delivery import ProductionDelivery
from penstock.runners.local.productions.directory import Productions
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.sdk.errors import CheckpointMismatchError, UntrustedSnapshotError
from penstock.sdk.runner import PipelineState


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Stream:
    """Return a stream."""
    return Stream(tmp_path)


def test_a_stream_resumes_with_more_subtasks_and_then_with_one(stream: Stream) -> None:
    """State, positions and in-flight records move to the subtasks that own the keys."""
    for parallelism in (2, 3):
        stopped(stream, parallelism, 1)
    last = job_of(stream, 1, lambda job: None)
    last.run()

    assert (PipelineState.DONE, stream.expected()) == (last.state, stream.rows())


def test_logs_of_former_subtasks_are_removed(stream: Stream) -> None:
    """Only those of the current layout are left."""
    stopped(stream, 3, 1)
    before = list(stream.checkpoints.glob("productions/*/productions-*"))
    stopped(stream, 2, 1)

    assert 6 == len(before)
    assert [] == list(stream.checkpoints.glob("productions/*/productions-*"))
    assert 4 == len(list(stream.checkpoints.glob("layout-2/productions/*/productions-*")))


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_checkpoints_resume_from_a_savepoint_of_productions(stream: Stream, parallelism: int) -> None:
    """While the stream that it was taken of continues."""
    answers: list[Answer] = []

    def visit(job: Job) -> None:
        if answers:
            job.cancel()
        elif job.checkpoints_completed == 3:
            job.take_savepoint(answers.append)

    job_of(stream, 2, visit).run()
    stream.checkpoints = stream.checkpoints / "savepoints"
    assert 1 == len(list(stream.checkpoints.glob("*.savepoint")))
    last = stream.job(parallelism)
    last.run()

    (answer,) = set(answers)
    assert (True, 1) == (answer.is_done, answer.epoch)
    assert (PipelineState.DONE, stream.expected()) == (last.state, stream.rows())


def test_a_stream_continues_after_its_savepoints(stream: Stream) -> None:
    """No worker runs while one is written."""
    answers: list[Answer] = []

    def visit(job: Job) -> None:
        if len(answers) < 3 and job.checkpoints_completed > 2 * len(answers):
            job.take_savepoint(answers.append)

    job = job_of(stream, 2, visit)
    job.run()

    assert [1, 2, 3] == sorted({answer.epoch for answer in answers if answer.epoch is not None})
    assert (PipelineState.DONE, stream.expected()) == (job.state, stream.rows())


def test_a_failed_savepoint_is_answered_and_the_stream_continues(stream: Stream) -> None:
    """The disk has space for the logs only."""
    answers: list[Answer] = []

    def visit(job: Job) -> None:
        if not answers and job.checkpoints_completed == 2:
            job.take_savepoint(answers.append)

    job = job_of(stream, 2, visit)

    def full(path: str) -> None:
        if "savepoints/files" in path:
            raise OSError(28, "No space left on device", path)

    stream.disk.before = full
    job.run()

    assert not answers[0].is_done
    assert "the savepoint failed: " in answers[0].text
    assert "No space left" in answers[0].text
    assert (PipelineState.DONE, stream.expected()) == (job.state, stream.rows())


def test_other_steps_are_refused_with_another_parallelism_too(stream: Stream) -> None:
    """Before the job takes the directory over."""
    stopped(stream, 2, 1)
    before = sorted(stream.checkpoints.rglob("*"))

    with pytest.raises(CheckpointMismatchError, match=r"Sum.*and the pipeline has .*Total"):
        job_of(stream, 3, lambda job: None, label="Total").run()
    assert before == sorted(stream.checkpoints.rglob("*"))


@pytest.mark.parametrize("pattern", ["productions/*-1", "productions/*-1/productions-*"])
def test_an_untrusted_log_is_refused(pattern: str, stream: Stream) -> None:
    """Logs have pickled values, as checkpoints have."""
    stopped(stream, 2, 1)
    path = next(stream.checkpoints.glob(pattern))
    path.chmod(0o722)

    with pytest.raises(UntrustedSnapshotError, match=f"{path}.* can be written by others"):
        job_of(stream, 2, lambda job: None).run()


def test_logs_are_not_begun_in_an_untrusted_directory(stream: Stream) -> None:
    """A restarted worker would unpickle files of other users."""
    above = stream.checkpoints.parent
    above.chmod(0o777)

    with pytest.raises(UntrustedSnapshotError, match=f"{above}, above it, can be written by all users"):
        job_of(stream, 2, lambda job: None).run()


def test_weak_productions_resume_with_the_same_parallelism_only(stream: Stream) -> None:
    """Records that are sent again would open closed windows: the simulation found duplicate results."""
    stopped(stream, 2, 1, "weak")
    before = sorted(stream.checkpoints.rglob("*"))

    with pytest.raises(CheckpointMismatchError, match=r"weak productions .*Read.*expected --parallelism=2, got 3"):
        job_of(stream, 3, lambda job: None, delivery="weak").run()
    assert before == sorted(stream.checkpoints.rglob("*"))
    answers: list[Answer] = []
    asked = iter([True])
    job = job_of(stream, 2, lambda job: next(asked, False) and job.take_savepoint(answers.append), delivery="weak")
    job.run()
    assert (PipelineState.DONE, [False]) == (job.state, [answer.is_done for answer in answers])
    assert "the savepoint failed: after a restart, weak productions" in answers[0].text


def test_a_bounded_pipeline_resumes_with_another_parallelism_and_publishes_everything(stream: Stream) -> None:
    """Output that was staged before is in the one transaction that is committed at the end."""
    out = stream.directory / "lines"

    def job(parallelism: int, visit: Visit) -> Job:
        p = beam.Pipeline()
        _ = (
            p
            | beam.Create(range(3000))
            | beam.Map(lambda n: (n % 7, n))
            | beam.GroupByKey()
            | beam.io.WriteToText(str(out))
        )
        plan = fuse(p.graph(), lambda *_: False)
        world = SimulatedWorld(9, Faults())
        made = Job(
            whole(plan) if parallelism == 1 else cut(plan, parallelism),
            SimulatedWorkers(parallelism, world, lambda: visit(made)),
            JobSettings(restarts=RestartStrategy(0)),
            ProductionDelivery(Productions(LocalDisk(), str(stream.checkpoints))),
            world.clock,
            world.sleep,
        )
        return made

    visits = 0

    def visit(made: Job) -> None:
        nonlocal visits
        visits += 1
        if visits > 3:
            made.cancel()

    for parallelism in (2, 3):
        visits = 0
        job(parallelism, visit).run()
    assert [] == list(stream.directory.glob("lines*"))
    last = job(1, lambda made: None)
    last.run()

    lines = [line for file in stream.directory.glob("lines*") for line in file.read_text().splitlines()]
    assert (PipelineState.DONE, 7) == (last.state, len(lines))
    assert sorted(range(3000)) == sorted(n for line in lines for n in eval(line)[1])
