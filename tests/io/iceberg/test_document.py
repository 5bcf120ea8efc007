"""The program of docs/connectors/iceberg.md runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs.document_code import programs


def test_the_program_counts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = programs("docs/connectors/iceberg.md", __file__)
    exec(program, {})
    assert ["Row(word='be', n=2)", "Row(word='to', n=2)"] == sorted(capsys.readouterr().out.splitlines())
