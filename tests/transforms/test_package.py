"""The public names of the package."""

from __future__ import annotations

import re
from pathlib import Path

import penstock as beam
from penstock import transforms


def test_everything_public_is_exported_at_the_root() -> None:
    """As in Beam, where most of these names are found there."""
    missing = [name for name in transforms.__all__ if not hasattr(beam, name)]
    assert [] == missing


def test_the_table_of_contents_names_every_file() -> None:
    """And no file that isn't there."""
    listed = set(re.findall(r"^(\w+)\.py ", transforms.__doc__ or "", re.MULTILINE))
    there = {path.stem for path in Path(transforms.__file__).parent.glob("*.py")} - {"__init__"}
    assert there == listed
