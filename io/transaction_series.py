"""Transactions of one series: committed in the order of their numbers, so that of all of them the last tells.

A runner that commits again and again names its transactions `NUMBER-SERIES`, and commits those of a series in the order
of their numbers.  Whoever asks for an earlier one once more, after a crash or from an older checkpoint, asks for
what was committed, or had nothing in it.  So a sink that has to know what it has committed remembers one for each
series, and there is one of these for each time that somebody started.

>>> series_of("00000012-5be1"), series_of("000000000007-5be1-2-0"), series_of("5be1")
('-5be1', '-5be1-2-0', None)
"""

from __future__ import annotations

import re

_NAME = re.compile(r"(\d{8}|\d{12})(-[0-9a-f]+(-\d+)*)")


def series_of(transaction: str) -> str | None:
    """What the names of a series end in; None for a transaction that is one of a kind."""
    match = _NAME.fullmatch(transaction)
    return None if match is None else match[2]


def pattern_of(transaction: str) -> str | None:
    """The same as what SQL's `LIKE` takes: numbers of one length, which are in order as text too.

    >>> pattern_of("00000012-5be1"), pattern_of("run")
    ('________-5be1', None)
    """
    series = series_of(transaction)
    return None if series is None else "_" * (len(transaction) - len(series)) + series
