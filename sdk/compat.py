"""Beam's module paths, and the modules of penstock with their names.

`penstock.window`, `penstock.pvalue` and the like are namespaces made from the table `MODULES`.  An import hook reads it
for `python -m penstock run --beam pipeline.py`, which runs a file that imports `apache_beam`.

The same hook serves `from penstock.utils.timestamp import Timestamp`: Beam's modules can be imported below `penstock`,
unless a module of penstock has that name.  So can `penstock.window`, which is at Beam's root.

Beam's other modules and names, listed in `sdk/beam/names.txt`, can be imported, too, and are errors when used.
`apache_beam.examples` is loaded from Beam's own distribution, if it is installed, and runs on penstock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

# By Beam's module path: modules of penstock, searched in this order.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "": ("",),
    "coders": ("sdk.coders", "sdk.coders.numeric", "sdk.coders.protobuf"),
    "coders.coders": ("sdk.coders", "sdk.coders.numeric", "sdk.coders.protobuf", "sdk.coders.windowed"),
    "coders.avro_record": ("sdk.coders.avro",),
    "coders.coder_impl": ("sdk.beam.coder_impl",),
    "coders.observable": ("sdk.beam.observable",),
    "coders.row_coder": ("sdk.coders",),
    "coders.slow_stream": ("sdk.beam.coder_streams",),
    "coders.stream": ("sdk.beam.coder_streams",),
    "coders.typecoders": ("sdk.coders.typecoders",),
    "dataframe": ("dataframe",),
    "dataframe.convert": ("dataframe.convert",),
    "dataframe.expressions": ("dataframe.frame_base",),
    "dataframe.frame_base": ("dataframe.frame_base", "dataframe.frames"),
    "dataframe.frames": ("dataframe.frames",),
    "dataframe.io": ("dataframe.io",),
    "dataframe.schemas": ("dataframe.schemas",),
    "dataframe.transforms": ("dataframe.transforms",),
    "error": ("sdk.errors", "sdk.options.value_provider"),
    "internal.cloudpickle.cloudpickle": ("sdk.beam.pickler",),
    "internal.pickler": ("sdk.beam.pickler",),
    "io": ("io", "io.beam.sink"),
    "io.avroio": ("io.files.avro", "io", "io.beam.avro_schemas"),
    "io.filebasedsink": ("io.beam.file_based_sink", "io"),
    "io.fileio": ("io.files.matching", "io.files.dynamic_write", "io.files.sharding", "io"),
    "io.filesystem": ("io.beam.file_system", "io.beam.compressed_file", "io.files.filesystem", "io"),
    "io.filesystemio": ("io.beam.streams",),
    "io.filesystems": ("io.beam.file_systems", "io.beam.file_system", "io"),
    "io.localfilesystem": ("io.beam.file_system", "io"),
    "io.gcp.internal.clients.bigquery": ("io.beam.bigquery_schemas",),
    "io.unbounded_source": ("io.beam.unbounded_source",),
    "io.utils": ("io.beam.counting_source", "io.beam.range_trackers", "io.beam.bounded_source"),
    "io.concat_source": ("io.beam.bounded_source",),
    "io.filebasedsource": ("io.beam.file_based_source",),
    "io.iobase": (
        "io.beam.sink",
        "io.beam.bounded_source",
        "io.beam.range_trackers",
        "io",
        "sdk.sink",
        "sdk.watermark_estimators",
        "sdk.dofn.splittable_dofn",
    ),
    "io.range_trackers": ("io.beam.range_trackers",),
    "io.restriction_trackers": ("sdk.dofn.offset_range", "sdk.dofn.splittable_dofn"),
    "io.kafka": ("io.kafka.read", "io.kafka.write"),
    "io.parquetio": ("io.files.parquet", "io"),
    "io.requestresponse": ("transforms.request_response", "transforms.response_caches"),
    "io.textio": ("io.files.text", "io"),
    "io.source_test_utils": ("io.beam.source_test_utils",),
    "io.tfrecordio": ("io.beam.tf_record",),
    "io.watch": ("transforms.watch", "transforms.poll_result"),
    "io.watermark_estimators": ("sdk.watermark_estimators",),
    "metrics": ("sdk.metrics",),
    "metrics.cells": (
        "sdk.beam.metric_cells",
        "sdk.metrics.distribution",
        "sdk.metrics.string_set",
        "sdk.metrics.bounded_trie",
        "sdk.metrics.histogram",
    ),
    "metrics.execution": ("sdk.metrics.results",),
    "metrics.metric": ("sdk.metrics",),
    "metrics.metricbase": ("sdk.metrics.reporting",),
    "options": ("sdk.options",),
    "options.pipeline_options": ("sdk.options", "sdk.options.parser", "sdk.options.context"),
    "options.pipeline_options_validator": ("sdk.options.validation", "sdk.options"),
    "options.value_provider": ("sdk.options.value_provider",),
    "options.pipeline_options_context": ("sdk.options",),
    "pipeline": ("sdk.pipeline", "sdk.applied"),
    "pvalue": ("sdk.pvalue", "sdk.side_inputs", "sdk.elements.element_wrappers", "sdk.elements.row"),
    "portability.api.schema_pb2": ("sdk.typehints.beam.schema_messages",),
    "portability.common_urns": ("sdk.beam.urns",),
    "runners": ("sdk.runner", "runners"),
    "runners.direct": ("runners",),
    "runners.direct.direct_runner": ("runners",),
    "runners.direct.test_direct_runner": ("runners",),
    "runners.interactive.interactive_runner": ("runners",),
    "runners.portability.fn_api_runner": ("runners",),
    "runners.portability.fn_api_runner.fn_runner": ("runners",),
    "runners.portability.prism_runner": ("runners",),
    "runners.runner": ("sdk.runner",),
    "runners.sdf_utils": ("sdk.dofn.splittable_dofn",),
    "runners.trivial_runner": ("runners",),
    "testing": ("testing",),
    "testing.extra_assertions": ("sdk.beam.extra_assertions",),
    "testing.metric_result_matchers": ("sdk.beam.metric_results",),
    "testing.pipeline_verifiers": ("io.beam.run_results",),
    "testing.test_pipeline": ("testing",),
    "testing.test_stream": ("testing", "testing.stream_events"),
    "testing.test_utils": ("io.beam.test_utils",),
    "testing.util": ("testing.util",),
    "transforms": ("transforms", "sdk.ptransform"),
    "transforms.async_dofn": ("transforms.async_dofn",),
    "transforms.enrichment": ("transforms.enrichment", "transforms.request_response", "transforms.response_caches"),
    "transforms.combiners": ("transforms.combiners", "transforms"),
    "transforms.core": (
        "transforms",
        "sdk.dofn.dofn",
        "sdk.combine_fn",
        "sdk.watermark_estimators",
        "sdk.dofn.splittable_dofn",
        "sdk.windowing_strategy",
        "",
        "transforms.error_handling",
    ),
    "transforms.deduplicate": ("transforms.deduplicate",),
    "transforms.display": ("sdk.beam.display",),
    "transforms.display_test": ("sdk.beam.display_items",),
    "transforms.error_handling": ("transforms.error_handling", "transforms.pardo"),
    "transforms.periodicsequence": ("transforms.periodic_sequence",),
    "transforms.ptransform": ("sdk.ptransform", "sdk.user_code.signatures"),
    "transforms.sideinputs": ("windowing",),
    "transforms.resources": ("sdk.beam.resources",),
    "transforms.sql": ("transforms.sql",),
    "transforms.stats": ("transforms.stats",),
    "transforms.trigger": ("triggers",),
    "transforms.timeutil": ("sdk.userstate",),
    "transforms.userstate": ("sdk.userstate", "sdk.dofn.stateful_dofn"),
    "transforms.util": ("transforms",),
    "transforms.window": ("windowing",),
    "typehints": ("sdk.typehints", "sdk.typehints.beam.subscripts", "sdk.typehints.beam.io_type_hints"),
    "typehints.batch": ("sdk.typehints.batch",),
    "typehints.decorators": (
        "sdk.typehints",
        "sdk.typehints.beam.subscripts",
        "sdk.typehints.beam.io_type_hints",
        "sdk.typehints.beam.trivial_inference",
    ),
    "typehints.native_type_compatibility": ("sdk.typehints.beam.native_types",),
    "typehints.row_type": ("sdk.typehints.beam.row_type",),
    "typehints.schema_registry": ("sdk.typehints.beam.row_type",),
    "typehints.schemas": ("sdk.typehints.beam.schemas",),
    "typehints.pandas_type_compatibility": ("sdk.typehints.beam.pandas_types",),
    "typehints.sharded_key_type": ("transforms.sharded_key_type",),
    "typehints.testing.strategies": ("sdk.beam.strategies",),
    "typehints.trivial_inference": ("sdk.typehints.beam.trivial_inference",),
    "typehints.typehints": ("sdk.typehints", "sdk.typehints.beam.subscripts", "sdk.typehints.beam.constraints"),
    "utils": (),
    "utils.annotations": ("sdk.beam.annotations",),
    "utils.histogram": ("sdk.metrics.histogram",),
    "utils.processes": ("sdk.beam.processes",),
    "utils.retry": ("sdk.retry",),
    "utils.secret": ("sdk.beam.secret",),
    "utils.shared": ("sdk.shared",),
    "utils.sharded_key": ("sdk.coders",),
    "utils.timestamp": ("windowing",),
    "utils.windowed_value": ("sdk.elements.element_wrappers", "sdk.elements.windowed_batch", "triggers"),
}

# Paths of penstock's own that are formed like Beam's: `beam.io.csvio`.
MODULES.update({"io.csvio": ("io.files.csv", "io"), "io.jsonio": ("io.files.json", "io")})

# Names that differ: Beam's `FileSink` writes one file; penstock's publishes all files of an output.
RENAMED: Final[dict[tuple[str, str], str]] = {
    ("coders.coders", "ToStringCoder"): "ToBytesCoder",
    ("io.fileio", "FileSink"): "RecordSink",
    ("transforms.trigger", "_Never"): "Never",
    ("transforms.core", "CallableWrapperDoFn"): "FlatMapDoFn",
    ("transforms.ptransform", "label_from_callable"): "label_of",
    ("utils.windowed_value", "create"): "windowed_value_of_micros",
    ("utils.windowed_value", "_IntervalWindowBase"): "IntervalWindow",
    ("transforms.core", "Windowing"): "windowing_of_beam",
    # Beam's sink has writers; that of `penstock.io` has two-phase commit.
    ("io", "Sink"): "SinkOfWriters",
    ("testing.util", "BeamAssertException"): "PenstockAssertionError",
    ("error", "BeamError"): "PenstockError",
    ("metrics.cells", "_BoundedTrieNode"): "BoundedTrieNode",
    ("metrics.metricbase", "Histogram"): "HistogramMetric",
    ("runners.trivial_runner", "TrivialRunner"): "LocalStreamingRunner",
    ("options.pipeline_options", "_BeamArgumentParser"): "OptionsParser",
}

# Names of Beam that are found first in a module of penstock: rows, where penstock gives dicts, and single names of
# modules whose other names penstock doesn't have.
APART: Final[dict[tuple[str, str], str]] = {
    **{
        (path, name): "dataframe.row_files"
        for path in ("io", "io.textio")
        for name in ("ReadFromCsv", "ReadFromJson", "WriteToCsv", "WriteToJson")
    },
    ("io.gcp.bigquery", "BigQueryDisposition"): "io.beam.service_values",
    ("io.gcp.pubsub", "PubsubMessage"): "io.beam.service_values",
    ("io.gcp.bigquery_tools", "RetryStrategy"): "io.beam.bigquery_schemas",
    ("utils.windowed_value", "_IntervalWindowBase"): "windowing",
    ("io.gcp.bigquery_tools", "parse_table_schema_from_json"): "io.beam.bigquery_schemas",
}

# Modules of Beam's `transforms` that Beam has at its root as well: `beam.window`.  Importable below `penstock` only.
AT_ROOT: Final[frozenset[str]] = frozenset(
    ["combiners", "core", "ptransform", "sideinputs", "stats", "timeutil", "trigger", "userstate", "util", "window"]
)

# The latest Beam whose names are listed.
BEAM_VERSION: Final = "2.77.0"

_PACKAGE = __name__.rsplit(".", 2)[0]


class Namespace(ModuleType):
    """A module of Beam, whose names are looked up in penstock's modules."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        # For errors of `from ... import`, which say "(unknown location)" otherwise.
        self.__file__ = __file__
        self._penstock_path = path
        self._penstock_originals: dict[str, Any] = {}

    # A module's own is called from here as a method, for three times as long; users' functions say `beam.window.X`.
    __getattribute__ = object.__getattribute__

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._public_names()
        if name == "__version__" and self._penstock_path in ("", "version"):
            # Programs log it, or compare it with the version that they need.
            return BEAM_VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        path = self._penstock_path
        # `penstock.transforms.window` is a namespace in a namespace.
        child = f"{path}.{name}" if path else name
        if child in MODULES:
            found: Any = namespace(child)
        elif not path and name in AT_ROOT:
            found = namespace(f"transforms.{name}")
        else:
            found = _of_penstock(path, name)
            # A package of penstock, such as `examples`, is none of Beam's.
            if found is None or (not path and isinstance(found, ModuleType)):
                found = _of_beam(path, name)
        root = self.__name__.partition(".")[0]
        if root != _PACKAGE and isinstance(found, Namespace):
            # The module that an import returns: tests replace its names.
            found = import_module(f"{root}.{found._penstock_path}".rstrip("."))
        vars(self)[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a name here and in the module of penstock that has it, whose functions a test patches."""
        super().__setattr__(name, value)
        # An import sets a module of Beam in its parent.
        if not name.startswith(("__", "_penstock")) and not isinstance(value, Namespace):
            for module, own_name in self._definitions_of(name):
                self._penstock_originals.setdefault(name, getattr(module, own_name))
                setattr(module, own_name, value)

    def __delattr__(self, name: str) -> None:
        """Forget a name, and restore what penstock's module had before the name was set."""
        super().__delattr__(name)
        if name in self._penstock_originals:
            original = self._penstock_originals.pop(name)
            for module, own_name in self._definitions_of(name):
                setattr(module, own_name, original)

    def _definitions_of(self, name: str) -> list[tuple[ModuleType, str]]:
        """Return the first of penstock's modules with a name of this module, and the name there; or nothing."""
        own_name = RENAMED.get((self._penstock_path, name), name)
        paths = MODULES.get(self._penstock_path, ())
        modules = [import_module(f"{_PACKAGE}.{path}" if path else _PACKAGE) for path in paths]
        return [(module, own_name) for module in modules if own_name in vars(module) or own_name in dir(module)][:1]

    def _public_names(self) -> list[str]:
        """Return the names for `from ... import *`: those of penstock's modules, without submodules and imports."""
        if self._penstock_path not in MODULES:
            from .beam.names import names_of_beam

            every = names_of_beam().get(self._penstock_path, ())
            return sorted(name for name in every if not name.startswith("_"))
        names: set[str] = set()
        for path in MODULES[self._penstock_path]:
            module = import_module(f"{_PACKAGE}.{path}" if path else _PACKAGE)
            if listed := getattr(module, "__all__", None):
                names.update(name for name in listed if not isinstance(getattr(module, name), ModuleType))
            else:
                names.update(name for name in dir(module) if _is_public(module, name))
        names.update(name for path, name in RENAMED if path == self._penstock_path)
        return sorted(names)

    # A user's function that mentions it is pickled with it.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self._penstock_path, self.__name__))

    def __dir__(self) -> list[str]:
        names = {
            name
            for m in MODULES.get(self._penstock_path, ())
            for name in dir(import_module(f"{_PACKAGE}.{m}".rstrip(".")))
        }
        return sorted(name for name in names if not name.startswith("_"))


def _is_beams(path: str) -> bool:
    from .beam.names import has_module

    return has_module(path)


def _of_penstock(path: str, name: str) -> Any:
    """Return what penstock has for a name of Beam's module `path`, or None."""
    own_name = RENAMED.get((path, name), name)
    for module in (APART[path, name],) if (path, name) in APART else MODULES.get(path, ()):
        found = getattr(import_module(f"{_PACKAGE}.{module}" if module else _PACKAGE), own_name, None)
        if found is not None:
            return found
    return None


def _of_beam(path: str, name: str) -> Any:
    """Return the module of Beam below `path`, the name that `path` has from another module, or what stands for it.

    Raises `AttributeError` for a name that Beam doesn't have.
    """
    from .beam.absent import absent
    from .beam.names import defining_module, has_module, is_unlisted

    child = f"{path}.{name}" if path else name
    if has_module(child) and not is_unlisted(path):
        return namespace(child)
    if not path and has_module(f"transforms.{name}"):
        # Beam's root imports all names of `transforms`, its modules included.
        return namespace(f"transforms.{name}")
    origin = defining_module(path, name)
    if origin is None:
        where = f"apache_beam.{path}" if path else "apache_beam"
        raise AttributeError(f"{where} has no name {name!r}, neither in penstock nor among the names of Beam")
    if origin != path and has_module(f"{origin}.{name}".strip(".")):
        return namespace(f"{origin}.{name}".strip("."))
    found = _of_penstock(origin, name) if origin != path else None
    if found is not None:
        return found
    return _service_transform(f"{origin}.{name}") or absent(f"{origin}.{name}")


def _service_transform(path: str) -> Any:
    """Return the read or write of a service at a path of Beam, or None."""
    if not path.startswith("io."):
        return None
    return import_module(f"{_PACKAGE}.io.beam.service_transforms").service_transform(path)


def _is_public(module: ModuleType, name: str) -> bool:
    thing = getattr(module, name)
    of = getattr(thing, "__module__", None) or _PACKAGE
    return not name.startswith("_") and not isinstance(thing, ModuleType) and of.partition(".")[0] == _PACKAGE


@cache
def namespace(path: str) -> Namespace:
    """Return the namespace for Beam's module of this path.

    >>> namespace("transforms.window").FixedWindows(60)
    FixedWindows(size=Duration(60), offset=Duration(0))
    """
    return Namespace(path, f"{_PACKAGE}.{path}" if path else _PACKAGE)


def _restored(path: str, name: str) -> Namespace:
    """Return the module that was pickled: what user code has set in it is kept within a process."""
    found = sys.modules.get(name)
    return found if isinstance(found, Namespace) else namespace(path)


# A finder and loader without their base classes, whose import takes as long as fifty small modules.
class _Finder:
    """Finder of the table's modules below a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        root, _, rest = fullname.partition(".")
        if root != self.package or not (rest in MODULES or (rest in AT_ROOT and root == _PACKAGE) or _is_beams(rest)):
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        path = spec.name.partition(".")[2]
        return namespace(f"transforms.{path}" if path in AT_ROOT else path)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up on access."""


class _BeamFinder(_Finder):
    """Finder for `apache_beam`, which refuses modules that Beam doesn't have."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        found = _installed_example(fullname, path) or super().find_spec(fullname, path, target)
        if found is None and fullname.partition(".")[0] == self.package:
            # With `name=`, `from apache_beam.io import Nothing` would show another error, without penstock's name.
            raise ModuleNotFoundError(f"there is no {fullname}, neither in penstock nor among the names of Beam")
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Namespace(spec.name.partition(".")[2], spec.name)


def _installed_example(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the spec of a module of Beam's examples, whose imports of `apache_beam` import penstock.

    None if Beam isn't installed.  Beam itself isn't imported.  Raises `ModuleNotFoundError` for an example that the
    installed Beam doesn't have.
    """
    _, _, rest = fullname.partition(".")
    if rest.partition(".")[0] != "examples":
        return None
    if rest == "examples":
        path = folders_of_installed_beam()
    if not path:
        return None
    found = PathFinder.find_spec(fullname, path)
    if found is None and rest != "examples":
        raise ModuleNotFoundError(f"there is no {fullname} in the installed Beam", name=fullname)
    return found


def folders_of_installed_beam() -> list[str]:
    """Return where Beam's own distribution is, without importing it; nothing if it isn't installed."""
    beam = PathFinder.find_spec("apache_beam")
    return [] if beam is None else list(beam.submodule_search_locations or ())


def find_beams_modules_here() -> None:
    """Install the hook for `import penstock.utils.timestamp`.  Penstock's own modules take precedence."""
    if not any(isinstance(finder, _Finder) and finder.package == _PACKAGE for finder in sys.meta_path):
        sys.meta_path.append(_Finder(_PACKAGE))


def install_import_hook() -> None:
    """Install the hook by which `import apache_beam` imports penstock under Beam's names."""
    if not is_hook_installed():
        sys.meta_path.insert(0, _BeamFinder("apache_beam"))


def is_hook_installed() -> bool:
    """Return whether `import apache_beam` imports penstock."""
    return any(isinstance(finder, _BeamFinder) for finder in sys.meta_path)
