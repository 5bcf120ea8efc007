"""`python -m penstock graph`: pipelines drawn and not run."""

from __future__ import annotations

from support.programs.command_line import Penstock

TWO_PIPELINES = """
import penstock as beam

print("not part of the drawing")
with beam.Pipeline() as p:
    p | "First" >> beam.Create([1]) | beam.Map(print)
p = beam.Pipeline()
p | "Second" >> beam.Create([1])
result = p.run()
result.wait_until_finish()
assert result.state == "DONE" and not result.metrics().query()["counters"]
"""


def test_every_pipeline_is_drawn_and_none_is_run(penstock: Penstock) -> None:
    """In Mermaid, on standard output; what the program prints goes to standard error."""
    ran = penstock("graph", "pipeline.py", program=TWO_PIPELINES)

    assert (0, "not part of the drawing\n") == (ran.returncode, ran.stderr)
    assert 2 == ran.stdout.count("flowchart ")
    assert ran.stdout.index("First") < ran.stdout.index("Map(print)") < ran.stdout.index("Second")


def test_a_drawing_can_be_for_graphviz(penstock: Penstock) -> None:
    """`--format` may stand anywhere."""
    after = penstock("graph", "pipeline.py", "--format", "dot", program=TWO_PIPELINES)
    before = penstock("graph", "--format=dot", "pipeline.py", program=TWO_PIPELINES)

    assert (0, 2) == (after.returncode, after.stdout.count("digraph "))
    assert after.stdout == before.stdout


def test_flags_of_the_programs_own_reach_it(penstock: Penstock) -> None:
    """And those of pipelines, whose runner needs nothing for it."""
    program = """
import argparse
import penstock as beam

parser = argparse.ArgumentParser()
parser.add_argument("--label")
label = parser.parse_known_args()[0].label
with beam.Pipeline() as p:
    p | label >> beam.Create([1])
"""
    ran = penstock("graph", "pipeline.py", "--label", "Mine", "--runner=spark-batch", program=program)

    assert 0 == ran.returncode, ran.stderr
    assert "Mine" in ran.stdout


def test_a_program_that_fails_for_want_of_results_is_drawn_all_the_same(penstock: Penstock) -> None:
    """The error is shown after the drawing."""
    ran = penstock("graph", "pipeline.py", program=TWO_PIPELINES + 'open("results")\n')

    assert 0 == ran.returncode
    assert 2 == ran.stdout.count("flowchart ")
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'results'" == ran.stderr.splitlines()[-1]


def test_a_program_without_a_pipeline_is_an_error(penstock: Penstock) -> None:
    """With an exit status of zero or another one."""
    ran = penstock("graph", "pipeline.py", program="")
    failed = penstock("graph", "pipeline.py", program="1 / 0")

    assert (1, "pipeline.py: no pipeline was run, so there is none to draw\n") == (ran.returncode, ran.stderr)
    assert 1 == failed.returncode
    assert "ZeroDivisionError: division by zero" in failed.stderr
