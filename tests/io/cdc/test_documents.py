"""The programs of the pages on changes of tables run as they are written."""

from __future__ import annotations

import pathlib
import re

import pytest
from package.unpack_wheel import ROOT


def programs(page: str) -> list[str]:
    """The programs of a page."""
    return re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "connectors" / page).read_text(), re.DOTALL)


def test_the_programs_on_debezium(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first sums what is left; the second is built, without a broker."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs("debezium.md"):
        exec(program, names)
    assert "[('ann', 15)]\n" == capsys.readouterr().out
