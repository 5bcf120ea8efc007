"""A sink of a third party passes the conformance suite: the example, as `docs/howto/connector_tests.md` tests it."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

import pytest

from penstock.examples import json_documents
from penstock.examples.json_documents import JsonDocuments
from penstock.testing import SinkSuite


class TestJsonDocuments(SinkSuite):
    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: pathlib.Path) -> None:
        self.path = tmp_path

    def place(self) -> str:
        return tempfile.mkdtemp(dir=self.path)

    def write(self, place: str) -> Any:
        return JsonDocuments(place)

    def read(self, place: str) -> Any:
        return [n for path in pathlib.Path(place).glob("*.json") for n in json.loads(path.read_text())]


def test_the_sink_has_at_most_sixty_lines() -> None:
    """Of code, without the text at its top."""
    lines = pathlib.Path(json_documents.__file__).read_text().splitlines()
    code = lines[lines.index("from __future__ import annotations") :]
    assert len([line for line in code if line.strip() and not line.strip().startswith("#")]) <= 60
