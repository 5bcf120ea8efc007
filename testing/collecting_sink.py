"""CollectingSink: the elements of a pipeline in a directory, published exactly once, for tests that kill processes."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..sdk.elements.bundle import Bundle, expanded
from ..sdk.sink import Sink, SinkContext, SinkSpec, SinkWriter


class CollectingSink(Sink[Any]):
    """A file of JSON for each transaction, with its elements and their signs.

    >>> import penstock as beam
    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2]) | beam.io.Write(CollectingSink(directory))
    >>> collected(directory)
    [1, 2]
    """

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = str(directory)

    def target(self) -> str:
        return self.directory

    def prepare(self, context: SinkContext) -> None:
        os.makedirs(self.directory, exist_ok=True)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _CollectingWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        changes = [change for token in staged for change in token]
        if changes:
            label = hashlib.sha256(context.label.encode()).hexdigest()[:12]
            path = pathlib.Path(self.directory, f"{label}-{context.transaction}")
            path.with_suffix(".partial").write_text(json.dumps(changes))
            path.with_suffix(".partial").replace(path.with_suffix(".json"))

    def abort(self, context: SinkContext) -> None:
        """Do nothing: the tokens have the elements."""


class _CollectingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self._changes: list[tuple[Any, int]] = []

    def write(self, bundle: Bundle) -> None:
        self._changes += zip(bundle.values, expanded(bundle.signs, len(bundle)))

    def stage(self) -> Any:
        return self._changes

    def discard(self) -> None:
        self._changes = []


def collected(directory: str | os.PathLike[str]) -> list[Any]:
    """Return the elements that were published and not retracted, in the order of their values."""
    counts: Counter[Any] = Counter()
    for file in pathlib.Path(directory).glob("*.json"):
        for value, sign in json.loads(file.read_text()):
            counts[value] += sign
    return sorted(counts.elements())
