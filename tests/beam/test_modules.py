"""Beam's module paths."""

from __future__ import annotations

import pickle
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import cloudpickle
import pytest

import penstock as beam
import penstock.beam
from penstock.sdk.names.namespaces import AT_ROOT, MODULES, Namespace, namespace


@pytest.mark.parametrize("path", [path for path in MODULES if path])
def test_a_module_of_beams_can_be_imported_below_penstock(path: str) -> None:
    """Also where it is one of ours under another name."""
    module = import_module(f"penstock.{path}")
    found: object = beam
    for name in path.split("."):
        found = getattr(found, name)

    assert module is found


def test_names_are_imported_from_where_beam_has_them() -> None:
    """They are the same things as ours."""
    from penstock.options.pipeline_options import PipelineOptions
    from penstock.pvalue import AsList
    from penstock.transforms import window
    from penstock.transforms.util import BatchElements
    from penstock.utils.timestamp import Timestamp

    assert (Timestamp, window.FixedWindows) == (beam.window.Timestamp, beam.window.FixedWindows)
    assert (PipelineOptions, AsList) == (beam.options.PipelineOptions, beam.pvalue.AsList)
    assert beam.BatchElements is BatchElements


def test_packages_of_penstock_are_none_of_beams() -> None:
    """Though an import has made them attributes of penstock."""
    import_module("penstock.examples")

    assert beam.examples is not namespace("").examples
    with pytest.raises(AttributeError, match="apache_beam has no name 'windowing'"):
        _ = namespace("").windowing


def test_windows_are_instances_of_beams_base() -> None:
    """A window of the base is one of the others."""
    from penstock.testing.test_stream import ElementEvent
    from penstock.utils.windowed_value import _IntervalWindowBase

    assert beam.testing.test_stream.ElementEvent is ElementEvent
    assert issubclass(beam.window.IntervalWindow, _IntervalWindowBase)
    assert beam.window.IntervalWindow(0, 5) == _IntervalWindowBase(0, 5)


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("penstock.trigger", {"AccumulationMode", "AfterWatermark", "Repeatedly"}),
        ("penstock.transforms.window", {"FixedWindows", "Sessions", "TimestampCombiner"}),
        ("penstock.utils.timestamp", {"Duration", "MIN_TIMESTAMP", "Timestamp"}),
        ("penstock.options.pipeline_options", {"PipelineOptions", "StandardOptions"}),
        ("penstock.pvalue", {"AsDict", "AsList", "TaggedOutput"}),
        ("penstock.coders", {"StrUtf8Coder", "VarIntCoder"}),
        ("penstock.transforms.core", {"Create", "DoFn", "Map", "ParDo"}),
    ],
)
def test_a_star_import_brings_what_the_module_offers(module: str, named: set[str]) -> None:
    """It brings neither submodules nor what our modules import themselves."""
    brought: dict[str, object] = {}
    exec(f"from {module} import *", brought)
    del brought["__builtins__"]

    assert named <= brought.keys()
    assert brought.keys().isdisjoint({"annotations", "Any", "Callable", "attrs", "microseconds"})
    assert [name for name, thing in brought.items() if isinstance(thing, ModuleType)] == []


@pytest.mark.parametrize("path", [path for path in MODULES if path])
def test_a_star_import_works_from_every_module_of_beams(path: str) -> None:
    """Also where penstock has few of its names."""
    exec(f"from penstock.{path} import *", {})


def test_every_namespace_at_the_root_can_be_imported_from() -> None:
    """Where `beam.window` works `from penstock.window import ...` does."""
    from penstock.combiners import Count
    from penstock.trigger import AfterCount
    from penstock.userstate import TimerSpec
    from penstock.window import FixedWindows

    # Those two are imported when they are first asked for.
    lazy = {"io": beam.io, "testing": beam.testing}
    names = [name for name, found in vars(beam).items() if isinstance(found, ModuleType) and name.isidentifier()]
    imported = {name: import_module(f"penstock.{name}") for name in names if name[0] != "_"}

    assert {*lazy, "coders", "metrics", "options", "pvalue", "runners", "transforms", "utils"} <= set(names)
    # The attributes are the modules with the names, whose access is faster.
    plain = {name: imported.pop(name) for name in ("combiners", "stats", "trigger", "window")}
    assert imported == {name: getattr(beam, name) for name in imported}
    assert all(isinstance(found, Namespace) for found in plain.values())
    assert AT_ROOT < set(names)
    assert (Count, AfterCount, FixedWindows) == (
        beam.combiners.Count,
        beam.trigger.AfterCount,
        beam.window.FixedWindows,
    )
    assert TimerSpec is beam.userstate.TimerSpec


def test_namespaces_of_files_offer_what_they_are_named_after() -> None:
    """They are no modules of ours; `fileio.FileSink`, which users subclass, is not the sink of all files."""
    from penstock.io.fileio import FileSink, MatchFiles, WriteToFiles, destination_prefix_naming
    from penstock.io.files.sinks.dynamic_write import RecordSink
    from penstock.io.textio import ReadFromText

    brought: dict[str, object] = {}
    exec("from penstock.io.fileio import *", brought)
    formats = {beam.io.csvio.ReadFromCsv, beam.io.jsonio.ReadFromJson, beam.io.avroio.ReadFromAvro}

    assert FileSink is RecordSink is beam.io.fileio.FileSink is brought["FileSink"]
    assert {"MatchAll", "ReadMatches", "FileNaming", "single_file_naming"} <= brought.keys()
    assert [MatchFiles, WriteToFiles] == [beam.io.fileio.MatchFiles, beam.io.fileio.WriteToFiles]
    assert "a-00000-of-00001" == destination_prefix_naming()(None, None, 0, 1, None, "a")
    assert (ReadFromText, formats) == (
        beam.io.ReadFromText,
        {beam.io.ReadFromCsv, beam.io.ReadFromJson, beam.io.ReadFromAvro},
    )
    assert beam.io.parquetio.WriteToParquet is beam.io.WriteToParquet


def test_what_a_splittable_dofn_needs_is_at_the_root() -> None:
    """As in Beam, whose users write `beam.RestrictionProvider`."""
    from penstock.transforms.core import RestrictionProvider, WatermarkEstimatorProvider

    assert (RestrictionProvider, WatermarkEstimatorProvider) == (
        beam.RestrictionProvider,
        beam.WatermarkEstimatorProvider,
    )


def test_a_runner_can_be_given_as_beam_names_it() -> None:
    """Its class; what it is called in Beam is the local runner here."""
    from penstock.runners.direct.direct_runner import DirectRunner

    assert beam.runners.LocalStreamingRunner is DirectRunner
    assert isinstance(beam.Pipeline(runner=beam.runners.SparkBatchRunner()).runner, beam.runners.SparkBatchRunner)
    with pytest.raises(AttributeError, match="'penstock.runners' has no attribute 'FlinkRunner'"):
        beam.runners.FlinkRunner


def test_a_function_that_mentions_such_a_module_can_be_pickled() -> None:
    """As the functions of a pipeline on Spark are."""
    import penstock.utils.timestamp

    made = pickle.loads(cloudpickle.dumps(lambda: penstock.utils.timestamp.Timestamp(1)))

    assert penstock.utils.timestamp.Timestamp(1) == made()


def test_what_beam_has_and_penstock_does_not_is_an_import_error() -> None:
    """Modules and names; nothing is made up."""
    assert find_spec("penstock.nothing") is None
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'penstock\.utils\.nothing'"):
        import_module("penstock.utils.nothing")
    with pytest.raises(ImportError, match="cannot import name 'Nothing' from 'penstock.utils.timestamp'"):
        exec("from penstock.utils.timestamp import Nothing")
