"""Pipelines as data, which runners execute.

Building pipelines:

pipeline.py            Pipeline: a graph of transforms under construction
applied/               AppliedPTransform: a transform in its place; its types and retractions
pvalue.py              PCollection, and other inputs and outputs of transforms
ptransform.py          PTransform: a step, primitive or composed
graph.py               the six primitives, and the graph as frozen data
windowing_strategy.py  windows, trigger and accumulation of a PCollection
drawing/               the graph as a picture
claims.py              what only one transform of a pipeline can use, such as a client id
runs/                  runs of a part of a pipeline, or of one transform: `[1, 2, 3] | transform`, previews
static_types.py        types for type checkers: what `|` can be applied to, and functions of elements
static_results.py      types for type checkers: what generic transforms make of the left operand of `|`, and labels
type_variables.py      type variables of generic classes

Users' code:

dofn/                  DoFn, its parameters, and the kinds of DoFns: stateful, splittable, batched
combine_fn.py          CombineFn: an aggregation computed in parts; those of sum, min, max, count, any, all
side_inputs.py         AsList, AsDict and the like
side_input_views.py    the views that they build of a window
userstate/             states and timers
typehints/             element types, checked when the pipeline is built
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
redaction.py           redaction of secrets
runner.py              Runner, PipelineResult, and finding runners by name
process/               what a process has once: shared objects, settings, the name of its task
errors.py              penstock's errors
extras.py              the extras: what each is for, and what it installs
names/                 names that are imported when they are used, are at Beam's paths, or are added by packages
adapters.py            objects of other libraries as sources, sinks, type hints and options
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
    from .runs.run_on_values import apply_to_operand

    return apply_to_operand(operand, transform)


@previews
def _preview() -> Any:
    """`pcoll.show()` and the like."""
    from .runs import preview

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
