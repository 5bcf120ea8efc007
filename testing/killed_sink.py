"""KilledSink: a sink whose process is killed in a phase of its two-phase commit."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import attrs

from ..frozen import frozen
from ..sdk.elements.bundle import Bundle
from ..sdk.graph import Graph, ParDo
from ..sdk.sink import Sink, SinkContext, SinkWriter


class Phase(StrEnum):
    """When a process is killed."""

    UNSTAGED = "before staging"
    STAGED = "after staging"
    DECIDED = "after the checkpoint"
    PUBLISHING = "during publishing"


@frozen
class Kill:
    """The kill of a process, which happens once.

    Attributes:
      note: the path of a file, which is there once the process is killed.  Of a count, the file has the number of
        calls.
      calls: while publishing, the calls of functions before the kill; None to count them instead.
    """

    phase: Phase
    note: str
    calls: int | None = None

    def in_phase(self, phase: Phase) -> None:
        """Kill the process, if this is the phase."""
        if phase is self.phase:
            self._kill()

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Kill the process after some calls in the block, or else at its end."""
        if self.phase is not Phase.PUBLISHING or (self.calls is not None and os.path.exists(self.note)):
            yield
            return
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")
            if calls == self.calls:
                self._kill()

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(before)
        if self.calls is None:
            pathlib.Path(self.note).write_text(str(calls))
        else:
            self._kill()

    def _kill(self) -> None:
        try:
            os.close(os.open(self.note, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class KilledSink(Sink[Any]):
    """Another sink, in a process that is killed.

    Args:
      kill: None for no kill: a checkpoint of a killed run is restored by a sink of the same class.
    """

    def __init__(self, sink: Sink[Any], kill: Kill | None) -> None:
        self.sink = sink
        self.spec = sink.spec
        self.kill = kill

    def target(self) -> str | None:
        return self.sink.target()

    def prepare(self, context: SinkContext) -> None:
        self.sink.prepare(context)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        writer = self.sink.open_writer(context)
        return writer if self.kill is None else _KilledWriter(writer, self.kill)

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        self.sink.precommit(staged)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        if self.kill is None or not staged:
            self.sink.commit(context, staged)
            return
        self.kill.in_phase(Phase.DECIDED)
        with self.kill.publishing():
            self.sink.commit(context, staged)

    def abort(self, context: SinkContext) -> None:
        self.sink.abort(context)

    def names(self, context: SinkContext, staged: Sequence[Any]) -> Iterable[str]:
        return self.sink.names(context, staged)

    def close(self) -> None:
        self.sink.close()


class _KilledWriter(SinkWriter[Any]):
    def __init__(self, writer: SinkWriter[Any], kill: Kill) -> None:
        self._writer = writer
        self._kill = kill

    def write(self, bundle: Bundle) -> None:
        self._writer.write(bundle)

    def stage(self) -> Any:
        self._kill.in_phase(Phase.UNSTAGED)
        token = self._writer.stage()
        self._kill.in_phase(Phase.STAGED)
        return token

    def discard(self) -> None:
        self._writer.discard()


def with_killed_sinks(graph: Graph, kill: Kill | None) -> Graph:
    """Return a graph whose sinks are `KilledSink`s."""
    transforms = []
    for transform in graph.transforms:
        primitive = transform.primitive
        if isinstance(primitive, ParDo) and primitive.sink is not None:
            sink = attrs.evolve(primitive.sink, sink=KilledSink(primitive.sink.sink, kill))
            transform = attrs.evolve(transform, primitive=attrs.evolve(primitive, sink=sink))
        transforms.append(transform)
    return attrs.evolve(graph, transforms=tuple(transforms))
