"""The notebook of the examples runs, and its cells display what they say."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from package.unpack_wheel import ROOT

NOTEBOOK = ROOT / "examples" / "notebooks" / "first_steps.ipynb"


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """The outputs of each code cell, by its text, of one run from a new kernel."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def displayed(outputs: list[Any], kind: str) -> list[str]:
    return [str(output.data[kind]) for output in outputs if "data" in output and kind in output.data]


def test_a_pcollection_shows_its_type_and_its_first_elements(outputs: dict[str, list[Any]]) -> None:
    """As a table."""
    (table,) = displayed(outputs["counts"], "text/html")

    assert "PCollection[Count" in table
    assert "tuple[str, int]" in table
    assert "<tr><td>to</td><td>2</td></tr>" in table


def test_elements_are_collected_and_shown(outputs: dict[str, list[Any]]) -> None:
    """As a list, as tables, and as a data frame."""
    assert ["[('to', 2), ('be', 2), ('or', 1), ('not', 1)]"] == displayed(outputs["beam.collect(counts)"], "text/plain")
    assert 2 == len(displayed(outputs["p.show(words, counts, n=3)"], "text/html"))
    (frame,) = (displayed(found, "text/plain") for cell, found in outputs.items() if "to_pandas" in cell)
    assert ["be", "not", "or", "to"] == [line.split()[1] for line in frame[0].splitlines()[1:]]


def test_a_list_that_stays_empty_draws_a_warning(outputs: dict[str, list[Any]]) -> None:
    """On standard error."""
    (found,) = (found for cell, found in outputs.items() if "out.append" in cell)

    assert "Map(list.append): the list of the program stays as it is" in "".join(output.text for output in found)


def test_each_step_of_a_stream_is_drawn(outputs: dict[str, list[Any]]) -> None:
    """With the panes so far: the last one corrects the one before."""
    drawings = [displayed(found, "text/html") for cell, found in outputs.items() if cell.startswith("stream.a")]
    (panes,) = displayed(outputs["stream.panes"], "text/plain")

    assert [1, 1] == [len(found) for found in drawings]
    assert all("<svg" in svg for (svg,) in drawings)
    assert "['+12 [0, 60) ON_TIME', '-12 [0, 60) ON_TIME', '+15 [0, 60) LATE']" == panes


def test_progress_is_shown_by_a_widget() -> None:
    """Of a run that takes a second; a terminal has a table instead."""
    slow = "import time, penstock as beam\nwith beam.Pipeline() as p:\n    "
    slow += "_ = p | beam.Create(range(10)) | beam.Map(lambda n: time.sleep(0.1))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(slow)])
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()

    (cell,) = notebook.cells
    assert displayed(cell.outputs, "application/vnd.jupyter.widget-view+json")
