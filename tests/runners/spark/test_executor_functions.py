"""Executors whose environment isn't the driver's: the check, without a cluster."""

from __future__ import annotations

import pickle

import pytest

import penstock
from penstock.runners.spark.executor_functions import ExecutorFunction, environment_error

cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def test_the_check_is_the_first_thing_to_be_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentence is raised, although the class has state that could not be unpickled there."""
    from penstock.runners.spark.micro_batch.spark_job import _GroupFunction

    pickled = cloudpickle.dumps(_GroupFunction([len]))
    assert isinstance(pickle.loads(pickled), ExecutorFunction)
    monkeypatch.setattr(penstock, "__version__", "9.9.9")
    with pytest.raises(RuntimeError) as error:
        pickle.loads(pickled.replace(b"builtins", b"missing1"))
    told = environment_error(f"Job aborted: RuntimeError: {error.value}\n  at Some.class")
    assert told is not None
    assert str(told).startswith("penstock 9.9.9 is on the executor ")


def test_another_python_is_named_with_both_versions() -> None:
    """As PySpark finds it, before any of penstock's code runs."""
    text = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark "
        "cannot run with different minor versions."
    )
    assert str(environment_error(text)).startswith("The executors' Python is 3.12, and the driver's is 3.11; expected")


def test_a_module_that_executors_lack_is_named_with_the_ways() -> None:
    """Not as penstock's, however it is called."""
    error = environment_error("ModuleNotFoundError: No module named 'penstock_extras.more'")
    assert "The executors can't import 'penstock_extras.more'" in str(error)
    assert "--pickle_by_value=penstock_extras" in str(error)


def test_other_errors_are_left_alone() -> None:
    """Such as those of the user's functions."""
    assert None is environment_error("ValueError: No module")
