"""`penstock graph --beam`."""

from __future__ import annotations

from support.programs.command_line import Penstock


def test_a_beam_program_can_be_drawn(penstock: Penstock) -> None:
    """With --beam."""
    program = "import apache_beam as beam\nwith beam.Pipeline() as p:\n    p | beam.Create([1])\n"

    ran = penstock("graph", "--beam", "pipeline.py", program=program)

    assert 0 == ran.returncode, ran.stderr
    assert "Create" in ran.stdout
