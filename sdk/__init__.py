"""Pipelines as data, which runners execute.

Building pipelines:

pipeline.py            Pipeline: a graph of transforms under construction
pvalue.py              PCollection, and other inputs and outputs of transforms
ptransform.py          PTransform: a step, primitive or composed
run_on_values.py       `[1, 2, 3] | transform`
graph.py               the six primitives, and the graph as frozen data
drawing/               the graph as a picture

Users' code:

dofn.py                DoFn, and the markers of its parameters
dofn_signature.py      the arguments of a user's function
dofn_hints.py          the types of a DoFn's elements
stateful_dofn.py       the states and timers of a DoFn
combine_fn.py          CombineFn: an aggregation computed in parts; those of sum, min, max, count, any, all
side_inputs.py         AsList, AsDict and the like
side_input_views.py    the views that they build of a window
element_wrappers.py    WindowedValue, TaggedOutput, Retracted: wrappers of outputs
typehints/             element types, checked when the pipeline is built
row.py                 Row: a record with named fields
coders/                values as bytes; keys as bytes that are always the same
shared.py              one object for all DoFns of a process

Elements:

bundle.py              many elements, as columns
windowing_strategy.py  windows, trigger and accumulation of a PCollection

Elements as columns of Arrow:

column_groups.py       the groups of a grouping as columns of lists
column_bundle.py       ColumnBundle: a bundle whose values are a record batch
column_groups.py       the groups of a grouping as columns of lists
columns.py             `col`: expressions over fields, and operations on whole bundles
arrow_arithmetic.py    `/`, `//` and `%` of arrays, as Python computes them
arrow_fold.py          the folds of combiners by Arrow's aggregate functions
arrow_lists.py         the folds of columns to lists: distinct values, and the n greatest
batched_dofn.py        DoFns that take and yield batches
batch_bundle.py        a bundle whose values are such a batch

Interfaces of runners:

sources/               bounded and unbounded sources, and splittable DoFns
sink.py                sinks, with two-phase commit
digest.py              digests of values, equal in every process
spark_interfaces.py    DataFrames of Spark, as sources and as a sink
watermark_estimators/  watermarks of sources
remainder.py           the unfinished work on an element
serialization.py       pickling of user code
pickler.py             the pickler of classes with typed fields
equal_copies.py        values that equal their copies from a shuffle
mixed_hash.py          a hash that is the same in every process
options/               options of a run
metrics.py             counters, distributions and gauges
own_code.py            recognition of penstock's own frames
signatures.py          cached signatures of functions
error_text.py          short texts of users' exceptions
redaction.py           redaction of secrets
runner.py              Runner, PipelineResult, and finding runners by name
errors.py              penstock's errors
compat.py              Beam's module paths
"""

# Registers what `[1, 2, 3] | transform` does.
from . import run_on_values as run_on_values
