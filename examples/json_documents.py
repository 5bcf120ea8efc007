"""A sink of one's own: a JSON document in a directory for each transaction.

`tests/examples/test_json_documents.py` has it pass the conformance suite of sinks, `penstock.testing.SinkSuite`.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from penstock.io import Bundle, Sink, SinkContext, SinkWriter


class JsonDocuments(Sink[Any]):
    """A document is published by renaming it, so a reader sees all elements of a transaction or none."""

    def __init__(self, directory: str) -> None:
        self.directory = pathlib.Path(directory)

    def target(self) -> str:
        return str(self.directory)

    def prepare(self, context: SinkContext) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return JsonWriter(self._staging(context) / context.unit)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        document = self.directory / f"{self._name(context)}.json"
        if staged and not document.exists():
            values = [value for path in staged for value in json.loads(pathlib.Path(path).read_text())]
            whole = self._staging(context) / "whole"
            whole.write_text(json.dumps(values))
            whole.replace(document)
        self.abort(context)

    def abort(self, context: SinkContext) -> None:
        shutil.rmtree(self._staging(context), ignore_errors=True)

    def _name(self, context: SinkContext) -> str:
        # Two sinks of a pipeline may have one directory.
        return f"{context.transaction}-{hashlib.sha256(context.label.encode()).hexdigest()[:8]}"

    def _staging(self, context: SinkContext) -> pathlib.Path:
        return self.directory / f".{self._name(context)}"


class JsonWriter(SinkWriter[Any]):
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.values += bundle.values

    def stage(self) -> str:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.values))
        return str(self.path)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
