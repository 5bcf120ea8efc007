"""The template process of workers and the fork server of killed processes, with modules that tests need in these.

Tests start hundreds of both.  Each takes over pytest's handler of logs, and those of columns and tables import Arrow or
a client of Iceberg, for half a second, again and again.  Forked from a process that has the modules, they don't.  What
the workers of a program import is shown by tests that start programs.
"""

from __future__ import annotations

import importlib
import multiprocessing.forkserver
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import NoReturn

import pytest

MODULES = ("_pytest.logging", "pyarrow.dataset", "pyarrow.parquet", "pyiceberg.io.pyarrow", "pyiceberg.catalog.sql")

# A fork has no threads: these let NumPy and Arrow start none when they are imported.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def serve(module: str, program: int, requests: int) -> NoReturn:
    """Be the template process, with the modules; see `penstock.runners.local.worker_template`."""
    from penstock.runners.local import worker_template

    for name in MODULES:
        # Of an extra that isn't installed.
        with suppress(ImportError):
            importlib.import_module(name)
    worker_template.serve(module, program, requests)


def use_for_workers(patch: pytest.MonkeyPatch) -> None:
    """Let template processes that start from now on have the modules."""
    from penstock.runners.local.workers import template
    from penstock.runners.local.workers.interpreter import start_interpreter

    def start(function: str, descriptors: Sequence[int], named: str = "") -> Popen[bytes]:
        with _environment():
            return start_interpreter(f"{__name__}:serve", descriptors, named)

    patch.setattr(template, "start_interpreter", start)


def start_fork_server() -> None:
    """Start the process that `KilledProcess` forks, with the modules, unless it runs."""
    modules = ["__main__", "penstock.runners.local", "penstock.io", "penstock.testing.killed_process", *MODULES]
    multiprocessing.forkserver.set_forkserver_preload(modules)
    with _environment():
        multiprocessing.forkserver.ensure_running()


@contextmanager
def _environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield
