"""Functions that executors run, with a check that the executor has the penstock of the driver.

An executor without penstock, or with another version, fails before it unpickles anything else of penstock's, with a
sentence that the driver raises.  The check itself is pickled by value, since the executor may not have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ... import __version__
from ...sdk.errors import RunnerError

# In the text of a failed job, the sentence of an executor.
_SENTENCE = re.compile(r"penstock-executor: (.*?) \[end\]", re.DOTALL)
_NO_PENSTOCK = re.compile(r"ModuleNotFoundError: No module named 'penstock'")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OTHER_PYTHON = re.compile(r"Python in worker has different version:? ([\d.]+) than that in driver:? ([\d.]+)")
_WAYS = "Install it in the executors' Python, or ship it with --py-files or --archives: see docs/deploy/"


def _made(driver: str, module: str, name: str) -> Any:
    """Return an instance of a class, without its state, on an executor with the driver's version of penstock."""
    import importlib
    import socket
    import sys

    import penstock

    if penstock.__version__ != driver:
        raise RuntimeError(
            f"penstock-executor: penstock {penstock.__version__} is on the executor {socket.gethostname()}, in "
            f"{sys.executable}, and penstock {driver} on the driver; expected the same version [end]"
        )
    kind = getattr(importlib.import_module(module), name)
    return kind.__new__(kind)


# A function of the main module is pickled by value.
_made.__module__ = "__main__"


class ExecutorFunction:
    """A function that is pickled with the version of penstock; it is the first to be unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str, str], dict[str, Any]]:
        kind = type(self)
        return _made, (__version__, kind.__module__, kind.__qualname__), dict(self.__dict__)


def environment_error(text: str) -> RunnerError | None:
    """Return the error of an executor whose Python or penstock differs from the driver's.

    Args:
      text: the text of a failed job.

    >>> print(environment_error("ModuleNotFoundError: No module named 'penstock'"))
    The executors' Python has no penstock. Install it in the executors' Python, or ship it with --py-files or \
--archives: see docs/deploy/
    """
    if found := _SENTENCE.search(text):
        return RunnerError(f"{found[1]}. {_WAYS}")
    if _NO_PENSTOCK.search(text):
        return RunnerError(f"The executors' Python has no penstock. {_WAYS}")
    if found := _NO_MODULE.search(text):
        name = found[1].partition(".")[0]
        return RunnerError(
            f"The executors can't import {found[1]!r}, which the driver can. Install it in the executors' Python, ship "
            f"it with --py-files or --archives, or send it by value with --pickle_by_value={name}: see docs/deploy/"
        )
    if found := _OTHER_PYTHON.search(text):
        return RunnerError(
            f"The executors' Python is {found[1]}, and the driver's is {found[2]}; expected the same version. Name "
            "another interpreter of the executors by PYSPARK_PYTHON, or ship an environment with --archives: see "
            "docs/deploy/"
        )
    return None
