"""Names of Beam that penstock doesn't have."""

from __future__ import annotations

import pickle
from importlib import import_module

import cloudpickle
import pytest

import penstock as beam
from penstock.beam.absent import INSTEAD, absent, instead_of
from penstock.beam.names import defining_module, has_module, names_of_beam
from penstock.sdk.errors import UnsupportedError


@pytest.fixture(autouse=True)
def _beam(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from penstock.beam.import_hook import install_import_hook

    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()


def test_every_listed_name_can_be_imported() -> None:
    """From each module of Beam, whether penstock has it or not."""
    missing = []
    for path, names in names_of_beam().items():
        module = import_module(f"apache_beam.{path}".rstrip("."))
        missing += [f"{path}.{name}" for name in names if not hasattr(module, name)]

    assert [] == missing
    assert len(names_of_beam()) > 250


def test_what_penstock_has_is_the_same_thing_from_every_module_of_beam() -> None:
    """Also from modules that only import it."""
    from apache_beam.pipeline import PipelineOptions  # type: ignore[import-not-found]
    from apache_beam.transforms.util import DoFn  # type: ignore[import-not-found]

    assert (beam.DoFn, beam.options.PipelineOptions) == (DoFn, PipelineOptions)


def test_an_absent_name_is_an_error_when_it_is_called() -> None:
    """It is annotation, default and base class before that."""
    from apache_beam.io.gcp.bigquery import TableRowJsonCoder  # type: ignore[import-not-found]
    from apache_beam.io.gcp.bigquery_file_loads import TriggerCopyJobs  # type: ignore[import-not-found]
    from apache_beam.ml.inference.base import ModelHandler  # type: ignore[import-not-found]

    class Handler(ModelHandler[str, int, object]):  # type: ignore[misc]
        def load_model(self) -> object:
            return None

    def read(table: str | TableRowJsonCoder, how: object = TriggerCopyJobs.TRIGGER_DELETE_TEMP_TABLES) -> None: ...

    with pytest.raises(UnsupportedError, match=r"^apache_beam\.io\.gcp\.bigquery\.TableRowJsonCoder: penstock doesn't"):
        TableRowJsonCoder(schema="t")
    with pytest.raises(UnsupportedError, match=r"base of .*Handler\): penstock doesn't have it; load the model in"):
        Handler()
    with pytest.raises(UnsupportedError, match=r"TRIGGER_DELETE_TEMP_TABLES: penstock"):
        TriggerCopyJobs.TRIGGER_DELETE_TEMP_TABLES()
    with pytest.raises(UnsupportedError, match="choose penstock's runner by --runner="):
        beam.Pipeline(runner=absent("runners.dataflow.DataflowRunner"))


def test_an_absent_error_can_be_caught() -> None:
    """As in programs that handle a service's errors."""
    from apache_beam.io.azure.blobstorageio import BlobStorageError  # type: ignore[import-not-found]

    def divided() -> float:
        try:
            return 1 / 0
        except BlobStorageError:
            return 0

    with pytest.raises(ZeroDivisionError):
        divided()


def test_a_function_that_mentions_an_absent_name_can_be_pickled() -> None:
    """Workers that are started anew don't import `apache_beam`."""
    write = absent("io.gcp.bigquery_tools.AppendDestinationsFn")

    made = pickle.loads(cloudpickle.dumps(lambda: write("t")))

    with pytest.raises(UnsupportedError, match="AppendDestinationsFn"):
        made()


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from apache_beam.io import ReadFromNothing", "apache_beam.io.ReadFromNothing"),
        ("from apache_beam.io.gcp.bigquery import Nothing", "apache_beam.io.gcp.bigquery.Nothing"),
        ("from apache_beam.utils.timestamp import Nothing", "apache_beam.utils.timestamp.Nothing"),
        ("import apache_beam.io.nothing", "apache_beam.io.nothing"),
    ],
)
def test_an_import_of_what_beam_does_not_have_names_penstock_and_the_path(statement: str, name: str) -> None:
    """Without Python's "(unknown location)"."""
    with pytest.raises(ImportError) as raised:
        exec(statement)

    assert f"there is no {name}, neither in penstock nor among the names of Beam" == str(raised.value)


def test_absent_modules_can_be_imported_below_penstock() -> None:
    """The same things, for a program that has changed its imports."""
    from penstock.io.gcp.bigquery import TableRowJsonCoder

    assert absent("io.gcp.bigquery.TableRowJsonCoder") is TableRowJsonCoder
    with pytest.raises(AttributeError, match=r"apache_beam\.io\.gcp\.bigquery has no name 'Nothing', neither in"):
        import_module("penstock.io.gcp.bigquery").Nothing


@pytest.mark.parametrize("path", ["io.gcp.bigquery", "io.textio", "transforms.window", "options.pipeline_options"])
def test_a_module_is_the_same_as_an_attribute_and_as_an_import(path: str) -> None:
    """What `mock.patch` replaces in the one is replaced in the other."""
    found: object = import_module("apache_beam")
    for name in path.split("."):
        found = getattr(found, name)

    assert import_module(f"apache_beam.{path}") is found
    assert import_module("apache_beam").window is import_module("apache_beam.transforms.window")


def test_a_star_import_of_an_absent_module_brings_its_names() -> None:
    """They are errors when used, as others are."""
    brought: dict[str, object] = {}
    exec("from apache_beam.io.gcp.bigquery_file_loads import *", brought)

    assert brought["TriggerLoadJobs"] is absent("io.gcp.bigquery_file_loads.TriggerLoadJobs")


def test_advice_is_about_modules_of_beam() -> None:
    """The advice of the longest path counts."""
    assert [] == [area for area in INSTEAD if not has_module(area) and not has_module(f"{area}filesystem")]
    assert "s3fs" in instead_of("io.aws.s3io.S3IO")
    assert "client in a DoFn" in instead_of("io.gcp.spanner.ReadFromSpanner")
    assert ("io.gcp.pubsub", None) == (defining_module("io", "ReadFromPubSub"), defining_module("io", "Nothing"))


def test_pytest_does_not_collect_absent_classes() -> None:
    """A test module may import Beam's `TestClock`.  Classes of the program are collected by their names."""
    imported = absent("runners.direct.clock.TestClock")

    class ReadMock(imported):  # type: ignore[misc, valid-type]
        pass

    assert imported.__test__ is False
    assert not hasattr(ReadMock, "__test__")


def test_a_private_name_of_beam_is_imported_and_an_error_when_it_is_called() -> None:
    """Programs import them for annotations and tests; `*` doesn't bring them."""
    from apache_beam.io.textio import _TextSink  # type: ignore[import-not-found]

    with pytest.raises(UnsupportedError, match=r"^apache_beam\.io\.textio\._TextSink: .* the internals of Beam"):
        _TextSink("out")
    assert not [name for name in import_module("apache_beam.dataframe.doctests").__all__ if name.startswith("_")]
    with pytest.raises(ImportError, match="_Nothing"):
        from apache_beam.io.textio import _Nothing  # noqa: F401


def test_beam_has_a_version() -> None:
    """Programs log it, or compare it with the one that they need."""
    import apache_beam
    from apache_beam import version

    assert apache_beam.__version__ == version.__version__ == "2.77.0"
    assert beam.__version__ != apache_beam.__version__
