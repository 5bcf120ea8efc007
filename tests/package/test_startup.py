"""Importing penstock is quick: what only some pipelines need is imported by those."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ["click", "datasketches", "fastavro", "numpy", "pandas", "pyarrow", "pyspark", "rich", "zstandard"]


def test_importing_penstock_imports_none_of_the_heavy_packages() -> None:
    """In an interpreter of its own, which has imported nothing before."""
    code = f"import sys, penstock; print([name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "[]" == ran.stdout.strip()
