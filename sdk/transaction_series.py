"""Series of transactions, which are committed in the order of their numbers.

A runner that commits repeatedly names its transactions `NUMBER-SERIES`, and commits the transactions of a series in the
order of their numbers.  After a crash, or from an older checkpoint, the runner may commit an earlier transaction again;
it was committed already, or was empty.  So a sink stores only the last committed transaction of each series.  Each
start of a pipeline is a new series.

>>> series_of("00000012-5be1"), series_of("000000000007-5be1-2-0"), series_of("5be1")
('-5be1', '-5be1-2-0', None)
"""

from __future__ import annotations

import re

# The number of a micro-batch, whose transaction is committed before the next one is begun.
_BATCH = re.compile(r"^batch-\d+-")
_NAME = re.compile(r"(\d{8}|\d{12})(-[0-9a-f]+(-\d+)*)")


def series_of(transaction: str) -> str | None:
    """Return the suffix of a transaction's name that its series shares, or None for a transaction without a series."""
    match = _NAME.fullmatch(transaction)
    return None if match is None else match[2]


def run_of(transaction: str) -> str:
    """Return the part of a transaction's name that tells the start of a pipeline from all others.

    >>> run_of("00000012-5be1"), run_of("000000000007-5be1-2-0"), run_of("batch-12-5be1"), run_of("5be1")
    ('5be1', '5be1-2-0', '5be1', '5be1')
    """
    return (series_of(transaction) or _BATCH.sub("", transaction)).lstrip("-")


def digest_of_sink(label: str) -> str:
    """Return a part for the names of what one sink keeps at its target, which no other sink of its pipeline has.

    Two sinks of a pipeline may write to one target, so the names of a sink's staged output, of its series and of its
    producers depend on its label, and never on its target alone.

    Args:
      label: the full label of the transform.

    >>> digest_of_sink("counts/Write")
    '04b6dfdedc7432ec'
    """
    # It loads a library for cryptography.
    from hashlib import blake2s

    return blake2s(label.encode(), digest_size=8).hexdigest()


def pattern_of(transaction: str) -> str | None:
    """Return the pattern of a series for SQL's `LIKE`.  Its numbers have one length, so they sort as text.

    >>> pattern_of("00000012-5be1"), pattern_of("run")
    ('________-5be1', None)
    """
    series = series_of(transaction)
    return None if series is None else "_" * (len(transaction) - len(series)) + series
