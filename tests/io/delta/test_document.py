"""The program of docs/connectors/delta.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from package.unpack_wheel import ROOT


def test_the_program_counts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "connectors" / "delta.md").read_text(), re.DOTALL)
    exec(program, {})
    *found, version = capsys.readouterr().out.splitlines()
    assert ["Row(word='be', n=2)", "Row(word='to', n=2)"] == sorted(found)
    assert "1" == version
