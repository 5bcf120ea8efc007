"""Lineage: the sources and sinks that a run has used, reported as paths of their names.

>>> list(Lineage.parts("bigquery", "project", "dataset", "table"))
['bigquery:', 'project.', 'dataset.', 'table']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .reporting import BoundedTrie, Metrics
from .results import MetricResults, MetricsFilter

_RESERVED = re.compile(r"[:\s.]")


class Lineage:
    """Reports of the sources or sinks that user code uses.

    Args:
      label: `Lineage.SOURCE` or `Lineage.SINK`.

    Raises `ValueError` for another label.

    >>> Lineage.get_fq_name("kafka", "my.topic", subtype="eu")
    'kafka:eu:`my.topic`'
    """

    LINEAGE_NAMESPACE: Final = "lineage"
    SOURCE: Final = "sources_v2"
    SINK: Final = "sinks_v2"

    def __init__(self, label: str) -> None:
        self.metric: BoundedTrie = Metrics.bounded_trie(self.LINEAGE_NAMESPACE, _known(label))

    @classmethod
    def sources(cls) -> Lineage:
        """Return the lineage of sources."""
        return cls(cls.SOURCE)

    @classmethod
    def sinks(cls) -> Lineage:
        """Return the lineage of sinks."""
        return cls(cls.SINK)

    @staticmethod
    def wrap_segment(segment: str) -> str:
        """Return a part of a name, in backticks if it has a colon, a dot or whitespace."""
        is_wrapped = segment.startswith("`") and segment.endswith("`")
        return f"`{segment}`" if _RESERVED.search(segment) and not is_wrapped else segment

    @staticmethod
    def get_fq_name(system: str, *segments: str, subtype: str | None = None) -> str:
        """Return a full name: `system:subtype:segment.segment`."""
        name = ".".join(map(Lineage.wrap_segment, segments))
        return ":".join([system, name] if subtype is None else [system, subtype, name])

    @staticmethod
    def parts(
        system: str, *segments: str, subtype: str | None = None, last_segment_sep: str | None = None
    ) -> Iterator[str]:
        """Yield the parts of a full name, each with the separator behind it."""
        yield f"{system}:"
        if subtype:
            yield f"{subtype}:"
        yield from (f"{segment}." for segment in segments[:-1])
        for last in segments[-1:]:
            *outer, inner = last.split(last_segment_sep) if last_segment_sep else [last]
            yield from (f"{segment}{last_segment_sep}" for segment in outer)
            yield inner

    def add(self, system: str, *segments: str, subtype: str | None = None, last_segment_sep: str | None = None) -> None:
        """Report a source or sink by the parts of its name, or by its full name as one text.

        Args:
          subtype: a part behind the system.
          last_segment_sep: separates the last segment's parts, such as "/" of a path.
        """
        self.add_raw(*self.parts(system, *segments, subtype=subtype, last_segment_sep=last_segment_sep))

    def add_raw(self, *rollup_segments: str) -> None:
        """Report a name by parts, which have the separators."""
        self.metric.add(rollup_segments)

    @staticmethod
    def query(results: MetricResults, label: str, truncated_marker: str = "*") -> set[str]:
        """Return the full names in the results of a run; one that is cut ends with `truncated_marker`."""
        filter = MetricsFilter().with_namespace(Lineage.LINEAGE_NAMESPACE).with_name(_known(label))
        paths = [
            path
            for metric in results.query(filter)[MetricResults.BOUNDED_TRIES]
            for data in (metric.committed, metric.attempted)
            if data is not None
            for path in data.get_result()
        ]
        return {"".join(path[:-1]) + truncated_marker * path[-1] for path in paths}


def _known(label: str) -> str:
    if label not in (Lineage.SOURCE, Lineage.SINK):
        raise ValueError(f"Lineage: expected {Lineage.SOURCE!r} or {Lineage.SINK!r}, got {label!r}")
    return label
