"""Beam's module paths, and the modules with their names: what penstock's namespaces have of Beam.

Beam's other modules and names, listed in `names.txt`, can be imported, too, and are errors when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from ..sdk.names.namespaces import APART, MODULES, RENAMED, foreign_name, foreign_public_names, namespace, of_modules
from .absent import absent
from .names import defining_module, has_module, is_unlisted, names_of_beam

_TYPEHINTS = (
    "beam.typehints.subscripts",
    "beam.typehints.constraints",
    "beam.typehints.io_type_hints",
    "beam.typehints.trivial_inference",
)

# By path: the modules with its names, searched in this order.
_MODULES_OF_BEAM: Final[dict[str, tuple[str, ...]]] = {
    "coders.coder_impl": ("beam.sdk.coder_impl",),
    "coders.observable": ("beam.sdk.observable",),
    "coders.slow_stream": ("beam.sdk.coder_streams",),
    "coders.stream": ("beam.sdk.coder_streams",),
    "dataframe": ("dataframe",),
    "dataframe.convert": ("dataframe.convert",),
    "dataframe.frame_base": ("dataframe.frame_base", "dataframe.frames"),
    "dataframe.frames": ("dataframe.frames",),
    "dataframe.io": ("dataframe.io",),
    "dataframe.schemas": ("beam.dataframe_schemas",),
    "dataframe.transforms": ("dataframe.transforms",),
    "internal.cloudpickle.cloudpickle": ("beam.sdk.pickler",),
    "internal.pickler": ("beam.sdk.pickler",),
    "io": ("io", "beam.io.sink"),
    "io.avroio": ("io.files.avro", "io", "beam.io.avro_schemas"),
    "io.filebasedsink": ("beam.io.file_based_sink", "io"),
    "io.filesystem": ("beam.io.file_system", "beam.io.compressed_file", "io.files.filesystem", "io"),
    "io.filesystemio": ("beam.io.streams",),
    "io.filesystems": ("beam.io.file_systems", "beam.io.file_system", "io"),
    "io.localfilesystem": ("beam.io.file_system", "io"),
    "io.gcp.gcsfilesystem": ("beam.io.file_system",),
    "io.gcp.gcsio": ("beam.io.gcp.gcs",),
    "io.gcp.pubsub": ("beam.io.gcp.pubsub", "io.pubsub.read", "io.pubsub.write", "io.pubsub.messages"),
    "io.gcp.bigquery": ("beam.io.gcp.bigquery",),
    "io.gcp.bigquery_tools": ("beam.io.gcp.bigquery_schemas", "beam.io.gcp.bigquery_rows"),
    "io.gcp.internal.clients.bigquery": ("beam.io.gcp.bigquery_schemas",),
    "io.unbounded_source": ("beam.io.unbounded_source",),
    "io.utils": ("beam.io.counting_source", "beam.io.range_trackers", "beam.io.bounded_source"),
    "io.concat_source": ("beam.io.bounded_source",),
    "io.filebasedsource": ("beam.io.file_based_source",),
    "io.iobase": (
        "beam.io.sink",
        "beam.io.bounded_source",
        "beam.io.range_trackers",
        "io",
        "sdk.sink",
        "sdk.watermark_estimators",
        "sdk.dofn.splittable_dofn",
    ),
    "io.range_trackers": ("beam.io.range_trackers",),
    "io.kafka": ("io.kafka.read", "io.kafka.write"),
    "io.source_test_utils": ("beam.io.source_test_utils",),
    "io.tfrecordio": ("beam.io.tf_record",),
    "metrics.cells": (
        "beam.sdk.metric_cells",
        "sdk.metrics.distribution",
        "sdk.metrics.string_set",
        "sdk.metrics.bounded_trie",
        "sdk.metrics.histogram",
    ),
    "options": ("sdk.options", "beam.options"),
    "options.pipeline_options": ("sdk.options", "sdk.options.parser", "sdk.options.context", "beam.options"),
    "options.pipeline_options_validator": ("beam.options_validation", "sdk.options"),
    "pipeline": ("sdk.pipeline", "sdk.applied", "beam.overrides"),
    "portability.api.schema_pb2": ("beam.typehints.schema_messages",),
    "portability.common_urns": ("beam.sdk.urns",),
    "runners": ("sdk.runner", "runners", "beam.runners.named_runners"),
    "runners.dataflow": ("beam.runners.named_runners",),
    "runners.dataflow.dataflow_runner": ("beam.runners.named_runners", "beam.runners.job_results"),
    "runners.dataflow.test_dataflow_runner": ("beam.runners.named_runners",),
    "runners.interactive.interactive_beam": ("beam.runners.interactive_beam",),
    "runners.interactive.interactive_runner": ("beam.runners.named_runners", "runners"),
    "runners.portability": ("beam.runners.named_runners",),
    "runners.portability.flink_runner": ("beam.runners.named_runners",),
    "runners.portability.portable_runner": ("beam.runners.named_runners",),
    "runners.portability.prism_runner": ("beam.runners.named_runners",),
    "runners.portability.spark_runner": ("beam.runners.named_runners",),
    "runners.test": ("beam.runners.named_runners",),
    "testing": ("testing",),
    "testing.extra_assertions": ("beam.sdk.extra_assertions",),
    "testing.metric_result_matchers": ("beam.sdk.metric_results",),
    "testing.pipeline_verifiers": ("beam.io.run_results",),
    "testing.test_pipeline": ("testing",),
    "testing.test_stream": ("testing", "testing.stream_events"),
    "testing.test_utils": ("beam.io.test_utils",),
    "testing.util": ("testing.util",),
    "transforms": ("transforms", "sdk.ptransform"),
    "transforms.async_dofn": ("transforms.async_dofn",),
    "transforms.enrichment": (
        "transforms.enrichment",
        "transforms.services.request_response",
        "transforms.services.response_caches",
    ),
    "transforms.combiners": ("transforms.combiners", "transforms"),
    "transforms.deduplicate": ("transforms.deduplicate",),
    "transforms.display": ("beam.sdk.display",),
    "transforms.display_test": ("beam.sdk.display_items",),
    "transforms.error_handling": ("transforms.error_handling", "transforms.par_do.pardo"),
    "transforms.managed": ("beam.io.managed",),
    "transforms.resources": ("beam.sdk.resources",),
    "transforms.sql": ("transforms.sql",),
    "transforms.stats": ("transforms.stats",),
    "typehints": ("sdk.typehints", *_TYPEHINTS),
    "typehints.decorators": ("sdk.typehints", *_TYPEHINTS),
    "typehints.native_type_compatibility": ("beam.typehints.native_types",),
    "typehints.row_type": ("beam.typehints.row_type",),
    "typehints.schema_registry": ("beam.typehints.row_type",),
    "typehints.schemas": ("beam.typehints.schemas",),
    "typehints.pandas_type_compatibility": ("beam.typehints.pandas_types",),
    "typehints.sharded_key_type": ("beam.typehints.sharded_key_type",),
    "typehints.testing.strategies": ("beam.sdk.strategies",),
    "typehints.trivial_inference": ("beam.typehints.trivial_inference",),
    "typehints.typehints": ("sdk.typehints", *_TYPEHINTS),
    "utils.annotations": ("beam.sdk.annotations",),
    "utils.processes": ("beam.sdk.processes",),
}
MODULES.update(_MODULES_OF_BEAM)
MODULES["transforms.core"] += ("beam.sdk.windowing",)

RENAMED.update(
    {
        # Beam's sink has writers; that of `penstock.io` has two-phase commit.
        ("io", "Sink"): "SinkOfWriters",
        ("error", "BeamError"): "PenstockError",
        ("options.pipeline_options", "_BeamArgumentParser"): "OptionsParser",
        ("testing.util", "BeamAssertException"): "PenstockAssertionError",
        ("metrics.cells", "_BoundedTrieNode"): "BoundedTrieNode",
        ("runners", "PipelineRunner"): "Runner",
        ("runners.runner", "PipelineRunner"): "Runner",
    }
)

# Rows, where penstock gives dicts, and single names of modules whose other names penstock doesn't have.
APART.update(
    {("io", name): "dataframe.row_files" for name in ("ReadFromCsv", "ReadFromJson", "WriteToCsv", "WriteToJson")}
)
# With Beam's parameters.
APART[("io", "WriteToBigQuery")] = "beam.io.gcp.bigquery"

# The latest Beam whose names are listed.
BEAM_VERSION: Final = "2.77.0"


@foreign_public_names.provided_by
def _public_names(path: str) -> list[str]:
    """Return the public names of a module of Beam that penstock doesn't have."""
    return sorted(name for name in names_of_beam().get(path, ()) if not name.startswith("_"))


@foreign_name.provided_by
def name_of_beam(path: str, name: str) -> Any:
    """Return the module of Beam below `path`, the name that `path` has from another module, or what stands for it.

    Raises `AttributeError` for a name that Beam doesn't have.
    """
    if name == "__version__":
        # Programs log it, or compare it with the version that they need.
        return BEAM_VERSION
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
    found = of_modules(origin, name) if origin != path else None
    if found is not None:
        return found
    return _service_transform(f"{origin}.{name}") or absent(f"{origin}.{name}")


def _service_transform(path: str) -> Any:
    """Return the read or write of a service at a path of Beam, or None."""
    if not path.startswith("io."):
        return None
    return import_module(f"{__package__}.io.service_transforms").service_transform(path)
