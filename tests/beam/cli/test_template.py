"""`penstock run --template`: the metadata file of a flex template."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support.programs.command_line import Penstock

PROGRAM = """\
import argparse
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

parser = argparse.ArgumentParser()
parser.add_argument("--words")
parser.add_argument("--times", type=int)
own, rest = parser.parse_known_args()
with beam.Pipeline(options=PipelineOptions(rest)) as p:
    _ = p | beam.Create(own.words.split(",") * own.times) | beam.Map(print)
"""
METADATA = {
    "name": "Print words",
    "description": "Prints words.",
    "parameters": [
        {"name": "words", "label": "Words", "helpText": "Words", "regexes": ["[a-z,]+"]},
        {"name": "times", "label": "Times", "helpText": "Times", "isOptional": True, "defaultValue": "2"},
        {"name": "case", "isOptional": True, "enumOptions": [{"value": "upper"}, {"value": "lower"}]},
    ],
}


@pytest.mark.parametrize("flags", [["--words=tea,milk"], ["--words", "tea,milk", "--times=2"]])
def test_defaults_are_added(penstock: Penstock, tmp_path: pathlib.Path, flags: list[str]) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps(METADATA))
    ran = penstock("run", "--beam", "--template=metadata.json", "pipeline.py", *flags, program=PROGRAM)

    assert 0 == ran.returncode, ran.stderr
    assert ["tea", "milk"] * 2 == ran.stdout.split()


@pytest.mark.parametrize(
    ("flags", "metadata", "said"),
    [
        ([], METADATA, "metadata.json: the template 'Print words' needs --words"),
        (["--words=TEA"], METADATA, "metadata.json: --words=TEA: expected a value that matches '[a-z,]+'"),
        (["--words=a", "--case=all"], METADATA, "metadata.json: --case=all: expected one of upper, lower"),
        (["--words=a"], {"parameters": [{}]}, "metadata.json isn't the metadata of a flex template: KeyError('name')"),
        (["--words=a"], [], "metadata.json isn't the metadata of a flex template"),
    ],
)
def test_what_the_template_does_not_take_is_refused(
    penstock: Penstock, tmp_path: pathlib.Path, flags: list[str], metadata: Any, said: str
) -> None:
    """Before the program runs."""
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    ran = penstock("run", "--beam", "--template=metadata.json", "pipeline.py", *flags, program=PROGRAM)

    assert 1 == ran.returncode
    assert said in ran.stderr
    assert "" == ran.stdout
