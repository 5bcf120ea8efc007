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

Names are Apache Beam's, if Beam has one.

frozen.py     frozen classes of fields
persistence/  tags and versions of types that are stored
windowing/    event time: timestamps, windows, window functions
triggers/     emission of results: triggers, panes, accumulation
sdk/          pipelines, DoFns, combiners, coders, options
transforms/   the library of transforms
io/           sources and sinks
testing/      TestPipeline, assert_that
runners/      local and Spark
options/, utils/, coders.py, metrics.py, pvalue.py, trigger.py, typehints.py, window.py
              names at Beam's paths, for type checkers
beam/         programs for Beam: its names, import hook, classes and formats; imported when it is needed
"""

from typing import TYPE_CHECKING, Any

# `as` tells type checkers that a name is exported.
from . import io as io
from . import runners as runners
from . import testing as testing
from . import transforms as transforms
from . import triggers as triggers
from . import windowing as windowing
from .sdk.applied import PipelineVisitor as PipelineVisitor
from .sdk.coders import RowCoder as RowCoder
from .sdk.columns.expressions import Column as Column
from .sdk.columns.expressions import col as col
from .sdk.combine_fn import CombineFn as CombineFn
from .sdk.dofn.dofn import DoFn as DoFn
from .sdk.dofn.splittable_dofn import RestrictionProvider as RestrictionProvider
from .sdk.elements.element_wrappers import Retracted as Retracted
from .sdk.elements.element_wrappers import TaggedOutput as TaggedOutput
from .sdk.elements.row import Row as Row
from .sdk.names import extensions as _extensions
from .sdk.names import namespaces as _namespaces
from .sdk.pipeline import Pipeline as Pipeline
from .sdk.ptransform import PTransform as PTransform
from .sdk.ptransform import ptransform_fn as ptransform_fn
from .sdk.pvalue import PCollection as PCollection
from .sdk.runs.preview import collect as collect
from .sdk.userstate import TimeDomain as TimeDomain
from .sdk.watermark_estimators import WatermarkEstimatorProvider as WatermarkEstimatorProvider

# Everything that Beam has at its root; transforms/__init__.py lists it.
from .transforms import *  # noqa: F403

# Namespaces, which can be imported too: `beam.window.FixedWindows`, `beam.pvalue.AsList`, `beam.utils.timestamp`.
trigger = triggers
if TYPE_CHECKING:
    from . import coders as coders
    from . import metrics as metrics
    from . import options as options
    from . import pvalue as pvalue
    from . import typehints as typehints
    from . import utils as utils
    from . import window as window
else:
    from .sdk import metrics as metrics
    from .sdk import options as options
    from .sdk import typehints as typehints

    window = windowing
# Set below; type checkers know them from here.
if TYPE_CHECKING:
    from .transforms import core as core
    from .transforms import ptransform as ptransform
    from .transforms import userstate as userstate
    from .transforms import util as util
sideinputs: Any
timeutil: Any
_namespaces.publish()
_namespaces.add_to("", globals())
for _module in (io, runners, testing, transforms):
    _namespaces.add_to(_module.__name__.partition(".")[2], vars(_module))

# What is imported when something is looked for that the packages below don't have.
_extensions.declare(f"{__name__}.beam")

__version__ = "0.2.0"

# What `help(penstock)` and `dir(penstock)` show.  Names of Beam that are accepted besides, such as `beam.core`, aren't.
__all__ = [
    "CombineFn",
    "Column",
    "DoFn",
    "PCollection",
    "PTransform",
    "Pipeline",
    "PipelineVisitor",
    "RestrictionProvider",
    "Retracted",
    "Row",
    "RowCoder",
    "TaggedOutput",
    "TimeDomain",
    "WatermarkEstimatorProvider",
    "col",
    "collect",
    "ptransform_fn",
    # Modules of names.
    "coders",
    "io",
    "metrics",
    "options",
    "pvalue",
    "runners",
    "testing",
    "transforms",
    "trigger",
    "typehints",
    "window",
]
__all__ += transforms.__all__


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
