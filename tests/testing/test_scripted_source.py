"""The source of which a test gives the elements."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.testing import ScriptedSource
from penstock.windowing import TimestampedValue


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([[1]], "expected TimestampedValues in a partition, got 1"),
        ([1], "expected lists of TimestampedValues, one a partition, got 1"),
        (
            [TimestampedValue("a", 1)],
            r"expected lists of TimestampedValues, one a partition, got TimestampedValue\('a'",
        ),
    ],
)
def test_what_is_no_partition_is_refused(partitions: Any, expected: str) -> None:
    """Where it is written, and not in the run."""
    with pytest.raises(TypeError, match=f"ScriptedSource: {expected}"):
        ScriptedSource(partitions)
