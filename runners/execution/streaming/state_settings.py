"""How much of a stream's state may be in memory: the settings of `--state_backend`.

>>> from penstock.sdk.options import PipelineOptions, StreamingOptions
>>> given = ["--state_backend=rocksdb", "--state_memory=64MB", "--state_dir=/data"]
>>> state_settings_of(PipelineOptions(given).view_as(StreamingOptions))
StateSettings(memory=67108864, directory='/data')
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ....frozen import frozen
from ....sdk.options import StreamingOptions
from ....sdk.process.working_directory import absolute
from ..plan.execution_graph import Task
from ..plan.fusion import Grouping, Keyed
from ..spilling.rocksdb import check_rocksdb
from ..streaming_options import state_memory_of

# RocksDB's buffers: their share of the memory, the number of them, and the least and the largest size of one in bytes.
_BUFFER_SHARE, BUFFERS = 1 / 16, 3
_LEAST_BUFFER, _LARGEST_BUFFER = 1 << 18, 32 << 20


def has_state(task: Task) -> bool:
    """Return True if a task has steps with windows or keyed state."""
    return any(isinstance(step, (Grouping, Keyed)) for step in task.steps)


@frozen
class StateSettings:
    """How much of the state of a task may be in memory; the rest is in RocksDB.

    Attributes:
      memory: the bytes of memory for windows and keyed state and for RocksDB's buffers, approximately.
      directory: the parent of the database's temporary directory; None for that of other temporary files.
    """

    memory: int
    directory: str | None = None

    def among(self, tasks: Iterable[Task]) -> StateSettings:
        """Return the settings of each of some tasks that share the memory: those with state get equal parts."""
        return attrs.evolve(self, memory=max(1, self.memory // max(1, sum(map(has_state, tasks)))))

    @property
    def buffer(self) -> int:
        """The bytes of each of RocksDB's buffers."""
        return min(_LARGEST_BUFFER, max(_LEAST_BUFFER, int(self.memory * _BUFFER_SHARE)))


def state_settings_of(streaming: StreamingOptions) -> StateSettings | None:
    """Return the settings of a run; None if all of its state is in memory.

    Raises `OptionsError` for flags that contradict each other, and `MissingExtraError` without RocksDB.
    """
    memory = state_memory_of(streaming)
    if memory is None:
        return None
    check_rocksdb("--state_backend=rocksdb")
    # Workers, and the shell that removes the files, have other working directories.
    return StateSettings(memory, None if streaming.state_dir is None else absolute(str(streaming.state_dir)))
