"""The command `python benchmarks`."""

from __future__ import annotations

import pathlib
import runpy
import subprocess
import sys

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def test_every_benchmark_has_a_module_that_runs_it() -> None:
    """In a process of its own, since modules of Spark set up pickling."""
    command = runpy.run_path(str(BENCHMARKS / "__main__.py"))
    modules = {
        **dict.fromkeys(command["BENCHMARKS"].values(), "run"),
        **dict.fromkeys(command["COMMANDS"].values(), "main"),
    }
    code = f"import importlib\nfor module, name in {modules!r}.items(): getattr(importlib.import_module(module), name)"

    ran = subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)


def test_an_unknown_benchmark_is_refused_by_name() -> None:
    """Before any other runs."""
    ran = subprocess.run([sys.executable, BENCHMARKS, "startup", "none"], capture_output=True, text=True, check=False)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert ran.stderr.startswith("unknown: none; there are chain, word_count, ")


def test_a_file_of_results_needs_a_name() -> None:
    """Before anything runs."""
    ran = subprocess.run(
        [sys.executable, BENCHMARKS, "startup", "--results"], capture_output=True, text=True, check=False
    )

    assert (2, "--results: expected a file behind it\n") == (ran.returncode, ran.stderr)
