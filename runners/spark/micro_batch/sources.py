"""The sources of micro-batches on the driver: they plan the input and the clocks of the next batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeAlias

import attrs

from ....sdk import graph
from ....sdk.errors import SourceError
from ....sdk.redaction import logger_of
from ....sdk.sources.scripted_source import Script
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.spark_interfaces import BoundedFrame, UnboundedFrame
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...execution.clock import Pace
from ...execution.plan.fusion import Grouping, Plan, Source
from ...execution.plan.source_identities import (
    Identities,
    SourceChange,
    changes_of_sources,
    identities_of,
    sources_of,
)
from ...execution.streaming.restored import shown_positions
from ...execution.user_errors import guarded
from ..dataframes import opened
from .plan import BatchInput, InputSplit, SourceSplit
from .scripted_source import DriverScript
from .structured_streaming import DriverFrameStream, StreamSettings
from .unbounded_source import Admission, DriverUnboundedSource

_logger = logger_of(__name__)

# The elements that the first batch of a run reads, and the duration that batches are adapted to, in microseconds:
# a request to the query waits for the batch that runs.
_FIRST_RECORDS, _BATCH_MICROS = 250, 5_000_000


class DriverBoundedSource:
    """A bounded source: all of its splits are in the first batch."""

    def __init__(self, step: Source, parallelism: int) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        self._source: Any = primitive.source
        self._parallelism = parallelism
        (self._output,) = step.transform.outputs.values()
        self.is_finished = False

    def add_input(self, into: BatchInput) -> None:
        """Add the source's splits to the batch, once."""
        if self.is_finished:
            return
        self.is_finished = True
        into.watermarks[self._output] = MAX_MICROS
        if isinstance(self._source, BoundedFrame):
            into.frames[self.label] = None
            return
        for split in guarded(self.label, lambda: list(self._source.split(self._parallelism))):
            into.splits.append(SourceSplit(self.label, split))

    def check_split(self, split: Any) -> None:
        """Raise `SourceError` if a split has changed."""
        self._source.check_split(split)

    def frame(self, session: Any) -> Any:
        """Return the DataFrame that the source reads."""
        return opened(self.label, self._source, session)

    def position(self) -> Any:
        """Return True if the source has been read."""
        return self.is_finished

    def restore(self, position: Any) -> None:
        """Continue from a position."""
        self.is_finished = position


DriverSource: TypeAlias = DriverBoundedSource | DriverScript | DriverUnboundedSource | DriverFrameStream


class DriverSources:
    """All sources of a plan.

    Attributes:
      identities: the identities of the sources, by label.
      reset_labels: the labels of the sources whose checkpointed positions are dropped.

    Args:
      parallelism: the number of splits of a bounded source, approximately.
      admission: the limits of a batch's input from unbounded sources.
      streams: the settings of Spark's streaming queries.
    """

    def __init__(self, plan: Plan, parallelism: int, admission: Admission, streams: StreamSettings) -> None:
        self._sources: list[DriverSource] = []
        self._admission = admission
        self._described = sources_of(plan)
        self.identities: Identities = identities_of(plan)
        self.reset_labels: Set[str] = frozenset()
        self._pace = Pace(admission.records, _FIRST_RECORDS, _BATCH_MICROS, growth=8)
        self._session = streams.session
        # A worker that hasn't run earlier batches needs all watermarks.
        self._watermarks: dict[int, int] = {}
        self._percentiles: dict[float, int] = {}
        # The ids of PCollections, which differ in another pipeline, by name.
        self._outputs: dict[str, int] = {}
        for step in plan.steps:
            if not isinstance(step, Source):
                continue
            primitive = step.transform.primitive
            assert isinstance(primitive, graph.Read)
            self._outputs |= {f"{step.transform.label}[{tag}]": id for tag, id in step.transform.outputs.items()}
            if isinstance(primitive.source, Script):
                self._sources.append(DriverScript(step, plan))
            elif isinstance(primitive.source, UnboundedFrame):
                self._sources.append(DriverFrameStream(step, streams))
            elif isinstance(primitive.source, UnboundedSource):
                self._sources.append(DriverUnboundedSource(step))
            else:
                self._sources.append(DriverBoundedSource(step, parallelism))
        self._bounded = [source for source in self._sources if isinstance(source, DriverBoundedSource)]
        self._scripts = [source for source in self._sources if isinstance(source, DriverScript)]
        self._unbounded = [source for source in self._sources if isinstance(source, DriverUnboundedSource)]
        self._streams = [source for source in self._sources if isinstance(source, DriverFrameStream)]
        self._endless: list[DriverUnboundedSource | DriverFrameStream] = [*self._unbounded, *self._streams]
        # The percentiles that triggers use.
        self._used_percentiles = {
            share
            for s in plan.steps
            if isinstance(s, Grouping)
            for share in s.primitive.windowing.trigger.percentiles()
        }

    def adapt_pace(self, counts: Mapping[str, int], micros: int) -> None:
        """Adapt the size of the next batch to the duration of the last one.

        Args:
          counts: the elements that each step has output, by label.
        """
        if self._unbounded:
            # Sources have equal shares of a batch.
            most = max(counts.get(source.label, 0) for source in self._unbounded)
            self._pace.took(len(self._unbounded) * most, micros)

    @property
    def has_script(self) -> bool:
        """True if a script controls the clock."""
        return bool(self._scripts)

    @property
    def is_finished(self) -> bool:
        """True if all sources have ended."""
        return all(source.is_finished for source in self._sources)

    @property
    def has_data(self) -> bool:
        """True if a batch of a streaming DataFrame waits to be read."""
        return any(stream.has_data for stream in self._streams)

    @property
    def awaits_data(self) -> bool:
        """True if Spark may still deliver data that existed when the run began."""
        return any(stream.awaits_data for stream in self._streams)

    @property
    def expects_data(self) -> bool:
        """True if Spark is about to deliver a batch of a streaming DataFrame, as far as it tells."""
        return any(stream.expects_data for stream in self._streams)

    def drain(self) -> None:
        """End the unbounded sources, as if their input had ended."""
        for stream in self._streams:
            stream.drain()
        for source in self._unbounded:
            source.is_drained = True

    def plan_input(self, now: int) -> BatchInput:
        """Return the input of the next batch: bounded sources first, then one script after the other, and streams."""
        planned = BatchInput(now)
        self._add_input(planned)
        before = dict(self._watermarks)
        for pcollection, micros in planned.watermarks.items():
            self._watermarks[pcollection] = max(micros, self._watermarks.get(pcollection, MIN_MICROS))
        planned.watermarks = {i: micros for i, micros in self._watermarks.items() if before.get(i) != micros}
        planned.all_watermarks = dict(self._watermarks)
        planned.percentiles = {
            share: micros
            for share, micros in planned.percentiles.items()
            if share in self._used_percentiles and micros > self._percentiles.get(share, MIN_MICROS)
        }
        self._percentiles |= planned.percentiles
        return planned

    def _add_input(self, planned: BatchInput) -> None:
        for source in self._bounded:
            source.add_input(planned)
        # Bounded sources have a batch of their own, if they aren't empty.
        if planned.splits or planned.frames:
            return
        for script in self._scripts:
            if not script.is_finished:
                script.add_input(planned)
                break
        for reader in self._unbounded:
            records = -(-self._pace.count // len(self._unbounded))
            reader.add_input(planned, attrs.evolve(self._admission, records=records))
        for stream in self._streams:
            stream.add_input(planned)

    def time_jumped(self, micros: int) -> None:
        """Tell the sources that processing time was set forward."""
        for source in self._unbounded:
            source.time_jumped(micros)

    def frames(self, wanted: Mapping[str, int | None]) -> dict[str, Any]:
        """Return the DataFrames that a batch reads; waits until Spark has delivered those of streams."""
        frames = {source.label: source.frame(self._session) for source in self._bounded if source.label in wanted}
        for stream in self._streams:
            if (number := wanted.get(stream.label)) is not None:
                frames[stream.label] = stream.frame(number)
        return frames

    def observe(self, newest: Mapping[str, int]) -> None:
        """Advance the streams to the greatest event times of a committed batch, by label."""
        for stream in self._streams:
            if stream.label in newest:
                stream.observe(newest[stream.label])

    def positions(self) -> Mapping[str, Any]:
        """Return the positions of all sources, with their identities and watermarks."""
        return {
            "sources": {source.label: source.position() for source in self._sources},
            "outputs": dict(self._outputs),
            "identities": self.identities,
            "watermarks": dict(self._watermarks),
            "percentiles": dict(self._percentiles),
        }

    def restore(self, positions: Mapping[str, Any]) -> None:
        """Continue from positions."""
        new_ids = {old: self._outputs.get(name) for name, old in positions["outputs"].items()}
        watermarks = {new_ids.get(old): micros for old, micros in positions["watermarks"].items()}
        self._watermarks = {id: micros for id, micros in watermarks.items() if id is not None}
        self._percentiles = dict(positions["percentiles"])
        before = positions.get("identities", {})
        for source in self._sources:
            if source.label not in positions["sources"] or source.label in self.reset_labels:
                continue
            if isinstance(source, DriverUnboundedSource):
                source.restore(positions["sources"][source.label], before.get(source.label))
            else:
                source.restore(positions["sources"][source.label])

    def match(self, positions: Mapping[str, Any]) -> bool:
        """Return True if positions are of the same sources, with the same ids of PCollections."""
        is_same = positions.get("identities", self.identities) == self.identities
        return is_same and bool(positions.get("outputs") == self._outputs)

    def are_unchanged(self, splits: Iterable[InputSplit]) -> bool:
        """Return True if these splits of bounded sources have not changed since they were planned."""
        bounded = {source.label: source for source in self._bounded}
        try:
            for split in splits:
                if isinstance(split, SourceSplit):
                    bounded[split.label].check_split(split.split)
        except SourceError as error:
            _logger.warning("A split of the planned batch has changed. Planning the batch again. %s", error)
            return False
        return True

    def changes(self, positions: Mapping[str, Any]) -> list[SourceChange]:
        """Return the sources that have changed since these positions were taken."""
        return changes_of_sources(positions.get("identities", {}), self.identities, self._described)

    @property
    def watermarks(self) -> Mapping[int, int]:
        """The watermarks of the sources' PCollections, in microseconds."""
        return dict(self._watermarks)

    def unknown(self, positions: Mapping[str, Any]) -> set[str]:
        """Return the labels of unbounded sources with a position that aren't in the plan."""
        # A bounded source was read whole, so nothing of it can be lost.
        unbounded = {label for label, position in positions["sources"].items() if not isinstance(position, bool)}
        return unbounded - {source.label for source in self._sources}

    def restore_committed(self, positions: Mapping[str, Any]) -> None:
        """Continue from the positions of a committed batch."""
        self.restore(positions)
        for stream in self._streams:
            if stream.label in positions["sources"]:
                stream.acknowledge(positions["sources"][stream.label])

    def acknowledge(self, positions: Mapping[str, Any]) -> None:
        """Tell the sources that a batch with these positions is committed."""
        for source in self._endless:
            source.acknowledge(positions["sources"][source.label])

    def close(self) -> None:
        """Close readers and stop queries."""
        for source in self._endless:
            source.close()


def shown_positions_of(positions: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return the positions of committed sources as text: of unbounded ones by partition."""
    shown = {}
    for label, position in positions.items():
        if isinstance(position, tuple) and len(position) == 3 and isinstance(position[2], list):
            shown[label] = shown_positions((partition, offset, over) for partition, offset, _, over in position[2])
        else:
            is_read = isinstance(position, bool)
            shown[label] = shown_positions([("all", None if is_read else position, position is True)])
    return shown
