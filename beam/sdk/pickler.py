"""Beam's functions that pickle objects: functions and the classes of the main program by value.

>>> loads(dumps(lambda n: n + 1))(1)
2
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from typing import Any

from ...sdk.user_code.pickler import pickled


def dumps(o: Any, enable_trace: bool = True, use_zlib: bool = False, **ignored: Any) -> bytes:
    """Return the pickle of an object in base 64, which can be the value of an option.

    Args:
      enable_trace, use_zlib: have no effect.
    """
    return b64encode(pickled(o))


def loads(encoded: bytes | str, enable_trace: bool = True, use_zlib: bool = False) -> Any:
    """Return the object of a pickle in base 64."""
    return pickle.loads(b64decode(encoded))
