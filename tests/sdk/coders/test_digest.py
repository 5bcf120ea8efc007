"""Digests of many values: encoded at once where they are plain, else one by one."""

import os
import subprocess
import sys
from typing import Any

import pytest

from penstock.sdk.coders.digest import digest_of

# More than a chunk, and no multiple of it.
COUNT = 11_000

MANY: dict[str, Any] = {
    "strings": "a",
    "numbers": 1.5,
    "nested": ("a", [1, (None, b"b")]),
    "deeply nested": [[[[[1]]]]],
    "sets": {"a", "b", "c"},
    "large numbers": 2**70,
    "lone surrogates": "\ud800",
    "dictionaries": {"a": 1},
}


@pytest.mark.parametrize("kind", MANY)
def test_another_value_or_order_has_another_digest(kind: str) -> None:
    """Anywhere among the values; their number is shown."""
    values = [(n, MANY[kind]) for n in range(COUNT)]
    digest = digest_of(values)
    assert f"{COUNT} values, digest " in digest
    assert digest == digest_of(iter([(n, MANY[kind]) for n in range(COUNT)]))
    for place in (0, COUNT // 2, COUNT - 1):
        changed = [*values[:place], (-1, MANY[kind]), *values[place + 1 :]]
        assert digest != digest_of(changed)
    assert digest != digest_of([values[1], values[0], *values[2:]])
    assert digest != digest_of([*values[:-2], values[-1], values[-2]])
    assert digest != digest_of(values[:-1])


def test_a_digest_is_the_same_in_another_process() -> None:
    program = (
        "from penstock.sdk.coders.digest import digest_of\n"
        f"print([digest_of([(n, value) for n in range({COUNT})]) for value in {list(MANY.values())!r}])\n"
    )
    found = {
        subprocess.check_output([sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert [digest_of([(n, value) for n in range(COUNT)]) for value in MANY.values()] == eval(*found)
