"""The public names: `python tests/package/public_names.py` writes them to public_names.txt.

A test compares the file with the package.  A line has a name and its parameters, so that a removed name or parameter is
a change of this file.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
from importlib import import_module
from operator import attrgetter
from typing import Any

import penstock.beam

LIST = pathlib.Path(__file__).with_suffix(".txt")

# Modules, by the name that a program uses, whose `__all__` is public.
MODULES = {
    "penstock": "penstock",
    "penstock.coders": "penstock.sdk.coders",
    "penstock.combiners": "penstock.transforms.combiners",
    "penstock.dataframe": "penstock.dataframe",
    "penstock.io": "penstock.io",
    "penstock.io.watermark_estimators": "penstock.sdk.watermark_estimators",
    "penstock.metrics": "penstock.sdk.metrics",
    "penstock.options": "penstock.sdk.options",
    "penstock.runners.interface": "penstock.runners.interface",
    "penstock.testing": "penstock.testing",
    "penstock.testing.runner_suite": "penstock.testing.runner_suite",
    "penstock.transforms.userstate": "penstock.sdk.userstate",
    "penstock.trigger": "penstock.triggers",
    "penstock.typehints": "penstock.sdk.typehints",
    "penstock.window": "penstock.windowing",
}

# What `penstock.beam` adds to them; it adds methods to their classes, too.
ADDED_FOR_BEAM = {
    "penstock.io": ["FileBasedSink", "tfrecordio"],
    "penstock.options": [
        "AzureOptions", "CrossLanguageOptions", "DirectOptions", "FlinkRunnerOptions", "GoogleCloudOptions",
        "HadoopFileSystemOptions", "JobServerOptions", "PortableOptions", "PrismRunnerOptions", "S3Options",
        "SparkRunnerOptions", "TestDataflowOptions", "TestOptions", "WorkerOptions",
    ],
    "penstock.typehints": [
        "Any", "Collection", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator", "KV", "List", "Mapping",
        "Optional", "Sequence", "Set", "Tuple", "TypeCheckError", "TypeVariable", "Union", "WindowedValue",
    ],
}  # fmt: skip

# Classes that users call methods of, or override them.
WITH_METHODS = {
    "Column", "CombineFn", "Counter", "Distribution", "DoFn", "EventTimeReader", "Gauge", "Metrics", "MetricResults",
    "PCollection", "PTransform", "ParDo", "Pipeline", "PipelineOptions", "PollResult", "Row", "Sink", "SinkWriter",
    "TestStream", "Timestamp", "Trigger", "UnboundedReader", "UnboundedSource", "BoundedSource", "WindowFn",
    "CombinePerKey", "CombineGlobally", "GroupByKey", "GroupIntoBatches", "GroupBy",
}  # fmt: skip


# What runners and other transforms call.
INTERNAL = {
    "add_to", "batched_for", "default_label", "default_type_hints", "dofn", "element_types", "expand", "get_type_hints",
    "infer_output_type", "operation", "output_type",
}  # fmt: skip


def parameters(thing: Any) -> str:
    """Return the names of a callable's parameters, with `=` where they have a default; or nothing."""
    if inspect.ismodule(thing) or not callable(thing):
        return ""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown, named_only = [], False
    for parameter in found:
        if parameter.kind is parameter.KEYWORD_ONLY and not named_only and "*" not in [text[:1] for text in shown]:
            shown.append("*")
            named_only = True
        default = "=" if parameter.default is not parameter.empty else ""
        shown.append(f"{stars.get(parameter.kind, '')}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def methods(name: str, thing: Any) -> list[str]:
    """Return the public methods that a class of `WITH_METHODS` defines itself, and classes such as `Count.PerKey`."""
    if not inspect.isclass(thing) or not thing.__module__.startswith("penstock"):
        return []
    own = [
        key
        for key, value in vars(thing).items()
        if not key.startswith("_")
        and key not in INTERNAL
        and (inspect.isclass(value) or (thing.__name__ in WITH_METHODS and inspect.isroutine(value)))
    ]
    return [f"{name}.{key}{parameters(getattr(thing, key))}" for key in own]


def public_names() -> list[str]:
    """Return the lines of the list."""
    lines = []
    for path, own_path in MODULES.items():
        module = import_module(own_path)
        things = {name: getattr(module, name) for name in module.__all__}
        for name in ADDED_FOR_BEAM.get(path, ()):
            things[name] = attrgetter(f"{path}.{name}".partition(".")[2])(penstock)
        for name, thing in things.items():
            lines.append(f"{path}.{name}{parameters(thing)}")
            lines += methods(f"{path}.{name}", thing)
    return sorted(set(lines))


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n")
    sys.stdout.write(f"{LIST}\n")
