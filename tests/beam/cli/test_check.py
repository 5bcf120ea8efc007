"""`penstock check --beam`."""

from __future__ import annotations

import pathlib

import pytest
from support.programs.command_line import Penstock

from penstock.beam.check import missing_of_beam

PROGRAM = """\
import apache_beam as beam
from apache_beam.io.gcp import bigquery
from apache_beam.io import ReadFromMongoDB, ReadFromText
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

class Stamp(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam):
        yield window.start

options = PipelineOptions(["--runner", "UnheardRunner", "--project=p"])
with beam.Pipeline(options=options) as p:
    lines = p | ReadFromText("in.txt", unheard_of=1) | beam.WindowInto(window.FixedWindows(60))
    lines | bigquery.WriteToBigQuery("d.t", create_disposition=beam.io.BigQueryDisposition.CREATE_NEVER)
    lines | beam.io.WriteToMongoDB("mongodb://host")
    lines | beam.ParDo(Stamp()) | window.Unheard()
"""


def test_everything_that_is_missing_is_reported_with_its_line(penstock: Penstock) -> None:
    """In one run, without running the program."""
    ran = penstock("check", "--beam", "pipeline.py", program=PROGRAM)

    lines = [line.removeprefix("pipeline.py:").partition("penstock")[0] for line in ran.stdout.splitlines()]
    assert ran.returncode == 1, ran.stderr
    assert [
        "3: apache_beam.io.mongodbio.ReadFromMongoDB: ",
        (
            "11: --runner=UnheardRunner: there is no such runner; did you mean 'sparkrunner'? "
            "Installed: local, spark, spark-batch, spark-microbatch"
        ),
        "13: ReadFromText has no parameter 'unheard_of' in ",
        "15: apache_beam.io.mongodbio.WriteToMongoDB: ",
        "16: window.Unheard: apache_beam.transforms.window has no name 'Unheard', neither in ",
    ] == lines


def test_a_program_that_needs_nothing_else_passes(penstock: Penstock, tmp_path: pathlib.Path) -> None:
    """So do all files of a directory."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "count.py").write_text(
        "import apache_beam as beam\nwith beam.Pipeline(runner='DirectRunner') as p:\n"
        "    p | beam.Create(['a']) | beam.combiners.Count.PerElement()\n"
    )
    ran = penstock("check", "--beam", "programs")

    assert (0, "") == (ran.returncode, ran.stdout + ran.stderr)


def test_imports_of_what_beam_does_not_have_are_reported() -> None:
    """And a file that isn't Python."""
    lines = ["import apache_beam.io.nothing", "from apache_beam.pvalue import AsNothing", "import json, apache_beam"]
    missing = missing_of_beam("\n".join(lines) + "\nprint(apache_beam.Nothing)\n")

    names = ["io has no name 'nothing'", "pvalue has no name 'AsNothing'", "apache_beam has no name 'Nothing'"]
    assert [1, 2, 4] == [each.line for each in missing]
    assert [True] * 3 == [name in each.reason for name, each in zip(names, missing)]
    assert [2] == [each.line for each in missing_of_beam("a = 1\nb = (\n")]


def test_variables_hide_imported_modules() -> None:
    """Parameters, variables of a function, and those of a comprehension; a default is evaluated outside."""
    program = """
from apache_beam.transforms import window, trigger
def of(window, other=trigger.Unheard):
    for trigger in window.any:
        trigger.any
[window.any for window in []]
lambda window: window.any
window.FixedWindows(1)
"""
    assert [3] == [each.line for each in missing_of_beam(program)]


def test_examples_of_beam_are_missing_unless_beam_is_installed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then they run on penstock."""
    program = (
        "from apache_beam.examples.wordcount import WordExtractingDoFn\nimport apache_beam.examples.complete.tfidf"
    )
    without = missing_of_beam(program)
    (tmp_path / "apache_beam").mkdir()
    (tmp_path / "apache_beam" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    assert "install apache-beam, whose examples then run on penstock" in without[0].reason
    assert [] == missing_of_beam(program)
