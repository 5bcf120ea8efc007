"""Recognition of penstock's own code, whose frames are left out of users' tracebacks."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent.parent

# Modules of the package that take the place of user code.
_USERS = tuple(str(_PACKAGE / name) for name in ("examples", "tests", "benchmarks", ".venv"))

_OWN = f"{_PACKAGE}{os.sep}", "<penstock "


def is_ours(file: str) -> bool:
    """Return whether the code of a file, or generated code of this name, is penstock's.

    >>> is_ours(__file__), is_ours("<penstock stage Map>"), is_ours("pipeline.py")
    (True, True, False)
    """
    return file.startswith(_OWN) and not file.startswith(_USERS)
