"""Penstock: the Dataflow Model in Python.

A pipeline is written once, and runs in this process, or on Spark:

>>> import penstock as beam
>>> with beam.Pipeline() as p:
...     words = p | beam.Create(["to be", "or not to be"]) | beam.FlatMap(str.split)
...     _ = words | beam.combiners.Count.PerElement() | beam.Map(print)
('to', 2)
('be', 2)
('or', 1)
('not', 1)

The names are Apache Beam's where Beam has a name for the thing.

windowing/    where in event time: timestamps, windows, window functions
triggers/     when in processing time: triggers, panes, accumulation
sdk/          what is computed: pipelines, DoFns, combiners, coders, options
transforms/   the library of transforms
io/           sources and sinks
testing/      TestPipeline, assert_that
runners/      local and Spark
"""

from . import io, runners, testing, transforms, triggers, windowing
from .io import Read, Write
from .sdk import compat, metrics, options, typehints
from .sdk.coders import RowCoder
from .sdk.combine_fn import CombineFn
from .sdk.dofn import DoFn
from .sdk.pipeline import Pipeline, PipelineVisitor
from .sdk.ptransform import PTransform, ptransform_fn
from .sdk.pvalue import PCollection
from .sdk.row import Row
from .sdk.tagged_output import TaggedOutput
from .transforms import *  # noqa: F403 (everything that Beam has at its root; transforms/__init__.py lists it)
from .transforms import combiners

# Beam's namespaces: `beam.window.FixedWindows`, `beam.pvalue.AsList`, `beam.utils.timestamp`.
coders = compat.namespace("coders")
pvalue = compat.namespace("pvalue")
trigger = triggers
utils = compat.namespace("utils")
window = compat.namespace("transforms.window")
for _name in ("core", "ptransform", "sideinputs", "trigger", "util", "window"):
    setattr(transforms, _name, compat.namespace(f"transforms.{_name}"))

__version__ = "0.1.0"
