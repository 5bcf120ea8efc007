"""Groupings for tests of what executes them."""

from __future__ import annotations

from typing import Any

import penstock as beam
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk import graph


def grouping_of(transform: beam.PTransform, window_fn: Any = None, **windowing: Any) -> graph.Transform:
    """The GroupByKeyAndWindow that a transform of pairs, windowed like this, comes down to."""
    p = beam.Pipeline()
    pairs = p | beam.Create([("a", 1)])
    if window_fn is not None:
        pairs = pairs | beam.WindowInto(window_fn, **windowing)
    pairs | transform
    (found,) = (t for t in p.graph().transforms if isinstance(t.primitive, graph.GroupByKeyAndWindow))
    return found


def fold_of(transform: beam.PTransform, window_fn: Any = None, **windowing: Any) -> Fold:
    """The fold of it, set up."""
    fold = Fold(grouping_of(transform, window_fn, **windowing))
    fold.setup()
    return fold
