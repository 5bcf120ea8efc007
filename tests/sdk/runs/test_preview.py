"""The elements of a PCollection in the program: collect, show, to_pandas, and the form in a notebook."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import warnings
from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestStream
from penstock.trigger import AccumulationMode, AfterCount, Repeatedly


def test_collect_returns_the_elements_of_each_pcollection_that_is_asked_for() -> None:
    """Also of one in the middle, and again after more was added."""
    p = beam.Pipeline()
    words = p | beam.Create(["to be", "or"]) | beam.FlatMap(str.split)
    first = beam.collect(words)
    counts = words | beam.combiners.Count.PerElement()

    assert ["to", "be", "or"] == first == beam.collect(words)
    assert [("to", 1), ("be", 1)] == beam.collect(counts, n=2)


def test_only_what_a_pcollection_depends_on_is_run(tmp_path: pathlib.Path) -> None:
    """Neither branches nor writes beside it; side inputs are run."""

    def fail(n: int) -> int:
        raise AssertionError("a branch that nothing asks for was run")

    p = beam.Pipeline()
    numbers = p | beam.Create([1, 2])
    _ = numbers | "Branch" >> beam.Map(fail)
    _ = numbers | beam.Map(str) | beam.io.WriteToText(tmp_path / "out")
    shares = numbers | beam.Map(
        lambda n, total: n / total, beam.pvalue.AsSingleton(numbers | beam.CombineGlobally(sum))
    )

    assert [1 / 3, 2 / 3] == beam.collect(shares)
    assert [] == list(tmp_path.iterdir())


def test_one_of_several_outputs_is_collected() -> None:
    """The others are made, too, and stay unseen."""

    class Halves(beam.DoFn):
        def process(self, n: int) -> Any:
            yield beam.TaggedOutput("odd", n) if n % 2 else n

    numbers = beam.Pipeline() | beam.Create([1, 2, 3]) | beam.ParDo(Halves()).with_outputs("odd", main="even")

    assert [1, 3] == beam.collect(numbers.odd)
    assert [2] == beam.collect(numbers.even)
    assert "1" in numbers.odd._repr_html_()


def test_retracted_elements_are_left_out() -> None:
    """As `assert_that` leaves them out."""
    each = beam.WindowInto(beam.window.GlobalWindows(), Repeatedly(AfterCount(1)), AccumulationMode.RETRACTING)
    stream = TestStream().add_elements([("a", 1)]).add_elements([("a", 2)]).advance_watermark_to_infinity()

    assert [("a", 3)] == beam.collect(beam.Pipeline() | stream | each | beam.CombinePerKey(sum))


def test_a_pcollection_without_an_end_is_refused() -> None:
    """By name, without a run; its form in a notebook has no elements."""
    numbers = beam.Pipeline() | beam.io.GenerateSequence(0)

    with pytest.raises(Exception, match=r"collect: PCollection\[GenerateSequence.*\] is unbounded"):
        beam.collect(numbers)
    assert "not computed" in numbers._repr_html_()


def test_what_depends_on_a_write_is_refused(tmp_path: pathlib.Path) -> None:
    """It would write again."""
    p = beam.Pipeline()
    files = p | beam.Create(["a"]) | beam.io.fileio.WriteToFiles(str(tmp_path))

    for pcoll in (files, files | beam.Map(str)):
        with pytest.raises(Exception, match="which would write again"):
            beam.collect(pcoll)
    assert [] == list(tmp_path.iterdir())


def test_a_checkpoint_of_the_pipeline_is_neither_read_nor_written(tmp_path: pathlib.Path) -> None:
    """The options are those of the pipeline without its directory."""
    options = beam.options.PipelineOptions(checkpoint_dir=str(tmp_path / "checkpoints"))

    assert [1] == beam.collect(beam.Pipeline(options=options) | beam.Create([1]))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["metrics", "health", "ui"])
def test_a_port_of_the_pipeline_is_not_listened_at(name: str) -> None:
    """Which the pipeline itself may have taken, nor is its host."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = {f"{name}_port": taken.getsockname()[1], f"{name}_host": "0.0.0.0"}
        options = beam.options.PipelineOptions(**flags)

        assert [1] == beam.collect(beam.Pipeline(options=options) | beam.Create([1]))


def test_the_form_in_a_notebook_is_made_of_the_first_thousand_elements_and_says_so() -> None:
    """Of an input that is larger; the functions see no more."""
    p = beam.Pipeline()
    whole = p | "Few" >> beam.Create(range(1000)) | "Sum of few" >> beam.CombineGlobally(sum)
    cut = p | "Many" >> beam.Create(range(5000)) | "Sum of many" >> beam.CombineGlobally(sum)

    assert "<td>499500</td>" in whole._repr_html_()
    assert "of the first" not in whole._repr_html_()
    assert "<td>499500</td>" in cut._repr_html_()
    assert "of the first 1,000 elements of Many/Values" in cut._repr_html_()


def test_the_form_in_a_notebook_has_columns_with_types_and_escapes_text() -> None:
    """Of rows; and an error of a function instead of elements."""
    p = beam.Pipeline()
    rows = p | "Rows" >> beam.Create([beam.Row(item="<tea>", cups=2)])
    wrong = p | "Wrong" >> beam.Create(["x"]) | beam.Map(int)

    assert "<th>item<br><small>str</small></th><th>cups<br><small>int</small></th>" in rows._repr_html_()
    assert "<td>&lt;tea&gt;</td><td>2</td>" in rows._repr_html_()
    assert "not computed: ValueError" in wrong._repr_html_()


def test_to_pandas_has_a_column_for_each_field() -> None:
    """Of rows, pairs and single values."""
    pytest.importorskip("pandas")
    p = beam.Pipeline()
    made = {
        "rows": p | "Rows" >> beam.Create([beam.Row(item="tea", cups=2)]),
        "pairs": p | "Pairs" >> beam.Create([("a", 1)]),
        "numbers": p | "Numbers" >> beam.Create([5]),
    }

    found = {name: pcoll.to_pandas().to_dict("list") for name, pcoll in made.items()}
    assert {
        "rows": {"item": ["tea"], "cups": [2]},
        "pairs": {"0": ["a"], "1": [1]},
        "numbers": {"value": [5]},
    } == found


def test_show_prints_text_outside_of_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    """The number of elements, and the first ones."""
    p = beam.Pipeline()
    p.show(p | "Many" >> beam.Create(range(100)), n=2)

    assert "PCollection[Many/Values]: 100 elements, of which 2 are shown\n0\n1\n" == capsys.readouterr().out


def test_show_refuses_a_pcollection_of_another_pipeline() -> None:
    """Its label would mislead."""
    with pytest.raises(beam.pvalue.PipelineError, match="PCollections of this pipeline"):
        beam.Pipeline().show(beam.Pipeline() | beam.Create([1]))


def filling(kind: str) -> Any:
    out: list[Any] = []
    seen: set[Any] = set()
    kept = ["a"]

    def collecting(x: Any) -> None:
        own = []
        own.append(x)
        if x in kept:
            raise ValueError

    fillings = {
        "list.append": out.append,
        "lambda list": lambda x: out.append(x),
        "lambda set": lambda x: seen.add(x),
        "own list": collecting,
        "no call": lambda x: x in out,
    }
    return fillings[kind]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("list.append", "Map(list.append)"),
        ("lambda list", "Map(list.append)"),
        ("lambda set", "Map(set.add)"),
        ("own list", None),
        ("no call", None),
    ],
)
def test_a_function_that_fills_a_collection_of_the_program_draws_a_warning(kind: str, told: str | None) -> None:
    """On the line of the program; one that fills a list of its own doesn't."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        beam.Map(filling(kind))

    found = [str(each.message).partition(":")[0] for each in caught]
    assert ([] if told is None else [told]) == found
    assert all(each.filename == __file__ for each in caught)


ELEMENTS: list[Any] = []


def filling_dofn(kind: str) -> beam.DoFn:
    out: list[Any] = []
    seen: set[Any] = set()

    class AtTheEnd(beam.DoFn):
        def process(self, element: Any) -> None:
            self.last = element

        def finish_bundle(self) -> None:
            out.append(self.last)

    class Unseen(beam.DoFn):
        def process(self, element: Any) -> Any:
            if element not in seen:
                seen.add(element)
                yield element

    class Own(beam.DoFn):
        def __init__(self) -> None:
            self.out: list[Any] = []

        def process(self, element: Any) -> None:
            self.out.append(element)

    class OfImported(beam.DoFn):
        def process(self, element: Any) -> None:
            ELEMENTS.append(element)

    class Base(beam.DoFn):
        def process(self, element: Any) -> None:
            out.append(element)

    class Derived(Base):
        pass

    return {each.__name__: each for each in (AtTheEnd, Unseen, Own, OfImported, Derived)}[kind]()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("AtTheEnd", "ParDo(AtTheEnd: list.append)"),
        ("Derived", "ParDo(Derived: list.append)"),
        ("Unseen", None),
        ("Own", None),
        ("OfImported", None),
    ],
)
def test_a_dofn_that_only_fills_a_collection_of_the_program_draws_a_warning(kind: str, told: str | None) -> None:
    """One that reads it may remember what a worker has seen, and an imported module is each worker's own."""
    dofn = filling_dofn(kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        beam.ParDo(dofn)

    found = [str(each.message).partition(": the")[0] for each in caught]
    assert ([] if told is None else [told]) == found
    assert all(each.filename == __file__ for each in caught)


def test_a_dofn_of_the_program_that_fills_a_global_list_draws_a_warning(tmp_path: pathlib.Path) -> None:
    """Its list is still empty after the run."""
    program = """import penstock as beam

out = []


class Keep(beam.DoFn):
    def process(self, element):
        out.append(element)


with beam.Pipeline() as p:
    _ = p | beam.Create([1, 2]) | beam.ParDo(Keep())
print(out)
"""
    (tmp_path / "keep.py").write_text(program)
    ran = subprocess.run([sys.executable, "keep.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (0, "[]\n") == (ran.returncode, ran.stdout)
    assert "keep.py:12: UserWarning: ParDo(Keep: list.append): the list of the program stays as it is" in ran.stderr
