"""Modules of names, at the paths that Beam gives them: `penstock.window`, `penstock.options.pipeline_options`.

A module of names, a `Namespace`, has no file.  It looks names up in the modules of the table `MODULES`, when they are
used.  `import penstock` puts the namespaces where Python's import system looks first, so that
`from penstock.utils.timestamp import Timestamp` imports one.

An extension adds names to the namespaces of `EXTENDED`, and provides those that the core doesn't have.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from .extensions import advice, extension_point, load

# By path of a namespace: the modules with its names, searched in this order.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "": ("",),
    "coders": ("sdk.coders", "sdk.coders.numeric", "sdk.coders.protobuf"),
    "coders.coders": ("sdk.coders", "sdk.coders.numeric", "sdk.coders.protobuf", "sdk.coders.windowed"),
    "coders.avro_record": ("sdk.coders.avro",),
    "coders.row_coder": ("sdk.coders",),
    "coders.typecoders": ("sdk.coders.typecoders",),
    "dataframe.expressions": ("dataframe.frame_base",),
    "error": ("sdk.errors", "sdk.options.value_provider"),
    "io.avroio": ("io.files.avro", "io"),
    "io.fileio": ("io.files.matching", "io.files.sinks.dynamic_write", "io.files.sinks.sharding", "io"),
    "io.restriction_trackers": ("sdk.dofn.offset_range", "sdk.dofn.splittable_dofn"),
    "io.parquetio": ("io.files.parquet", "io"),
    "io.requestresponse": ("transforms.services.request_response", "transforms.services.response_caches"),
    "io.textio": ("io.files.text", "io"),
    "io.watch": ("transforms.times.watch", "transforms.times.poll_result"),
    "io.watermark_estimators": ("sdk.watermark_estimators",),
    "metrics": ("sdk.metrics",),
    "metrics.execution": ("sdk.metrics.results",),
    "metrics.metric": ("sdk.metrics",),
    "metrics.metricbase": ("sdk.metrics.reporting",),
    "options": ("sdk.options",),
    "options.pipeline_options": ("sdk.options", "sdk.options.parser", "sdk.options.context"),
    "options.value_provider": ("sdk.options.value_provider",),
    "options.pipeline_options_context": ("sdk.options",),
    "pipeline": ("sdk.pipeline", "sdk.applied"),
    "pvalue": ("sdk.pvalue", "sdk.side_inputs", "sdk.elements.element_wrappers", "sdk.elements.row"),
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
    "transforms.combiners": ("transforms.combiners", "transforms"),
    "transforms.stats": ("transforms.stats",),
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
    "transforms.periodicsequence": ("transforms.times.periodic_sequence",),
    "transforms.ptransform": ("sdk.ptransform", "sdk.user_code.signatures"),
    "transforms.sideinputs": ("windowing",),
    "transforms.trigger": ("triggers",),
    "transforms.timeutil": ("sdk.userstate",),
    "transforms.userstate": ("sdk.userstate", "sdk.dofn.stateful_dofn"),
    "transforms.util": ("transforms",),
    "transforms.window": ("windowing",),
    "typehints": ("sdk.typehints",),
    "typehints.batch": ("sdk.typehints.batch",),
    "typehints.decorators": ("sdk.typehints",),
    "typehints.typehints": ("sdk.typehints",),
    "utils": (),
    "utils.histogram": ("sdk.metrics.histogram",),
    "utils.retry": ("io.connections.retry",),
    "utils.secret": ("transforms.groups.secret",),
    "utils.shared": ("sdk.process.shared",),
    "utils.sharded_key": ("sdk.coders",),
    "utils.timestamp": ("windowing",),
    "utils.windowed_value": ("sdk.elements.element_wrappers", "sdk.elements.windowed_batch", "triggers"),
    "io.csvio": ("io.files.csv", "io"),
    "io.jsonio": ("io.files.json", "io"),
}

# Namespaces that have names, or all of them, from an extension only.
EXTENDED: Final[frozenset[str]] = frozenset(
    (
        "coders.coder_impl",
        "dataframe.schemas",
        "coders.observable",
        "coders.slow_stream",
        "coders.stream",
        "internal",
        "internal.cloudpickle",
        "internal.cloudpickle.cloudpickle",
        "internal.pickler",
        "io.avroio",
        "io.concat_source",
        "io.filebasedsink",
        "io.filebasedsource",
        "io.filesystem",
        "io.filesystemio",
        "io.filesystems",
        "io.gcp",
        "io.gcp.internal",
        "io.gcp.internal.clients",
        "io.gcp.internal.clients.bigquery",
        "io.iobase",
        "io.localfilesystem",
        "io.range_trackers",
        "io.source_test_utils",
        "io.tfrecordio",
        "io.unbounded_source",
        "io.utils",
        "metrics.cells",
        "options",
        "options.pipeline_options",
        "options.pipeline_options_validator",
        "pipeline",
        "portability",
        "portability.api",
        "portability.api.schema_pb2",
        "portability.common_urns",
        "runners.interactive",
        "runners.portability",
        "testing.extra_assertions",
        "testing.metric_result_matchers",
        "testing.pipeline_verifiers",
        "testing.test_utils",
        "transforms.display",
        "transforms.display_test",
        "transforms.resources",
        "typehints",
        "typehints.decorators",
        "typehints.native_type_compatibility",
        "typehints.pandas_type_compatibility",
        "typehints.row_type",
        "typehints.schema_registry",
        "typehints.schemas",
        "typehints.sharded_key_type",
        "typehints.testing",
        "typehints.testing.strategies",
        "typehints.trivial_inference",
        "typehints.typehints",
        "utils.annotations",
        "utils.processes",
    )
)
MODULES.update((path, ()) for path in EXTENDED if path not in MODULES)

# Names that differ: Beam's `FileSink` writes one file; penstock's publishes all files of an output.
RENAMED: Final[dict[tuple[str, str], str]] = {
    ("coders.coders", "ToStringCoder"): "ToBytesCoder",
    ("io.fileio", "FileSink"): "RecordSink",
    ("transforms.trigger", "_Never"): "Never",
    ("transforms.core", "CallableWrapperDoFn"): "FlatMapDoFn",
    ("transforms.ptransform", "label_from_callable"): "label_of",
    ("utils.windowed_value", "create"): "windowed_value_of_micros",
    ("utils.windowed_value", "_IntervalWindowBase"): "IntervalWindow",
    ("metrics.metricbase", "Histogram"): "HistogramMetric",
    ("runners.trivial_runner", "TrivialRunner"): "LocalStreamingRunner",
}

# Names that are found in one module only, apart from the others of their namespace.
APART: Final[dict[tuple[str, str], str]] = {
    ("io.textio", name): "dataframe.row_files" for name in ("ReadFromCsv", "ReadFromJson", "WriteToCsv", "WriteToJson")
} | {("utils.windowed_value", "_IntervalWindowBase"): "windowing"}

# Modules of `transforms` that are at the root as well: `beam.window`.
AT_ROOT: Final[frozenset[str]] = frozenset(
    ["combiners", "core", "ptransform", "sideinputs", "stats", "timeutil", "trigger", "userstate", "util", "window"]
)

# Namespaces at the root whose attribute is the module with the names: users' functions have them for each element, and
# an attribute of a namespace takes ten times as long.
_PLAIN = ("trigger", "window")

_PACKAGE = __name__.rsplit(".", 3)[0]


@extension_point
def foreign_name(path: str, name: str) -> Any:
    """Return what stands for a name that the core doesn't have.

    Args:
      path: that of the namespace, such as "io.iobase".

    Raises `AttributeError` for a name that the extension doesn't have either.
    """


@extension_point
def foreign_public_names(path: str) -> list[str]:
    """Return the public names of a namespace that the core doesn't have."""
    raise NotImplementedError


class Namespace(ModuleType):
    """A module of names, which are looked up in other modules."""

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
            return foreign_name(self._penstock_path, name)
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
            found = of_modules(path, name)
            if found is None or _is_module_of_root(path, found):
                found = _of_extension(path, name)
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
        paths = _modules_of(self._penstock_path)
        modules = [import_module(f"{_PACKAGE}.{path}" if path else _PACKAGE) for path in paths]
        return [(module, own_name) for module in modules if own_name in vars(module) or own_name in dir(module)][:1]

    def _public_names(self) -> list[str]:
        """Return the names for `from ... import *`: those of penstock's modules, without submodules and imports."""
        paths = _modules_of(self._penstock_path)
        if self._penstock_path not in MODULES:
            return foreign_public_names(self._penstock_path)
        names: set[str] = set()
        for path in paths:
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
            name for m in _modules_of(self._penstock_path) for name in dir(import_module(f"{_PACKAGE}.{m}".rstrip(".")))
        }
        return sorted(name for name in names if not name.startswith("_"))


def _modules_of(path: str) -> tuple[str, ...]:
    """Return the modules with the names of a namespace, those of extensions included."""
    if path in EXTENDED:
        load()
    return MODULES.get(path, ())


def _of_extension(path: str, name: str) -> Any:
    """Return what an extension has for a name.  Raises `AttributeError`."""
    if not load():
        where = f"{_PACKAGE}.{path}" if path else _PACKAGE
        raise AttributeError(advice(f"{where}.{name}"))
    # It may have completed the table.
    found = of_modules(path, name)
    return foreign_name(path, name) if found is None or _is_module_of_root(path, found) else found


def _is_module_of_root(path: str, found: Any) -> bool:
    """Return whether a name is a package of penstock, such as `examples`, which is none of Beam's."""
    return not path and isinstance(found, ModuleType)


def of_modules(path: str, name: str) -> Any:
    """Return what the modules of the table have for a name of the namespace `path`, or None."""
    own_name = RENAMED.get((path, name), name)
    for module in (APART[path, name],) if (path, name) in APART else MODULES.get(path, ()):
        found = getattr(import_module(f"{_PACKAGE}.{module}" if module else _PACKAGE), own_name, None)
        if found is not None:
            return found
    return None


def _is_public(module: ModuleType, name: str) -> bool:
    thing = getattr(module, name)
    of = getattr(thing, "__module__", None) or _PACKAGE
    return not name.startswith("_") and not isinstance(thing, ModuleType) and of.partition(".")[0] == _PACKAGE


@cache
def namespace(path: str) -> Namespace:
    """Return the namespace of this path.

    >>> namespace("transforms.window").FixedWindows(60)
    FixedWindows(size=Duration(60), offset=Duration(0))
    """
    return Namespace(path, f"{_PACKAGE}.{path}" if path else _PACKAGE)


def _restored(path: str, name: str) -> Namespace:
    """Return the module that was pickled: what user code has set in it is kept within a process."""
    found = sys.modules.get(name)
    return found if isinstance(found, Namespace) else namespace(path)


def publish() -> None:
    """Put all namespaces where Python's import system looks.

    A module of the package that has the path of a namespace takes precedence.
    """
    for path in MODULES:
        if path:
            sys.modules.setdefault(f"{_PACKAGE}.{path}", namespace(path))
    for name in AT_ROOT:
        sys.modules.setdefault(f"{_PACKAGE}.{name}", namespace(f"transforms.{name}"))


def add_to(path: str, names: dict[str, Any]) -> None:
    """Make the namespaces below a module of the package attributes of the module.

    Args:
      path: the module's.
      names: the module's names.
    """
    for name in AT_ROOT if not path else ():
        names.setdefault(name, namespace(f"transforms.{name}"))
    for each in MODULES:
        around, _, name = each.rpartition(".")
        found = sys.modules.get(f"{_PACKAGE}.{each}")
        if each and around == path and isinstance(found, Namespace) and each not in _PLAIN:
            names[name] = found
