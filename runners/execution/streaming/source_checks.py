"""Checks of unbounded sources: values that break the interface raise `SourceError` at once.

>>> checked_watermark(1.5, "Ticks")
Traceback (most recent call last):
    ...
penstock.sdk.errors.SourceError: Ticks: expected watermark() to give microseconds since 1970, an int, got 1.5
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....sdk.bundle import Bundle
from ....sdk.coders.coder import shortened
from ....sdk.errors import SourceError
from ....windowing.timestamp import Timestamp


def checked_partitions(partitions: Any, label: str) -> Sequence[Any]:
    """Return the partitions as a list.

    Raises `SourceError` for a value without a hash, or that is no sequence.
    """
    if not isinstance(partitions, Iterable) or isinstance(partitions, (str, bytes)):
        raise SourceError(f"{label}: expected partitions() to give a list, got {shortened(partitions, 100)}")
    found = list(partitions)
    for partition in found:
        try:
            hash(partition)
        except TypeError:
            raise SourceError(
                f"{label}: expected partitions with a hash, such as names, numbers or tuples of them, got "
                f"{shortened(partition, 100)}"
            ) from None
    return found


def checked_bundle(bundle: Any, label: str) -> Bundle | None:
    """Return the bundle of `poll`.

    Raises `SourceError` for another value, or columns of different lengths.
    """
    if bundle is None:
        return None
    if not isinstance(bundle, Bundle):
        raise SourceError(
            f"{label}: expected poll() to give a Bundle, or None, got {shortened(bundle, 100)}; make it "
            "Bundle(values, timestamps)"
        )
    times = bundle.timestamps
    if isinstance(times, list) and len(times) != len(bundle.values):
        raise SourceError(
            f"{label}: expected as many timestamps as values from poll(), got {len(times)} for {len(bundle.values)}"
        )
    return bundle


def checked_watermark(watermark: Any, label: str) -> int:
    """Return the watermark.

    Raises `SourceError` for a value that is no number of microseconds.
    """
    return _micros(watermark, label, "watermark() to give")


def checked_watermarks(watermarks: Any, label: str) -> Mapping[float, int]:
    """Return the watermarks by share.

    Raises `SourceError` unless each is a number of microseconds.
    """
    if not isinstance(watermarks, Mapping):
        raise SourceError(
            f"{label}: expected watermarks() to give microseconds since 1970 by share, such as {{0.5: 0}}, got "
            f"{shortened(watermarks, 100)}"
        )
    return {share: _micros(micros, label, f"watermarks()[{share!r}] to be") for share, micros in watermarks.items()}


def checked_backlog(backlog: Any, label: str) -> int | None:
    """Return the backlog.

    Raises `SourceError` for a value that is no number.
    """
    if backlog is None or isinstance(backlog, int):
        return backlog
    try:
        return int(backlog)
    except (TypeError, ValueError, OverflowError):
        raise SourceError(
            f"{label}: expected backlog() to give about how many elements wait, an int, or None, got "
            f"{shortened(backlog, 100)}"
        ) from None


def _micros(micros: Any, label: str, what: str) -> int:
    if isinstance(micros, int):
        return micros
    try:
        return operator.index(micros)
    except TypeError:
        advice = "; give its .micros" if isinstance(micros, Timestamp) else ""
        raise SourceError(
            f"{label}: expected {what} microseconds since 1970, an int, got {shortened(micros, 100)}{advice}"
        ) from None
