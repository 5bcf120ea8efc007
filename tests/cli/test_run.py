"""`python -m penstock run`: a program with its own flags and the pipeline's, and how it ends."""

from __future__ import annotations

import pytest
from command_line import Penstock

PRINTS_ITS_OPTIONS = """
import penstock as beam

p = beam.Pipeline()
print(type(p.runner).__name__, p.options.view_as(beam.options.SparkOptions).spark_app_name)
"""

FAILS = """\
import penstock as beam


def parsed(text):
    return int(text)


with beam.Pipeline() as p:
    p | beam.Create(["1", "one"]) | "Parse" >> (beam.Map(str.strip) | beam.Map(parsed))
"""


def test_a_program_is_run_as_main_with_the_arguments_that_follow_it(penstock: Penstock) -> None:
    """And its directory is where it imports from."""
    program = "import sys, pipeline\nprint(__name__, sys.argv, pipeline.__name__)"

    ran = penstock("run", "pipeline.py", "a", "--own=1", "--help", program=program)

    assert ran.returncode == 0, ran.stderr
    assert "__main__ ['pipeline.py', 'a', '--own=1', '--help'] pipeline" == ran.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "made",
    [
        "beam.Pipeline()",
        "beam.Pipeline(options=beam.options.PipelineOptions())",
        "beam.Pipeline(options=beam.options.PipelineOptions(sys.argv[1:]))",
    ],
)
def test_the_flags_reach_the_pipeline_however_it_is_made(made: str, penstock: Penstock) -> None:
    """With no options, with those of the command line, and with those that the program passes on."""
    program = "import sys" + PRINTS_ITS_OPTIONS.replace("beam.Pipeline()", made)

    ran = penstock("run", "pipeline.py", "--runner=spark-batch", "--spark_app_name", "mine", program=program)

    assert (0, "SparkBatchRunner mine\n") == (ran.returncode, ran.stdout), ran.stderr


def test_options_that_the_program_gives_are_not_overruled(penstock: Penstock) -> None:
    """They are what its author wants, flags or not."""
    made = 'beam.Pipeline(argv=["--spark_app_name=its own"])'
    program = PRINTS_ITS_OPTIONS.replace("beam.Pipeline()", made)

    ran = penstock("run", "pipeline.py", "--runner=spark-batch", "--spark_app_name=mine", program=program)

    assert (0, "LocalStreamingRunner its own\n") == (ran.returncode, ran.stdout), ran.stderr


def test_flags_of_the_programs_own_are_let_pass(penstock: Penstock) -> None:
    """Only what looks like a misspelled option is an error."""
    ran = penstock("run", "pipeline.py", "--volume=11", program=PRINTS_ITS_OPTIONS)
    misspelled = penstock("run", "pipeline.py", "--spark_app_nam=x", program=PRINTS_ITS_OPTIONS)

    assert (0, "LocalStreamingRunner None\n") == (ran.returncode, ran.stdout), ran.stderr
    assert 1 == misspelled.returncode
    assert misspelled.stderr.endswith("OptionsError: unknown option --spark_app_nam; did you mean --spark_app_name?\n")


def test_a_beam_program_runs_unchanged(penstock: Penstock) -> None:
    """With --beam; without it the message says so."""
    program = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

with beam.Pipeline(options=PipelineOptions()) as p:
    (
        p
        | beam.Create([("a", 1), ("a", 2), ("a", 60)])
        | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
        | beam.WindowInto(FixedWindows(60))
        | beam.CombinePerKey(sum)
        | beam.Map(print)
    )
"""
    ran = penstock("run", "--beam", "pipeline.py", "--runner=DirectRunner", program=program)
    without = penstock("run", "pipeline.py", program=program)

    assert (0, "('a', 3)\n('a', 60)\n") == (ran.returncode, ran.stdout), ran.stderr
    assert 1 == without.returncode
    assert "to run it on penstock, say --beam before the file's name" == without.stderr.splitlines()[-1].strip()


def test_an_error_of_user_code_shows_the_users_lines_the_transform_and_the_element(penstock: Penstock) -> None:
    """And nothing of ours."""
    ran = penstock("run", "pipeline.py", program=FAILS)

    expected = """\
Traceback (most recent call last):
  File "pipeline.py", line 5, in parsed
    return int(text)
           ^^^^^^^^^
ValueError: invalid literal for int() with base 10: 'one'
  in the transform 'Parse/Map(parsed)'
  on the element 'one'
"""
    assert (1, expected) == (ran.returncode, ran.stderr)


@pytest.mark.usefixtures("spark")
def test_the_same_is_shown_when_it_happens_in_a_spark_worker(penstock: Penstock) -> None:
    """As the last lines: Spark logs the failed task before."""
    ran = penstock("run", "pipeline.py", "--runner=spark-batch", "--spark_master=local[1]", program=FAILS)

    expected = """\
ValueError: invalid literal for int() with base 10: 'one'
  in the transform 'Parse/Map(parsed)'
  on the element 'one'
"""
    assert 1 == ran.returncode
    assert ran.stderr.endswith(expected), ran.stderr
    assert '  File "pipeline.py", line 5, in parsed\n' in ran.stderr


def test_an_error_of_a_builtin_function_shows_where_it_was_used(penstock: Penstock) -> None:
    """There is no line of the user's to show, but there is the transform."""
    ran = penstock("run", "pipeline.py", program=FAILS.replace("beam.Map(parsed)", "beam.Map(int)"))

    expected = """\
ValueError: invalid literal for int() with base 10: 'one'
  in the transform 'Parse/Map(int)'
  on the element 'one'
"""
    assert (1, expected) == (ran.returncode, ran.stderr)


def test_an_error_in_building_shows_the_users_line_and_the_message(penstock: Penstock) -> None:
    """The traceback ends where the program called us."""
    program = "import penstock as beam\np = beam.Pipeline()\np | beam.Create([1])\np | beam.Create([2])\n"

    ran = penstock("run", "pipeline.py", program=program)

    assert 1 == ran.returncode
    lines = ran.stderr.splitlines()
    assert ["Traceback (most recent call last):", '  File "pipeline.py", line 4, in <module>'] == lines[:2]
    assert lines[-1].startswith("DuplicateLabelError: a transform labelled 'Create' is already in the pipeline")
    assert ran.stderr.count("  File ") == 1


def test_an_error_of_the_program_shows_its_causes_too(penstock: Penstock) -> None:
    """As Python shows it."""
    program = """\
try:
    {}["a"]
except KeyError as error:
    raise RuntimeError("no a") from error
"""
    ran = penstock("run", "pipeline.py", program=program)

    expected = """\
Traceback (most recent call last):
  File "pipeline.py", line 2, in <module>
    {}["a"]
    ~~^^^^^
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "pipeline.py", line 4, in <module>
    raise RuntimeError("no a") from error
RuntimeError: no a
"""
    assert (1, expected) == (ran.returncode, ran.stderr)


def test_a_syntax_error_shows_its_line(penstock: Penstock) -> None:
    """Found before anything runs."""
    ran = penstock("run", "pipeline.py", program="x = = 1\n")

    expected = '  File "pipeline.py", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n'
    assert (1, expected) == (ran.returncode, ran.stderr)


def test_the_exit_code_of_the_program_is_ours(penstock: Penstock) -> None:
    """`sys.exit` isn't an error."""
    ran = penstock("run", "pipeline.py", program="raise SystemExit(3)")

    assert (3, "") == (ran.returncode, ran.stderr)


def test_a_file_that_is_not_there_is_named(penstock: Penstock) -> None:
    """By click, with a hint at the help."""
    ran = penstock("run", "nowhere.py")

    assert 2 == ran.returncode
    assert "File 'nowhere.py' does not exist." in ran.stderr
