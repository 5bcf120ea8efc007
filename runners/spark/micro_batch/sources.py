"""The sources of micro-batches, as the driver sees them: what the next batch reads, and what time it is then."""

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
from ...execution.plan.fusion import Grouping, Plan, Source
from ...execution.plan.source_identities import (
    Identities,
    SourceChange,
    changes_of_sources,
    identities_of,
    sources_of,
)
from ...execution.streaming.restored import shown_positions
from ...execution.time_slice import Pace
from ...execution.user_errors import guarded
from ..dataframes import opened
from .plan import Gathered, WholeSplit
from .scripted_source import ScriptOnDriver
from .structured_streaming import StreamOnDriver, StreamSettings
from .unbounded_source import Admission, UnboundedOnDriver

_logger = logger_of(__name__)

# How many elements the first batch of a run reads, and how long a batch is to take, in microseconds: whatever is asked
# of the query waits for it.
_FIRST, _LONG = 250, 5_000_000


class BoundedOnDriver:
    """A bounded source: all of its splits are in the first batch."""

    def __init__(self, step: Source, shards: int) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        self._source: Any = primitive.source
        self._shards = shards
        (self._output,) = step.transform.outputs.values()
        self.is_finished = False

    def gather(self, into: Gathered) -> None:
        """Add what is to be read, once."""
        if self.is_finished:
            return
        self.is_finished = True
        into.watermarks[self._output] = MAX_MICROS
        if isinstance(self._source, BoundedFrame):
            into.frames[self.label] = None
            return
        for split in guarded(self.label, lambda: list(self._source.split(self._shards))):
            into.readings.append(WholeSplit(self.label, split))

    def check_split(self, split: Any) -> None:
        """Raise `SourceError` if a split has changed."""
        self._source.check_split(split)

    def frame(self, session: Any) -> Any:
        """The DataFrame that it is."""
        return opened(self.label, self._source, session)

    def position(self) -> Any:
        """Where it stands."""
        return self.is_finished

    def restore(self, position: Any) -> None:
        """Go on from there."""
        self.is_finished = position


OnDriver: TypeAlias = BoundedOnDriver | ScriptOnDriver | UnboundedOnDriver | StreamOnDriver


class DriverSources:
    """All sources of a plan.

    Attributes:
      identities: the identities of the sources, by label.

    Args:
      shards: into how many splits a bounded source is cut, about.
      admission: how much a batch may read of the unbounded ones.
      streams: what Spark's queries are started with.
    """

    def __init__(self, plan: Plan, shards: int, admission: Admission, streams: StreamSettings) -> None:
        self._sources: list[OnDriver] = []
        self._admission = admission
        self._described = sources_of(plan)
        self.identities: Identities = identities_of(plan)
        self._pace = Pace(admission.records, _FIRST, _LONG, growth=8)
        self._session = streams.session
        # The labels of those whose positions are dropped.
        self.begun_anew: Set[str] = frozenset()
        # A worker that hasn't seen the earlier batches has to be told of these, too.
        self._watermarks: dict[int, int] = {}
        self._percentiles: dict[float, int] = {}
        # In another pipeline the same PCollection may have another number.
        self._outputs: dict[str, int] = {}
        for step in plan.steps:
            if not isinstance(step, Source):
                continue
            primitive = step.transform.primitive
            assert isinstance(primitive, graph.Read)
            self._outputs |= {f"{step.transform.label}[{tag}]": id for tag, id in step.transform.outputs.items()}
            if isinstance(primitive.source, Script):
                self._sources.append(ScriptOnDriver(step, plan))
            elif isinstance(primitive.source, UnboundedFrame):
                self._sources.append(StreamOnDriver(step, streams))
            elif isinstance(primitive.source, UnboundedSource):
                self._sources.append(UnboundedOnDriver(step))
            else:
                self._sources.append(BoundedOnDriver(step, shards))
        self._shares = {
            share
            for s in plan.steps
            if isinstance(s, Grouping)
            for share in s.primitive.windowing.trigger.percentiles()
        }

    def took(self, counts: Mapping[str, int], micros: int) -> None:
        """A batch took so long, for so many elements of each step: the next one reads as many as fit.

        Args:
          counts: by the label of a step, how many elements it has put out.
        """
        labels = [source.label for source in self._sources if isinstance(source, UnboundedOnDriver)]
        if labels:
            # Each has an equal share, whether it needs it or not.
            self._pace.took(len(labels) * max(counts.get(label, 0) for label in labels), micros)

    @property
    def has_script(self) -> bool:
        """Whether a script has the clock."""
        return any(isinstance(source, ScriptOnDriver) for source in self._sources)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will come."""
        return all(source.is_finished for source in self._sources)

    @property
    def has_come(self) -> bool:
        """Whether Spark has brought something, and waits."""
        return any(stream.has_come for stream in self._streams)

    @property
    def is_awaited(self) -> bool:
        """Whether Spark has still to bring something of what was there when the run began."""
        return any(stream.is_awaited for stream in self._streams)

    @property
    def _streams(self) -> list[StreamOnDriver]:
        return [source for source in self._sources if isinstance(source, StreamOnDriver)]

    def drain(self) -> None:
        """Have the unbounded sources stop, as if the input had ended."""
        for stream in self._streams:
            stream.drain()
        for source in self._sources:
            if isinstance(source, UnboundedOnDriver):
                source.is_drained = True

    def gather(self, now: int) -> Gathered:
        """What the next batch is given: first what is bounded, and then one script after the other, and streams."""
        gathered = Gathered(now)
        self._gather(gathered)
        before = dict(self._watermarks)
        for pcollection, micros in gathered.watermarks.items():
            self._watermarks[pcollection] = max(micros, self._watermarks.get(pcollection, MIN_MICROS))
        gathered.watermarks = {i: micros for i, micros in self._watermarks.items() if before.get(i) != micros}
        gathered.all_watermarks = dict(self._watermarks)
        moved = {
            share: micros
            for share, micros in gathered.percentiles.items()
            if share in self._shares and micros > self._percentiles.get(share, MIN_MICROS)
        }
        self._percentiles |= moved
        gathered.percentiles = moved
        return gathered

    def _gather(self, gathered: Gathered) -> None:
        bounded = [source for source in self._sources if isinstance(source, BoundedOnDriver) and not source.is_finished]
        for source in bounded:
            source.gather(gathered)
        # They have a batch of their own, if there is anything in them.
        if gathered.readings or gathered.frames:
            return
        for script in self._sources:
            if isinstance(script, ScriptOnDriver) and not script.is_finished:
                script.gather(gathered)
                break
        unbounded = [source for source in self._sources if isinstance(source, UnboundedOnDriver)]
        for reader in unbounded:
            records = -(-self._pace.count // len(unbounded))
            reader.gather(gathered, attrs.evolve(self._admission, records=records))
        for stream in self._streams:
            stream.gather(gathered)

    def time_jumped(self, micros: int) -> None:
        """Processing time was set forward by so much."""
        for source in self._sources:
            if isinstance(source, UnboundedOnDriver):
                source.time_jumped(micros)

    def frames(self, wanted: Mapping[str, int | None]) -> dict[str, Any]:
        """The DataFrames that a batch reads; those of streams when Spark has brought them."""
        frames = {}
        for source in self._sources:
            if isinstance(source, BoundedOnDriver) and source.label in wanted:
                frames[source.label] = source.frame(self._session)
            elif isinstance(source, StreamOnDriver) and (number := wanted.get(source.label)) is not None:
                frames[source.label] = source.frame(number)
        return frames

    def heard(self, newest: Mapping[str, int]) -> None:
        """The greatest event times of a batch that is committed, by label."""
        for stream in self._streams:
            if stream.label in newest:
                stream.heard(newest[stream.label])

    def positions(self) -> Mapping[str, Any]:
        """Where each stands."""
        return {
            "sources": {source.label: source.position() for source in self._sources},
            "outputs": dict(self._outputs),
            "identities": self.identities,
            "watermarks": dict(self._watermarks),
            "percentiles": dict(self._percentiles),
        }

    def restore(self, positions: Mapping[str, Any]) -> None:
        """Go on from there."""
        numbers = {known: self._outputs.get(name) for name, known in positions["outputs"].items()}
        moved = {numbers.get(known): micros for known, micros in positions["watermarks"].items()}
        self._watermarks = {id: micros for id, micros in moved.items() if id is not None}
        self._percentiles = dict(positions["percentiles"])
        before = positions.get("identities", {})
        for source in self._sources:
            if source.label not in positions["sources"] or source.label in self.begun_anew:
                continue
            if isinstance(source, UnboundedOnDriver):
                source.restore(positions["sources"][source.label], before.get(source.label))
            else:
                source.restore(positions["sources"][source.label])

    def are_those_of(self, positions: Mapping[str, Any]) -> bool:
        """Whether they were planned with the same sources, and the same numbers of PCollections."""
        is_same = positions.get("identities", self.identities) == self.identities
        return is_same and bool(positions.get("outputs") == self._outputs)

    def have(self, readings: Iterable[Any]) -> bool:
        """Return True if the splits of these readings have not changed since they were planned."""
        bounded = {source.label: source for source in self._sources if isinstance(source, BoundedOnDriver)}
        try:
            for reading in readings:
                if isinstance(reading, WholeSplit):
                    bounded[reading.label].check_split(reading.split)
        except SourceError as error:
            _logger.warning("the batch that was planned is planned anew: %s", error)
            return False
        return True

    def changes(self, positions: Mapping[str, Any]) -> list[SourceChange]:
        """Return the sources that have changed since these positions were taken."""
        return changes_of_sources(positions.get("identities", {}), self.identities, self._described)

    @property
    def watermarks(self) -> Mapping[int, int]:
        """How far each is known to be, in microseconds, by PCollection."""
        return dict(self._watermarks)

    def unknown(self, positions: Mapping[str, Any]) -> set[str]:
        """The labels of unbounded sources that stand somewhere, and aren't in the plan."""
        # A bounded source is read or isn't; there is nothing more of it to come.
        standing = {label for label, position in positions["sources"].items() if not isinstance(position, bool)}
        return standing - {source.label for source in self._sources}

    def restore_committed(self, positions: Mapping[str, Any]) -> None:
        """Go on from what is committed."""
        self.restore(positions)
        for stream in self._streams:
            if stream.label in positions["sources"]:
                stream.acknowledge(positions["sources"][stream.label])

    def acknowledge(self, positions: Mapping[str, Any]) -> None:
        """A batch with these positions is committed."""
        for source in self._sources:
            if isinstance(source, (UnboundedOnDriver, StreamOnDriver)):
                source.acknowledge(positions["sources"][source.label])

    def close(self) -> None:
        """Close what is open."""
        for source in self._sources:
            if isinstance(source, (UnboundedOnDriver, StreamOnDriver)):
                source.close()


def shown_positions_of(positions: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return where committed sources stand, as text: of unbounded ones by partition."""
    shown = {}
    for label, position in positions.items():
        if isinstance(position, tuple) and len(position) == 3 and isinstance(position[2], list):
            shown[label] = shown_positions((partition, offset, over) for partition, offset, _, over in position[2])
        else:
            is_read = isinstance(position, bool)
            shown[label] = shown_positions([("all", None if is_read else position, position is True)])
    return shown
