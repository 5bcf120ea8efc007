"""Testing pipelines.

test_pipeline.py   TestPipeline: a pipeline that runs when its `with` block ends
scripted_source.py ScriptedSource: a replayable unbounded source with given elements
test_stream.py     TestStream: scripted elements, watermarks and times
stream_events.py   ElementEvent and the other events of Beam, of which a TestStream can be made
simulating.py      simulate_pipeline: a pipeline under seeds, with simulated failures
sink_suite.py      SinkSuite: the conformance suite of sinks, and
killed_sink.py       KilledSink: a sink whose process is killed in a phase of its two-phase commit
gated_source.py      GatedSource: numbers that a test lets through
source_suite.py    SourceSuite: the conformance suite of sources, and
killed_process.py    KilledProcess: a process of a test, which is killed
util.py            assert_that, and its matchers
panes.py           TestPane: a value with its window, pane info and sign
collecting_sink.py CollectingSink: elements in a directory, for tests that kill processes
runner_suite.py    RunnerSuite: the tests that every runner passes
pytest_plugin.py   plugin for pytest: simulated pipelines, and short tracebacks
"""

from typing import TYPE_CHECKING

from ..sdk.names.lazy_imports import lazy_names

if TYPE_CHECKING:
    from .panes import TestPane
    from .scripted_source import ScriptedSource
    from .simulating import simulate_pipeline
    from .sink_suite import SinkSuite
    from .source_suite import SourceSuite
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

# By name, the module that is imported when the name is used.
_LAZY = {
    "TestPane": "panes",
    "ScriptedSource": "scripted_source",
    "simulate_pipeline": "simulating",
    "SinkSuite": "sink_suite",
    "SourceSuite": "source_suite",
    "TestPipeline": "test_pipeline",
    "TestStream": "test_stream",
    "TestWindowedValue": "util",
    "assert_that": "util",
    "contains_in_any_order": "util",
    "equal_to": "util",
    "equal_to_approx": "util",
    "equal_to_panes": "util",
    "equal_to_per_window": "util",
    "has_at_least_one": "util",
    "is_empty": "util",
    "is_not_empty": "util",
    "matches_all": "util",
}

__all__ = [
    "ScriptedSource",
    "simulate_pipeline",
    "SinkSuite",
    "SourceSuite",
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

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
