"""Groupings for tests of the operators that execute them."""

from __future__ import annotations

from typing import Any

import penstock as beam
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk import graph


def grouping_of(transform: beam.PTransform, window_fn: Any = None, **windowing: Any) -> graph.Transform:
    """Return the GroupByKeyAndWindow that a transform of windowed pairs expands to."""
    p = beam.Pipeline()
    pairs = p | beam.Create([("a", 1)])
    if window_fn is not None:
        pairs = pairs | beam.WindowInto(window_fn, **windowing)
    pairs | transform
    (found,) = (t for t in p.graph().transforms if isinstance(t.primitive, graph.GroupByKeyAndWindow))
    return found


def fold_of(transform: beam.PTransform, window_fn: Any = None, **windowing: Any) -> Fold:
    """Return the fold of a grouping, set up."""
    fold = Fold(grouping_of(transform, window_fn, **windowing))
    fold.setup()
    return fold
