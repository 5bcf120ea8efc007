"""Registrations: what this extension gives to the core, of modules that are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..dataframe.pandas_rows import rows_of_pandas
from ..persistence import lazily_stored
from ..sdk.applied import AppliedPTransform
from ..sdk.coders import row
from ..sdk.names import foreign_programs
from ..sdk.names.extensions import ExtensionPoint, add_names
from ..sdk.options.pipeline_options import PipelineOptions, have_fixed_flags
from ..sdk.pipeline import Pipeline
from ..sdk.ptransform import PTransform
from ..sdk.runner import PipelineResult, foreign_runner
from ..sdk.typehints import forms
from . import applied_transforms, options, overrides, portable_options
from . import modules as modules
from .runners import job_results

_PACKAGE = __name__.rpartition(".")[0]


def _function(path: str) -> Callable[..., Any]:
    """Return a function that imports the function at `module.name` when it is called."""
    module, _, name = path.rpartition(".")

    def imported(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"{_PACKAGE}.{module}"), name)(*args, **kwargs)

    imported.__name__ = name
    return imported


_POINTS: tuple[tuple[ExtensionPoint[Any, Any], str], ...] = (
    (foreign_programs.install_import_hook, "import_hook.install_import_hook"),
    (foreign_programs.missing_in, "check.missing_of_beam"),
    (foreign_programs.template_arguments, "template_metadata.template_arguments"),
    (forms.constraint_form, "typehints.native_types.convert_to_beam_type"),
    (forms.windowed_form, "typehints.subscripts.WindowedTypeConstraint"),
    (forms.check_value, "typehints.constraints.check_constraint"),
    (forms.io_hints, "typehints.io_type_hints.hints_of_types"),
    (forms.io_hints_of_declarations, "typehints.io_type_hints.get_type_hints"),
    (forms.io_hints_of_results, "typehints.io_type_hints.hints_of_elements"),
    (forms.io_hints_of_built_in, "typehints.io_type_hints.hints_of_built_in"),
    (row.fields_of_schema, "typehints.row_coders.fields_of"),
    (row.schema_of_rows, "typehints.schemas.schema_from_element_type"),
    (rows_of_pandas, "dataframe_schemas.UnbatchPandas"),
    (foreign_runner, "runners.named_runners.runner_of_beam"),
)
for _point, _path in _POINTS:
    _point.provided_by(_function(_path))

have_fixed_flags(options.__name__)
lazily_stored(_PACKAGE, {"generated-row": "typehints.row_type", "unbounded-part": "io.unbounded_source"})
add_names(f"{_PACKAGE.rpartition('.')[0]}.io", {"FileBasedSink": f"{_PACKAGE}.io.file_based_sink"})

# By class of the core, the methods and properties that only Beam has.
_METHODS: dict[type[Any], dict[str, Any]] = {
    PTransform: {
        "with_resource_hints": applied_transforms.with_resource_hints,
        "get_resource_hints": applied_transforms.get_resource_hints,
        "annotations": applied_transforms.annotations_of_transform,
    },
    AppliedPTransform: {
        "annotations": property(applied_transforms.annotations_of_applied),
        "resource_hints": property(applied_transforms.resource_hints),
    },
    Pipeline: {
        "replace_all": overrides.replace_all,
        "transform_annotations": applied_transforms.transform_annotations,
    },
    PipelineResult: {
        "job_id": job_results.job_id,
        "has_job": property(job_results.has_job),
        "is_in_terminal_state": job_results.is_in_terminal_state,
        "api_jobstate": job_results.api_jobstate,
        "get": job_results.get,
    },
    PipelineOptions: {
        "to_runner_api": portable_options.to_runner_api,
        "from_runner_api": classmethod(portable_options.from_runner_api),
        "is_compat_version_prior_to": portable_options.is_compat_version_prior_to,
    },
}
for _class, _methods in _METHODS.items():
    for _name, _method in _methods.items():
        setattr(_class, _name, _method)
