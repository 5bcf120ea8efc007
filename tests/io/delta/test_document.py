"""The programs of docs/connectors/delta.md run as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.programs.document_code import programs


def test_the_programs_count_words_and_maintain_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    counting, *view = programs("docs/connectors/delta.md", __file__)
    exec(counting, {})
    *found, version = capsys.readouterr().out.splitlines()
    assert ["Row(word='be', n=2)", "Row(word='to', n=2)"] == sorted(found)
    assert "1" == version
    session: dict[str, Any] = {}
    for program in view:
        exec(program, session)
    assert [{"customer": "bob", "total": 40}] == session["deltalake"].DeltaTable("sums").to_pyarrow_table().to_pylist()
