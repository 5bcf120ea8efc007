"""Many checks in one pipeline, each under a label of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock import PCollection
from penstock.testing import assert_that, equal_to


def check(expected: Iterable[Any], actual: PCollection[Any], reify_windows: bool = False) -> None:
    """Fail the run unless `actual` holds the expected elements, in any order.

    With `reify_windows` they are `TestWindowedValue`s.
    """
    label = f"check {actual.producer_label}[{actual.tag or ''}]"
    assert_that(actual, equal_to(expected), label, reify_windows=reify_windows)
