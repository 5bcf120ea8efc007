"""Partition fields, as Beam has them: 'name', 'day(at)', 'bucket(word, 16)', 'truncate(word, 3)'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .catalog import package

_FIELD = re.compile(r"\s*(\w+)\s*(?:\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_TRANSFORMS = {"year": "YearTransform", "month": "MonthTransform", "day": "DayTransform", "hour": "HourTransform"}
_TRANSFORMS |= {"void": "VoidTransform", "identity": "IdentityTransform"}
_SIZED = {"bucket": "BucketTransform", "truncate": "TruncateTransform"}


def parsed(field: str, label: str) -> tuple[str, str, int | None]:
    """Return the transform's name, the column, and the transform's number.  Raises `ValueError`.

    >>> parsed("bucket(word, 16)", "Write"), parsed("day(at)", "Write"), parsed("word", "Write")
    (('bucket', 'word', 16), ('day', 'at', None), ('identity', 'word', None))
    """
    found = _FIELD.fullmatch(field)
    if found is not None:
        name, column, number = found.groups()
        if column is None:
            return "identity", name, None
        if name in _TRANSFORMS and number is None:
            return name, column, None
        if name in _SIZED and number is not None:
            return name, column, int(number)
    known = ", ".join([*(f"{name}(column)" for name in _TRANSFORMS), *(f"{name}(column, number)" for name in _SIZED)])
    raise ValueError(f"{label}: partition_fields must be names of columns, or {known}; got {field!r}")


def add_partitions(update: Any, fields: Sequence[str], label: str) -> None:
    """Add partition fields to an update of a table's partitions."""
    transforms = package(label, "pyiceberg.transforms")
    for field in fields:
        name, column, number = parsed(field, label)
        kind = getattr(transforms, _TRANSFORMS.get(name) or _SIZED[name])
        transform = kind() if number is None else kind(number)
        update.add_field(column, transform, column if name == "identity" else f"{column}_{name}")
