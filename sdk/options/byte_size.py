"""Numbers of bytes with units."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def byte_size(given: str | int) -> int:
    """Return the bytes of a flag's value: a number, optionally with a unit of a power of 1024, as for Spark.

    >>> byte_size("512MB") == byte_size("512m") == 512 << 20, byte_size("1.5 GB"), byte_size(100)
    (True, 1610612736, 100)
    >>> byte_size("plenty")
    Traceback (most recent call last):
    ValueError: expected a number of bytes such as 512MB, got 'plenty'
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", str(given).strip(), re.IGNORECASE)
    if found is None or isinstance(given, bool):
        raise ValueError(f"expected a number of bytes such as 512MB, got {given!r}")
    return int(float(found[1]) * _UNITS[found[2].lower()])
