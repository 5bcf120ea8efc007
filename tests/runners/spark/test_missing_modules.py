"""Modules that the driver has, and the executors don't."""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import RunnerError
from penstock.testing import TestPipeline


@pytest.mark.parametrize("kind", ["SparkBatchRunner", "SparkMicroBatchRunner"])
def test_an_executor_that_lacks_a_module_names_the_ways_to_give_it(
    spark: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A library, which isn't beside the program, is imported there."""
    from penstock.runners import spark as runners

    name = f"library_of_{kind.lower()}"
    (tmp_path / f"{name}.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = importlib.import_module(name)
    # `syspath_prepend` has made it the program's folder.
    monkeypatch.setattr("sys.path", [*importlib.sys.path[1:], str(tmp_path)])  # type: ignore[attr-defined]
    p = TestPipeline(getattr(runners, kind)(spark_session=spark))
    _ = p | beam.Create([1]) | beam.Map(library.twice)
    message = f"executors can't import '{name}', which the driver can. .* by value with --pickle_by_value={name}"
    with pytest.raises(RunnerError, match=message):
        p.run().wait_until_finish()
