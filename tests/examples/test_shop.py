"""The shop with its servers: its tables are right, although the application is killed.  `KILLS=20` kills every part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shop.running_shop import PARTS, RunningShop, why_there_is_no_shop

KILLS = int(os.environ.get("KILLS", "1"))
SEED = os.environ.get("SEED", "1")


def test_the_tables_stay_right(tmp_path: Path) -> None:
    """And a reader that looks all the time sees no order twice, and no sum that can't be."""
    if reason := why_there_is_no_shop():
        pytest.skip(reason)
    with RunningShop.running(tmp_path, SEED) as shop:
        for number in range(KILLS):
            shop.go_on(30)
            shop.kill(PARTS[number % len(PARTS)])
            # While the part starts again.
            shop.go_on(30)
            shop.wait_for_tables()
        shop.drain()
        assert shop.watch.looks
        assert KILLS == shop.kills
