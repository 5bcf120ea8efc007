"""The function that Spark calls with each shard of a level, and what its worker keeps for the next call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import cloudpickle

from ....sdk.coders import registry
from ...execution.checkpoints.manifest import PartReference
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import rarely_collected, set_aside
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import as_exception
from .exchange import Buffer, TaskId, addressed
from .plan import PlannedBatch
from .subtask import Program, Shard, StatePart
from .task_rdds import Row

if TYPE_CHECKING:
    from pyspark import Broadcast

# Of how many runs a worker keeps something; a session may have several at the same time.
_RUNS = 4


class ResidentRun:
    """What a worker keeps of a run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.shards: dict[TaskId, Shard] = {}

    def shard(self, id: TaskId, batch: PlannedBatch, parts: Sequence[StatePart]) -> Shard:
        """The task as the batch has to find it; it is taken out, and has to be put back when all went well."""
        shard = self.shards.pop(id, None)
        own = own_part(parts, id, self.program.shards)
        version = None if own is None else own.files[-1].file
        if shard is not None and shard.version == version and (own is not None or not parts):
            return shard
        if shard is not None:
            # It is of a batch that failed, or another worker has done some since.
            with suppress(Exception):
                shard.teardown()
        shard = Shard(self.program, id, batch)
        shard.load(parts)
        return shard


_residents: OrderedDict[str, ResidentRun] = OrderedDict()


def _resident(run: str, payload: Broadcast[bytes]) -> ResidentRun:
    found = _residents.get(run)
    if found is None:
        program, coders = cloudpickle.loads(payload.value)
        registry.register_all(coders)
        found = _residents[run] = ResidentRun(program)
        while len(_residents) > _RUNS:
            _residents.popitem(last=False)
    _residents.move_to_end(run)
    return found


class LevelTask:
    """A level's part of a batch, on one shard.

    Args:
      run: the run's name.
      payload: a broadcast of its program and coders, pickled.
      parts: what its state is in.
      readings: what a task of the first level reads, pickled.
    """

    def __init__(
        self,
        run: str,
        payload: Broadcast[bytes],
        id: TaskId,
        batch: PlannedBatch,
        parts: Sequence[StatePart],
        readings: bytes | None = None,
    ) -> None:
        self._run = run
        self._payload = payload
        self._id = id
        self._batch = batch
        self._parts = parts
        self._readings = readings

    def __call__(self, rows: Iterable[bytes]) -> Iterator[Row]:
        """What the shard makes of what it was sent; what is for a later level is passed on."""
        try:
            resident = _resident(self._run, self._payload)
            with rarely_collected(), CallWatch(resident.program.worker_timeout):
                yield from self._run_shard(resident, rows)
        except GeneratorExit:
            # Spark wants no more of the rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None

    def _run_shard(self, resident: ResidentRun, rows: Iterable[bytes]) -> Iterator[Row]:
        id = self._id
        own: Iterable[Buffer]
        if self._readings is not None:
            # In the first level rows are a DataFrame's, read one after the other; or nothing is.
            own = chain([self._readings], filter(None, rows))
        else:
            own = []
            for row in rows:
                level, data = addressed(row)
                if level == id.level:
                    own.append(data)
                else:
                    yield id.shard, row
        shard = resident.shard(id, self._batch, self._parts)
        yield from shard.run(self._batch, own, own_part(self._parts, id, resident.program.shards))
        resident.shards[id] = shard
        # PySpark's daemon goes through all of it for garbage after each task.
        set_aside()


def own_part(parts: Sequence[StatePart], id: TaskId, shards: int) -> PartReference | None:
    """The part that a task has written itself, in another batch; None if there is none, or it was cut otherwise."""
    if len(parts) == 1 and (parts[0].shard, parts[0].of) == (id.shard, shards):
        return parts[0].part
    return None
