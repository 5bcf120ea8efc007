"""`penstock run --beam`."""

from __future__ import annotations

import pathlib

import pytest
from support.programs.command_line import Penstock


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
    assert "to run it on penstock, put --beam before the file's name" == without.stderr.splitlines()[-1].strip()


EXAMPLE_OF_BEAM = """
import apache_beam as beam

class Shouted(beam.DoFn):
    def process(self, word):
        yield word.upper()

def run():
    with beam.Pipeline() as p:
        p | beam.Create(["a"]) | beam.ParDo(Shouted()) | beam.Reshuffle() | beam.Map(print)

if __name__ == "__main__":
    run()
"""


RUNS_AN_EXAMPLE = """
from apache_beam.examples.words import shouting

shouting.run()
try:
    import apache_beam.examples.words.whispering
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["pipeline.py"],
        ["pipeline.py", "--parallelism=2", "--start_method=spawn"],
        ["-m", "apache_beam.examples.words.shouting"],
    ],
    ids=["imported", "in another interpreter", "as a program"],
)
def test_examples_of_the_installed_beam_run_on_penstock(
    penstock: Penstock, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Beam itself isn't imported."""
    installed = tmp_path / "site-packages" / "apache_beam"
    (installed / "examples" / "words").mkdir(parents=True)
    (installed / "__init__.py").write_text("raise RuntimeError('Beam is imported')")
    (installed / "examples" / "__init__.py").touch()
    (installed / "examples" / "words" / "__init__.py").touch()
    (installed / "examples" / "words" / "shouting.py").write_text(EXAMPLE_OF_BEAM)
    monkeypatch.setenv("PYTHONPATH", str(installed.parent))

    ran = penstock("run", "--beam", *arguments, program=RUNS_AN_EXAMPLE)

    missing = "there is no apache_beam.examples.words.whispering in the installed Beam\n"
    assert (0, "A\n" + missing * (arguments[0] != "-m")) == (ran.returncode, ran.stdout), ran.stderr


def test_modules_of_a_beam_program_are_imported_by_workers_of_their_own(
    penstock: Penstock, tmp_path: pathlib.Path
) -> None:
    """There, too, `import apache_beam` imports penstock."""
    (tmp_path / "shouting.py").write_text(EXAMPLE_OF_BEAM)
    flags = ["--parallelism=2", "--start_method=spawn"]
    ran = penstock("run", "--beam", "pipeline.py", *flags, program="import shouting\n\nshouting.run()\n")

    assert (0, "A\n") == (ran.returncode, ran.stdout), ran.stderr
