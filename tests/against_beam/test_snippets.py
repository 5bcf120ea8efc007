"""Small programs for Beam print under penstock what `make beam` has recorded from Beam, or differ on purpose."""

from __future__ import annotations

import pytest
from against_beam.two_sides import PENSTOCK, differing, listed, on_purpose, printed_by, recorded, sections, table
from package.unpack_wheel import ROOT

HEAD = "| what | Beam | penstock | why |\n| --- | --- | --- | --- |\n"


@pytest.mark.parametrize("section", sections())
def test_a_section_prints_what_beam_printed(section: str) -> None:
    """What differs is in on_purpose.toml, and what is there differs."""
    printed, errors = printed_by(PENSTOCK, section)
    found = differing(section, recorded(section), printed)
    expected = {name for name in listed() if name.startswith(f"{section}.")}

    assert expected == set(found), table(found) + "\n" + errors


def test_the_guide_lists_what_differs_on_purpose() -> None:
    """Each difference is a row of the table in docs/beam.md, with the reason."""
    rows = [f"| {row['what']} | {row['beam']} | {row['penstock']} | {row['why']} |\n" for row in on_purpose().values()]
    guide = (ROOT / "docs" / "beam.md").read_text()

    assert HEAD + "".join(rows) in guide
