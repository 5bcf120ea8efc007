"""`--delivery` and `with_delivery`: results, refused directories and weak tasks."""

from __future__ import annotations

import pathlib

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.productions.directory import weak_tasks
from penstock.sdk.errors import CheckpointMismatchError, OptionsError
from penstock.testing import assert_that, equal_to


def run(*flags: str, label: str = "Sum") -> None:
    """Run a small pipeline, and check its result."""
    with beam.Pipeline(options=PipelineOptions(list(flags))) as p:
        sums = p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | label >> beam.CombinePerKey(sum)
        assert_that(sums, equal_to([("a", 4), ("b", 2)]))


@pytest.mark.parametrize("parallelism", ["--parallelism=1", "--parallelism=2", "--parallelism=3 --workers=1"])
@pytest.mark.parametrize("delivery", ["strong", "weak"])
def test_results_are_the_same_with_each_delivery(delivery: str, parallelism: str) -> None:
    """In one process and in several; without failures weak productions are exact, too."""
    run(f"--delivery={delivery}", *parallelism.split())


def test_a_run_that_has_ended_has_nothing_left_to_do(tmp_path: pathlib.Path) -> None:
    """Its published output stays as it is."""
    flags = ["--delivery=strong", f"--checkpoint_dir={tmp_path / 'kept'}"]
    for _ in range(2):
        with beam.Pipeline(options=PipelineOptions(flags)) as p:
            _ = p | beam.Create(["a line"]) | beam.io.WriteToText(str(tmp_path / "out"))

    assert ["a line"] == [line for file in tmp_path.glob("out*") for line in file.read_text().splitlines()]


def test_other_steps_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    """The state in the logs would be lost."""
    run("--delivery=strong", f"--checkpoint_dir={tmp_path}")

    with pytest.raises(CheckpointMismatchError, match=r"Sum.*and the pipeline has .*Total"):
        run("--delivery=strong", f"--checkpoint_dir={tmp_path}", label="Total")


def test_checkpoints_and_productions_dont_resume_from_each_other(tmp_path: pathlib.Path) -> None:
    """The job would silently begin anew."""
    run("--delivery=strong", f"--checkpoint_dir={tmp_path / 'logs'}")
    run(f"--checkpoint_dir={tmp_path / 'checkpoints'}")

    with pytest.raises(CheckpointMismatchError, match="logs has logs of productions"):
        run(f"--checkpoint_dir={tmp_path / 'logs'}")
    with pytest.raises(CheckpointMismatchError, match="checkpoints has checkpoints, which were taken"):
        run("--delivery=strong", f"--checkpoint_dir={tmp_path / 'checkpoints'}")


def test_contradicting_options_are_refused() -> None:
    """Without barriers there is no checkpoint mode; and an object store can't append to files."""
    with pytest.raises(OptionsError, match="with --delivery=strong there are no barriers"):
        run("--delivery=strong", "--checkpoint_mode=unaligned")
    with pytest.raises(OptionsError, match=r"--allow_dropped_state: with --delivery=weak .* the same steps"):
        run("--delivery=weak", "--allow_dropped_state")
    with pytest.raises(OptionsError, match=r"--recovery=region: with --delivery=strong a failed worker is replaced"):
        run("--delivery=strong", "--recovery=region", "--parallelism=2")
    with pytest.raises(OptionsError, match=r"=memory://logs: .* files can be appended to.* a local disk"):
        run("--delivery=strong", "--checkpoint_dir=memory://logs")


def test_a_task_is_as_strong_as_its_strongest_step() -> None:
    """For both tasks of a pipeline; a composite sets the delivery of its parts."""

    def weak(first: str | None, second: str | None, default: str) -> frozenset[int]:
        p = beam.Pipeline()
        pairs, sums = beam.Map(lambda n: (n % 2, n)), beam.CombinePerKey(sum)
        first_step = pairs if first is None else pairs.with_delivery(first)
        second_step = sums if second is None else sums.with_delivery(second)
        _ = p | beam.Create([1, 2]) | "Pairs" >> first_step | "Sums" >> second_step
        return weak_tasks(cut(fuse(p.graph(), lambda *_: False), 2), default)

    assert frozenset() == weak(None, None, "strong")
    assert {0, 1} == weak(None, None, "weak")
    assert {1} == weak("strong", None, "weak")
    assert {0} == weak("weak", None, "strong")
    assert {1} == weak(None, "weak", "strong")


def test_a_label_keeps_the_delivery() -> None:
    """Before the label and after it."""
    labelled = "Lower" >> beam.Map(str.lower)

    assert "weak" == labelled.with_delivery("weak").transform.delivery  # type: ignore[attr-defined]


def test_an_unknown_delivery_is_refused() -> None:
    """By name."""
    with pytest.raises(ValueError, match=r'Map.*: with_delivery expected "strong" or "weak", got \'medium\''):
        beam.Map(str.lower).with_delivery("medium")
