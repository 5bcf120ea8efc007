"""What is computed, as data that runners read.

Putting pipelines together:

pipeline.py            Pipeline: a graph of transforms under construction
pvalue.py              PCollection, and what else stands between transforms
ptransform.py          PTransform: a step, primitive or composed
run_on_values.py       `[1, 2, 3] | transform`
graph.py               the six primitives, and the graph as frozen data
drawing/               the graph as a picture

What users write:

dofn.py                DoFn, and what its methods may ask for
dofn_signature.py      which parameter of a user's function gets what
dofn_hints.py          the types of a DoFn's elements
stateful_dofn.py       which states and timers a DoFn uses
combine_fn.py          CombineFn: an aggregation computed in parts; those of sum, min, max, count, any, all
side_inputs.py         AsList, AsDict and the like
side_input_views.py    the views that they build of a window
element_wrappers.py    WindowedValue, TaggedOutput, Retracted: wrappers of outputs
typehints/             element types, checked when the pipeline is built
row.py                 Row: a record with named fields
coders/                values as bytes; keys as bytes that are always the same
shared.py              one object for all DoFns of a process

Elements:

bundle.py              many, as columns
windowing_strategy.py  how a PCollection is windowed and triggered

What runners are given:

sources/               bounded and unbounded sources, and splittable DoFns
sink.py                where elements go to
digest.py              values as a few letters that are always the same
spark_interfaces.py    DataFrames of Spark, as sources and as a sink
watermark_estimators/  where a watermark comes from
serialization.py       what users wrote, pickled
options/               how it is to be run
metrics.py             what is counted
own_code.py            which frames of a traceback are ours
runner.py              Runner, PipelineResult, and finding runners by name
errors.py              every error of our own
compat.py              Beam's module paths
"""

# Registers what `[1, 2, 3] | transform` does.
from . import run_on_values as run_on_values
