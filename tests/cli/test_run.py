"""`python -m penstock run`: a program with its own flags and the pipeline's, and how it ends."""

from __future__ import annotations

import pytest
from support.programs.command_line import Penstock

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


def test_the_flags_reach_pipelines_in_all_threads_of_the_program_but_not_those_that_functions_run(
    penstock: Penstock,
) -> None:
    """A pipeline that a DoFn runs doesn't belong to the command line."""
    program = """
import threading
import penstock as beam

def name(element=None):
    return beam.Pipeline().options.view_as(beam.options.SparkOptions).spark_app_name

thread = threading.Thread(target=lambda: print("thread", name()))
thread.start()
thread.join()
with beam.Pipeline() as p:
    p | beam.Create([1]) | beam.Map(name) | beam.Map(lambda found: print("function", found))
print("after", name())
"""
    ran = penstock("run", "pipeline.py", "--spark_app_name", "mine", program=program)

    assert 0 == ran.returncode, ran.stderr
    assert ["after mine", "function None", "thread mine"] == sorted(ran.stdout.splitlines())


@pytest.mark.parametrize(
    ("flag", "advice"),
    [
        ("--foo=3", "is it an option of your own? Then declare it in a subclass of PipelineOptions, "),
        ("--paralel=3", "did you mean --parallelism?\n"),
        ("--spark_app_nam=x", "did you mean --spark_app_name?\n"),
    ],
)
def test_a_flag_that_nothing_reads_is_an_error(flag: str, advice: str, penstock: Penstock) -> None:
    """The message says what the nearest flag is, or what to do about one of the program's own."""
    ran = penstock("run", "pipeline.py", flag, program=PRINTS_ITS_OPTIONS)

    assert (1, "") == (ran.returncode, ran.stdout)
    assert f"OptionsError: unknown option {flag.partition('=')[0]}; {advice}" in ran.stderr


READS_ITS_FLAGS = {
    "argparse": """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--volume", type=int)
print(parser.parse_known_args()[0].volume)
""",
    "abbreviated": """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--volume_of_all", type=int)
print(parser.parse_known_args(sys.argv)[0].volume_of_all)
""",
    "passed on": """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--volume", type=int)
known, sys.argv[1:] = parser.parse_known_args()
print(known.volume)
""",
    "click": """
import click
@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--volume", type=int)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def main(volume, rest):
    print(volume)
main(standalone_mode=False)
""",
    "options": """
class Mine(beam.options.PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--volume", type=int)
print(beam.options.PipelineOptions().view_as(Mine).volume)
""",
}


@pytest.mark.parametrize("how", READS_ITS_FLAGS)
def test_a_flag_that_the_program_reads_is_its_own(how: str, penstock: Penstock) -> None:
    """Whichever parser reads it, if it does so before the pipeline is made."""
    program = f"import sys\nimport penstock as beam\n{READS_ITS_FLAGS[how]}{PRINTS_ITS_OPTIONS}"

    ran = penstock("run", "pipeline.py", "--volume=11", "--runner=local", program=program)

    assert (0, "11\nLocalStreamingRunner None\n") == (ran.returncode, ran.stdout), ran.stderr


def test_what_stands_behind_two_dashes_is_the_programs(penstock: Penstock) -> None:
    """For a program that looks at its command line itself."""
    ran = penstock("run", "pipeline.py", "--runner=local", "--", "--volume=11", program=PRINTS_ITS_OPTIONS)

    assert (0, "LocalStreamingRunner None\n") == (ran.returncode, ran.stdout), ran.stderr


def test_the_help_lists_the_flags_of_pipelines_by_group(penstock: Penstock) -> None:
    """With what each group is about."""
    ran = penstock("run", "--help")

    assert 0 == ran.returncode
    assert "\nStreamingOptions: " in ran.stdout
    assert "\n  --checkpoint_interval CHECKPOINT_INTERVAL\n" in ran.stdout


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
    assert lines[-1].startswith('DuplicateLabelError: A transform with label "Create" already exists in the pipeline')
    assert ran.stderr.count("  File ") == 1


def test_each_error_of_ours_is_shown_by_its_bare_name(penstock: Penstock) -> None:
    """Wherever in the package its class is."""
    program = """
import penstock as beam

p = beam.Pipeline()
triggered = beam.WindowInto(beam.window.GlobalWindows(), trigger=beam.trigger.AfterCount(2), accumulation_mode=1)
_ = p | beam.Create([(1, 1)]) | triggered | beam.GroupByKey()
"""
    ran = penstock("run", "pipeline.py", program=program)

    assert 1 == ran.returncode
    assert ran.stderr.splitlines()[-1].startswith("UnsafeTriggerError: GroupByKey: Unsafe trigger: `AfterCount(2)` may")


def test_a_function_that_exits_is_named(penstock: Penstock) -> None:
    """Its exit code isn't the program's, since it is an error."""
    ran = penstock("run", "pipeline.py", program=FAILS.replace("return int(text)", "raise SystemExit(3)"))

    assert 1 == ran.returncode
    expected = ["SystemExit: 3", "  in the transform 'Parse/Map(parsed)'", "  on the element '1'"]
    assert expected == ran.stderr.splitlines()[-3:]


def test_an_error_of_user_code_without_a_text_is_shown(penstock: Penstock) -> None:
    """Its class has a __str__ that raises."""
    odd = "class Odd(Exception):\n    def __str__(self):\n        return self.nothing\n\n"
    program = odd + FAILS.replace("return int(text)", "raise Odd(text)")

    ran = penstock("run", "pipeline.py", program=program)

    assert 1 == ran.returncode
    assert "Odd: <exception str() failed>" in ran.stderr
    assert "  in the transform 'Parse/Map(parsed)'" in ran.stderr


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


def test_a_module_is_run_as_python_runs_it(penstock: Penstock) -> None:
    """From the present directory, so that its imports may be relative."""
    program = "from . import pipeline\nimport sys\nprint(__name__, __package__ == pipeline.__package__, sys.argv[1:])"
    package = (
        f"import pathlib; pathlib.Path('words').mkdir(); pathlib.Path('words/__main__.py').write_text({program!r})"
    )
    files = "\npathlib.Path('words/pipeline.py').write_text('')\npathlib.Path('words/__init__.py').write_text('')"

    assert 0 == penstock("run", "pipeline.py", program=package + files).returncode
    ran = penstock("run", "-m", "words", "a", "--own=1")
    missing = penstock("run", "-m", "phrases")

    assert "__main__ True ['a', '--own=1']" == ran.stdout.strip(), ran.stderr
    assert 1 == missing.returncode
    assert "No module named phrases" in missing.stderr


def test_a_file_that_is_not_there_is_named(penstock: Penstock) -> None:
    """By click, with a hint at the help."""
    ran = penstock("run", "nowhere.py")

    assert 2 == ran.returncode
    assert "File 'nowhere.py' does not exist." in ran.stderr
