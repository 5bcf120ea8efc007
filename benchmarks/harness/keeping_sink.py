"""A sink that keeps what it is given, with timestamps and windows, for the comparison of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import Sink, SinkContext, SinkWriter


class KeepingSink(Sink[Any]):
    """Holds a run's bundles in `bundles`."""

    def __init__(self) -> None:
        self.bundles: list[Bundle] = []

    def prepare(self, context: SinkContext) -> None:
        self.bundles = []

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _KeepingWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.bundles = [bundle for bundles in staged for bundle in bundles]

    def abort(self, context: SinkContext) -> None:
        self.bundles = []

    def values(self) -> Iterator[Any]:
        """All elements."""
        return (value for bundle in self.bundles for value in bundle.values)

    def by_key_and_window(self) -> dict[tuple[Any, Any], Any]:
        """Pairs as values by (key, window)."""
        return {
            (value[0], windows[0]): value[1] for bundle in self.bundles for value, _, windows, _, _ in bundle.rows()
        }


class _KeepingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.bundles: list[Bundle] = []

    def write(self, bundle: Bundle) -> None:
        self.bundles.append(bundle)

    def stage(self) -> list[Bundle]:
        return self.bundles

    def discard(self) -> None:
        self.bundles = []
