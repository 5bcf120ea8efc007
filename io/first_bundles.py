"""The first elements of unbounded readers, for bounded reads of `max_num_records` or `max_read_time`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ..sdk.sources.unbounded import UnboundedReader
from ..windowing.timestamp import Timestamp

# Seconds between two looks at readers without elements.
_PAUSE = 0.01


def first_bundles(
    readers: Sequence[UnboundedReader[Any]], number: int | None, seconds: float | None
) -> Iterator[Bundle]:
    """Yield bundles of readers by turns, until there were `number` elements, or for `seconds`; None for no limit."""
    until = None if seconds is None else time.monotonic() + seconds
    left = number
    while left != 0 and (until is None or time.monotonic() < until):
        found = False
        for reader in readers:
            if left == 0:
                return
            bundle = reader.poll(BUNDLE_SIZE if left is None else min(left, BUNDLE_SIZE), Timestamp.now())
            if bundle is not None:
                found = True
                left = None if left is None else left - len(bundle)
                yield bundle
        if not found:
            time.sleep(_PAUSE)
