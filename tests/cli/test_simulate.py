"""`python -m penstock simulate`: pipelines under seeds, with all that can go wrong."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest
from click.testing import CliRunner
from support.programs.command_line import Penstock

from penstock.cli.simulate import simulate

TWO_PIPELINES = """
import penstock as beam

with beam.Pipeline() as p:
    p | beam.Create(["a", "b", "b"]) | beam.combiners.Count.PerElement()
with beam.Pipeline() as p:
    p | beam.Create([1, 2, 3]) | beam.io.WriteToText("nothing is written here")
"""

ONE_SHUFFLE = """
import penstock as beam

with beam.Pipeline() as p:
    p | beam.Create([(n % 7, n) for n in range(30)]) | beam.CombinePerKey(sum)
"""

# What comes out depends on how often it has been called, so no two runs are alike.
WRONG = """
import itertools
import penstock as beam

numbers = itertools.count()

def number(element):
    import __main__
    return next(beam.numbers)

beam.numbers = numbers
with beam.Pipeline() as p:
    p | beam.Create([1, 2, 3]) | "Number" >> beam.Map(number)
"""


@pytest.fixture(autouse=True)
def own_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that a command runs in this process replaces `sys.argv`."""
    monkeypatch.setattr(sys, "argv", sys.argv)


def test_all_pipelines_of_a_program_are_simulated(penstock: Penstock) -> None:
    """Each under so many seeds; the line that sums them up is printed for each, and no sink is written to."""
    ran = penstock("simulate", "pipeline.py", "--seeds", "3", program=TWO_PIPELINES)

    told = "Sinks are simulated, but side effects of functions are real"
    others = [line for line in ran.stderr.splitlines() if not line.startswith(("pipeline ", told))]
    assert (0, "", True) == (ran.returncode, "".join(others).strip(), ran.stderr.startswith(told))
    first, second = [line for line in ran.stdout.splitlines() if line.startswith("pipeline ")]
    assert re.fullmatch(r"pipeline 1 of 2: 3 seeds in [\d.]+ s: \d+ starts, \d+ checkpoints, .*", first)
    assert second.startswith("pipeline 2 of 2: 3 seeds")


def test_a_seed_that_fails_is_printed_with_the_command_that_shows_it_again(penstock: Penstock) -> None:
    """And that command gives the same failure, with its trace."""
    ran = penstock("simulate", "pipeline.py", "--seeds=5", "--parallelism=2", program=WRONG)
    (command,) = re.findall(r"^Reproduce it by: penstock (.*)$", ran.stderr, re.MULTILINE)
    again = penstock(*command.split(), program=WRONG)

    assert (1, 1) == (ran.returncode, again.returncode)
    assert "output of Number" in ran.stderr
    assert "'Number' gave different outputs for equal inputs in two plain runs: " in ran.stderr
    assert ran.stderr == again.stderr
    assert "job: start 1: " in again.stdout


def test_what_is_seen_again_is_seen_by_the_same_delivery(penstock: Penstock) -> None:
    """It is part of the command that is printed."""
    ran = penstock("simulate", "pipeline.py", "--seeds=5", "--delivery=strong", program=WRONG)

    assert 1 == ran.returncode
    assert re.search(r"Reproduce it by: penstock simulate .* --delivery=strong --trace", ran.stderr)


def test_only_a_region_starts_again_if_that_is_asked_for(tmp_path: pathlib.Path) -> None:
    """The trace of some seed shows it."""
    program = tmp_path / "pipeline.py"
    program.write_text(ONE_SHUFFLE)

    def trace(seed: int) -> str:
        arguments = [str(program), "--recovery=region", "--parallelism=3", f"--seed={seed}", "--trace"]
        return CliRunner().invoke(simulate, arguments, catch_exceptions=False).stdout

    assert any("of its 6 subtasks restart" in trace(seed) for seed in range(200))


def test_what_is_seen_again_is_seen_by_the_same_recovery(penstock: Penstock) -> None:
    """It is part of the command that is printed."""
    failed = penstock("simulate", "pipeline.py", "--recovery=region", "--parallelism=3", "--seeds=5", program=WRONG)

    assert 1 == failed.returncode
    assert re.search(r"Reproduce it by: penstock simulate .* --recovery=region --parallelism=3 --trace", failed.stderr)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("--checkpoint_mode=unaligned", "a checkpoint has in-flight records, which would be processed twice"),
        ("--delivery=strong", "a failed worker is replaced, and no other subtask restarts"),
        ("--parallelism=1", "there is only one subtask of each task"),
    ],
)
def test_a_region_is_refused_where_the_runner_refuses_it(tmp_path: pathlib.Path, more: str, why: str) -> None:
    """With the flag that it doesn't go with."""
    program = tmp_path / "pipeline.py"
    program.write_text(ONE_SHUFFLE)
    ran = CliRunner().invoke(simulate, [str(program), "--recovery=region", more])

    assert 2 == ran.exit_code
    assert f"--recovery=region: with {more} {why}; use --recovery=graph" in ran.output


def test_a_trace_is_printed_for_a_seed_that_does_not_fail_too(penstock: Penstock) -> None:
    """The same each time."""
    arguments = ("simulate", "pipeline.py", "--seed=4", "--pipeline=1", "--checkpoint_mode=aligned", "--trace")
    ran, again = (penstock(*arguments, program=TWO_PIPELINES) for _ in range(2))

    assert "job: start 1: aligned" in ran.stdout
    assert [line for line in ran.stdout.splitlines() if " seed in " not in line] == [
        line for line in again.stdout.splitlines() if " seed in " not in line
    ]


def test_what_can_not_be_simulated_is_said(penstock: Penstock) -> None:
    """No pipeline, no such pipeline, and no end, without a traceback of ours."""
    none = penstock("simulate", "pipeline.py", program="x = 1")
    missing = penstock("simulate", "pipeline.py", "--pipeline=3", program=TWO_PIPELINES)
    endless = "import penstock as beam\np = beam.Pipeline()\np | beam.io.GenerateSequence(0)\np.run()"
    no_end = penstock("simulate", "pipeline.py", program=endless)

    assert (1, "pipeline.py: no pipeline was run, so there is none to simulate\n") == (none.returncode, none.stderr)
    assert (1, "pipeline.py: --pipeline=3, but there are 2\n") == (missing.returncode, missing.stderr)
    assert (1, True) == (no_end.returncode, "\nUnsupportedError: GenerateSequence" in no_end.stderr)


BY_THE_CLOCK = """
import penstock as beam

with beam.Pipeline() as p:
    numbers = p | beam.io.GenerateSequence(0, 4, elements_per_period=1, period=1)
    numbers | beam.Map(lambda n, time=beam.DoFn.TimestampParam: float(time))
"""


def test_a_source_that_gives_something_else_each_time_is_named(tmp_path: pathlib.Path) -> None:
    """The results differ although neither the runner nor the functions fail."""
    file = tmp_path / "pipeline.py"
    file.write_text(BY_THE_CLOCK)
    ran = CliRunner().invoke(simulate, [str(file), "--seeds=3"])

    assert 1 == ran.exit_code
    label = "GenerateSequence/Read(SequenceSource)"
    assert f"This may be a false alarm: {label} may return other elements when" in ran.output


def test_it_says_where_there_is_nothing_but_none_to_compare(tmp_path: pathlib.Path) -> None:
    """Printed output isn't compared, so every seed would pass."""
    file = tmp_path / "pipeline.py"
    file.write_text(TWO_PIPELINES.replace("PerElement()", "PerElement() | beam.Map(print)"))
    ran = CliRunner().invoke(simulate, [str(file), "--seeds=1"])

    assert (0, 1) == (ran.exit_code, ran.output.count("all elements are None"))
    assert "output of Map(print): all elements are None, so only their number and timestamps are compared" in ran.output
