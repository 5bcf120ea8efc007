"""Pipelines as data, which runners execute.

Building pipelines:

pipeline.py            Pipeline: a graph of transforms under construction
applied/               AppliedPTransform: a transform in its place; its types and retractions
pvalue.py              PCollection, and other inputs and outputs of transforms
ptransform.py          PTransform: a step, primitive or composed
run_on_values.py       `[1, 2, 3] | transform`
graph.py               the six primitives, and the graph as frozen data
windowing_strategy.py  windows, trigger and accumulation of a PCollection
drawing/               the graph as a picture
claims.py              what only one transform of a pipeline can use, such as a client id
preview.py             the elements of a PCollection in the program
static_types.py        types for type checkers: what `|` can be applied to, and functions of elements
static_results.py      types for type checkers: what generic transforms make of the left operand of `|`, and labels
type_variables.py      type variables of generic classes
run_transform.py       runners that run a transform without a pipeline

Users' code:

dofn/                  DoFn, its parameters, and the kinds of DoFns: stateful, splittable, batched
combine_fn.py          CombineFn: an aggregation computed in parts; those of sum, min, max, count, any, all
side_inputs.py         AsList, AsDict and the like
side_input_views.py    the views that they build of a window
userstate/             states and timers
typehints/             element types, checked when the pipeline is built
shared.py              one object for all DoFns of a process
user_code/             pickling, signatures and error texts of users' functions

Elements:

elements/              bundles, Row, and the wrappers of outputs
columns/               elements as columns of Arrow, and expressions over them
coders/                values as bytes; keys as bytes that are always the same

Interfaces of runners:

sources/               bounded and unbounded sources, and splittable DoFns as sources
watermark_estimators/  watermarks of sources
sink.py                sinks, with two-phase commit, and the contexts of their calls
transaction_series.py  order of the transactions of one run
spark_interfaces.py    DataFrames of Spark, as sources and as a sink
options/               options of a run
metrics/               counters, distributions and gauges
impersonation.py       the service account of Google Cloud that clients act as
carried_settings.py    settings of a process that worker processes have, too
redaction.py           redaction of secrets
runner.py              Runner, PipelineResult, and finding runners by name
errors.py              penstock's errors
extras.py              the extras: what each is for, and what it installs
lazy_imports.py        names of a package whose modules are imported when the names are used
namespaces.py          modules of names, at Beam's paths: `penstock.window`
foreign_programs.py    programs that import another SDK
extensions.py          packages that add names, converters and methods to the core
adapters.py            objects of other libraries as sources, sinks, type hints and options
hash_partitions.py     records on disk, which are read one partition of their hash after the other
retry.py               retries of calls that fail for a while, with growing delays (Beam's `utils.retry`)
task_name.py           the name of the running task, from which DoFns derive keys of their own
working_directory.py   absolute forms of relative paths
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..persistence import lazily_stored
from .ptransform import applies_to_operands
from .pvalue import previews

if TYPE_CHECKING:
    from .ptransform import PTransform

# These modules build pipelines, so they are above what calls them: registered here, and imported when they are used.


@applies_to_operands
def _apply_to_operand(operand: Any, transform: PTransform) -> Any:
    """`[1, 2, 3] | transform`."""
    from .run_on_values import apply_to_operand

    return apply_to_operand(operand, transform)


@previews
def _preview() -> Any:
    """`pcoll.show()` and the like."""
    from . import preview

    return preview


# By tag, the modules with stored types that `import penstock` doesn't import.
lazily_stored(
    __name__,
    {
        "collected-columns": "columns.column_groups",
        "lists-of-columns": "columns.column_groups",
        "tagged-columns": "columns.column_groups",
        "offset-range": "dofn.offset_range",
        "frame-block": "spark_interfaces",
    },
)
