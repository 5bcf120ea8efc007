"""Testing pipelines.

test_pipeline.py   TestPipeline: a pipeline that runs when its `with` block ends
scripted_source.py ScriptedSource: a replayable unbounded source with given elements
test_stream.py     TestStream: scripted elements, watermarks and times
simulating.py      simulate_pipeline: a pipeline under seeds, with simulated failures
util.py            assert_that, and its matchers
panes.py           TestPane: a value with its window, pane info and sign
"""

from .panes import TestPane
from .scripted_source import ScriptedSource
from .simulating import simulate_pipeline
from .test_pipeline import TestPipeline
from .test_stream import TestStream
from .util import (
    TestWindowedValue,
    assert_that,
    contains_in_any_order,
    equal_to,
    equal_to_approx,
    equal_to_panes,
    equal_to_per_window,
    has_at_least_one,
    is_empty,
    is_not_empty,
    matches_all,
)

__all__ = [
    "ScriptedSource",
    "simulate_pipeline",
    "TestPane",
    "TestPipeline",
    "TestStream",
    "TestWindowedValue",
    "assert_that",
    "contains_in_any_order",
    "equal_to",
    "equal_to_approx",
    "equal_to_panes",
    "equal_to_per_window",
    "has_at_least_one",
    "is_empty",
    "is_not_empty",
    "matches_all",
]
