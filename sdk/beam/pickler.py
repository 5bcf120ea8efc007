"""Beam's functions that pickle objects: functions and the classes of the main program by value.

>>> loads(dumps(lambda n: n + 1))(1)
2
"""

from __future__ import annotations

import pickle
from typing import Any

from ..user_code.pickler import pickled


def dumps(o: Any, enable_trace: bool = True, use_zlib: bool = False, **ignored: Any) -> bytes:
    """Return the pickle of an object.

    Args:
      enable_trace, use_zlib: have no effect.
    """
    return pickled(o)


def loads(encoded: bytes, enable_trace: bool = True, use_zlib: bool = False) -> Any:
    """Return the object of a pickle."""
    return pickle.loads(encoded)
