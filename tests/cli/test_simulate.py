"""`python -m penstock simulate`: pipelines under seeds, with all that can go wrong."""

from __future__ import annotations

import re

from command_line import Penstock

TWO_PIPELINES = """
import penstock as beam

with beam.Pipeline() as p:
    p | beam.Create(["a", "b", "b"]) | beam.combiners.Count.PerElement() | beam.Map(print)
with beam.Pipeline() as p:
    p | beam.Create([1, 2, 3]) | beam.io.WriteToText("nothing is written here")
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


def test_all_pipelines_of_a_program_are_simulated(penstock: Penstock) -> None:
    """Each under so many seeds; the line that sums them up is printed for each, and no sink is written to."""
    ran = penstock("simulate", "pipeline.py", "--seeds", "3", program=TWO_PIPELINES)

    assert (0, "") == (ran.returncode, re.sub("pipeline . of 2.*|[(].*[)]|\n", "", ran.stderr).strip())
    first, second = [line for line in ran.stdout.splitlines() if line.startswith("pipeline ")]
    assert re.fullmatch(r"pipeline 1 of 2: 3 seeds in [\d.]+ s: \d+ starts, \d+ checkpoints, .*", first)
    assert second.startswith("pipeline 2 of 2: 3 seeds")


def test_a_seed_that_fails_is_printed_with_the_command_that_shows_it_again(penstock: Penstock) -> None:
    """And that command gives the same failure, with its trace."""
    ran = penstock("simulate", "pipeline.py", "--seeds=5", "--parallelism=2", program=WRONG)
    (command,) = re.findall(r"^It is seen again by: penstock (.*)$", ran.stderr, re.MULTILINE)
    again = penstock(*command.split(), program=WRONG)

    assert (1, 1) == (ran.returncode, again.returncode)
    assert "what comes of Number" in ran.stderr
    assert ran.stderr == again.stderr
    assert "job: start 1: " in again.stdout


def test_what_is_seen_again_is_seen_by_the_same_delivery(penstock: Penstock) -> None:
    """It is part of the command that is printed."""
    ran = penstock("simulate", "pipeline.py", "--seeds=5", "--delivery=strong", program=WRONG)

    assert 1 == ran.returncode
    assert re.search(r"It is seen again by: penstock simulate .* --delivery=strong --trace", ran.stderr)


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
    assert (1, True) == (no_end.returncode, no_end.stderr.startswith("UnsupportedError: GenerateSequence"))
