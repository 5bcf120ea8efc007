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


NOTES = """\
import apache_beam as beam
from apache_beam.io.gcp.bigquery import WriteToBigQuery
from apache_beam.options.pipeline_options import PipelineOptions

options = PipelineOptions(["--temp_location=gs://t", "--project=p"], region="r", streaming=True)
with beam.Pipeline(options=options) as p:
    rows = p | beam.io.ReadFromBigQuery(table="d.t", gcs_location="gs://t")
    rows | WriteToBigQuery("d.t", batch_size=500, num_streaming_keys=5, schema="a:STRING")
    rows | beam.Map(print).with_resource_hints(min_ram="4GB")
"""


def test_what_has_no_effect_is_a_note(penstock: Penstock) -> None:
    ran = penstock("check", "--beam", "pipeline.py", program=NOTES)

    assert 0 == ran.returncode, ran.stdout
    assert [
        "pipeline.py:5: note: --temp_location has no effect in penstock",
        "pipeline.py:5: note: PipelineOptions(region=...) has no effect in penstock",
        "pipeline.py:7: note: beam.io.ReadFromBigQuery(gcs_location=...) has no effect in penstock",
        "pipeline.py:8: note: WriteToBigQuery(batch_size=...) has no effect in penstock",
        "pipeline.py:8: note: WriteToBigQuery(num_streaming_keys=...) has no effect in penstock",
        "pipeline.py:9: note: with_resource_hints has no effect in penstock",
    ] == ran.stdout.splitlines()


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


def test_annotations_that_are_not_evaluated_and_attributes_that_are_set_are_not_missing() -> None:
    """Python doesn't look these names up."""
    program = """\
import apache_beam as beam
def expand(begin: beam.Unheard) -> beam.Unheard:
    found: beam.Unheard = None
    return found
beam.Pipeline.unheard = None
"""
    assert [2, 3] == [missing.line for missing in missing_of_beam(program)]
    assert [] == missing_of_beam(f"from __future__ import annotations\n{program}")


def test_parameters_that_are_refused_when_the_pipeline_is_built_are_missing() -> None:
    """Unless they are None."""
    program = """\
import apache_beam as beam
beam.io.WriteToBigQuery("shop.orders", test_client=object(), schema_side_inputs=())
beam.io.WriteToBigQuery("shop.orders", test_client=None)
"""
    reason = "beam.io.WriteToBigQuery(test_client=...) isn't supported by penstock"
    assert [(2, reason)] == [(missing.line, missing.reason) for missing in missing_of_beam(program)]


def test_options_without_effect_that_are_set_later_are_notes() -> None:
    """By a view, or by the keys of a dict; options of others aren't."""
    program = """\
import apache_beam as beam
from apache_beam.options.pipeline_options import *
options = PipelineOptions.from_dictionary({"temp_location": "gs://t", "streaming": True})
setup = options.view_as(SetupOptions)
setup.save_main_session = True
options.view_as(GoogleCloudOptions).region = "r"
options.view_as(GoogleCloudOptions).project = "p"
other.region = "r"
"""
    notes = [(each.line, each.reason) for each in missing_of_beam(program) if each.is_note]
    assert [
        (3, "PipelineOptions.from_dictionary({'temp_location': ...}) has no effect in penstock"),
        (5, "setup.save_main_session has no effect in penstock"),
        (6, "options.view_as(GoogleCloudOptions).region has no effect in penstock"),
    ] == notes


def test_systems_of_managed_transforms_that_are_not_there_are_missing() -> None:
    """By Beam's constants, or by name."""
    program = """\
import apache_beam as beam
beam.managed.Read(beam.managed.ICEBERG, config={})
beam.managed.Read(beam.managed.POSTGRES, config={})
beam.managed.Write("mysql", config={})
beam.managed.Write(sink=beam.managed.BIGQUERY, config={})
"""
    assert [3, 4] == [each.line for each in missing_of_beam(program)]
    assert (
        "beam.managed.Read('postgres'): penstock has bigquery, delta, iceberg, kafka"
        == missing_of_beam(program)[0].reason
    )
