"""A runner of bounded pipelines on Dask: `--runner=penstock.examples.dask_runner:DaskRunner`.

Each task of the pipeline is a task of Dask, whose result stays in the memory of its worker; tasks behind a shuffle get
their parts of it.  When Dask loses a worker, it computes what others need of that worker's results again.  If functions
return something else then, `SegmentResults` says what has to run once more, so that all results are of one execution of
each task.

    from dask.distributed import Client
    from penstock.examples.dask_runner import DaskRunner

    with Client("tcp://scheduler:8786") as client, beam.Pipeline(runner=DaskRunner(client)) as p:
        ...
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from penstock.runners.interface import (
    BOUNDED_CAPABILITIES,
    BoundedProgram,
    Graph,
    PipelineOptions,
    PipelineResult,
    Runner,
    RunnerError,
    SegmentProgram,
    SegmentResults,
    StreamingOptions,
    TaskOutput,
    TaskPart,
    check_bounded,
    parallelism_of,
)

if TYPE_CHECKING:
    from dask.distributed import Client, Future

# A task reads about so many bytes of a source.
SPLIT_BYTES = 64 << 20


class DaskRunner(Runner):
    """Runs bounded pipelines on Dask.

    Args:
      client: of a cluster.  By default the current one, or else that of a cluster on this machine, with
        `--parallelism` workers, which is closed at the end of the run.
    """

    name = "dask"

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        return BOUNDED_CAPABILITIES

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run to the end.  Raises the error that made the run fail."""
        # Before a cluster is started for it.
        check_bounded(graph, options, self.name)
        streaming = options.view_as(StreamingOptions)
        with self._connected(parallelism_of(streaming)) as client:
            cores = sum(client.ncores().values()) or 1
            program = BoundedProgram.of(graph, options, self.name, partitions=cores)
            run = DaskRun(client, program, cores, streaming.worker_timeout)
            run.run()
            return run.results.finished()

    def _connected(self, workers: int) -> AbstractContextManager[Client]:
        from dask.distributed import get_client

        if self._client is not None:
            return nullcontext(self._client)
        try:
            return nullcontext(get_client())
        except ValueError:
            return _own_cluster(workers)


@contextmanager
def _own_cluster(workers: int) -> Iterator[Client]:
    """Return the client of a cluster on this machine, both of which are closed at the end of the block."""
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        yield client


class DaskRun:
    """A run of a program.

    Args:
      cores: of the cluster.
      timeout: seconds after which a call that has not returned is named in the worker's log.

    Attributes:
      results: what its segments have returned.
    """

    def __init__(self, client: Client, program: BoundedProgram, cores: int, timeout: float) -> None:
        from dask.distributed import Event

        self._client = client
        self._program = program
        self._cores = cores
        self._timeout = timeout
        self.results = SegmentResults(program, self._forget)
        # By segment, the outputs of its tasks, which stay in the workers.
        self._outputs: dict[int, list[Future]] = {}
        # Tasks that have yet to begin when the run fails do nothing.
        self._has_failed = Event(f"penstock-{program.transaction}", client)

    def run(self) -> None:
        """Run all segments, and publish what they have written; or remove it, if one fails."""
        with self.results.committed():
            try:
                for number in self.results.to_run():
                    self.results.add(number, self._run_segment(number))
            except BaseException:
                self._end_tasks()
                raise

    def _run_segment(self, number: int) -> Sequence[TaskOutput]:
        """Run the tasks of a segment; return what this process needs of their outputs."""
        segment = SegmentProgram.of(self._program, number)
        # A task computes it, so that Dask can do so again: what is scattered is lost with its worker.
        side_inputs = {i: list(blocks) for i, blocks in self.results.side_inputs_of(number).items()}
        work = self._submit(_constant, pickle.dumps((segment, side_inputs)))
        partitions = self._splits(segment) if self._program.is_source(number) else self._parts(number)
        outputs = self._outputs[number] = [
            self._submit(_compute, work, index, partition, self._timeout, self._has_failed.name)
            for index, partition in enumerate(partitions)
        ]
        returned = [self._submit(TaskOutput.of_driver, output) for output in outputs]
        gathered: list[TaskOutput] = self._client.gather(returned)
        return gathered

    def _splits(self, segment: SegmentProgram) -> list[list[bytes]]:
        splits = segment.split(lambda size: max(self._cores, size // SPLIT_BYTES))
        if segment.is_of_one_task:
            return [splits]
        return [[split] for split in splits]

    def _parts(self, number: int) -> list[list[Future]]:
        """Return what the tasks of a segment read, of all tasks that have sent to it."""
        destination, senders = self._program.senders(number)
        outputs = [output for sender in senders for output in self._outputs[sender]]
        if self._program.is_stored(number):
            return [[self._submit(TaskOutput.part, output, destination)] for output in outputs]
        return [
            [self._submit(TaskOutput.part, output, destination, partition) for output in outputs]
            for partition in range(self._program.partitions)
        ]

    def _submit(self, function: Any, *arguments: Any) -> Future:
        # Not pure: Dask would take two tasks with the same arguments for one.
        return self._client.submit(function, *arguments, pure=False)

    def _forget(self, number: int) -> None:
        self._outputs.pop(number, None)

    def _end_tasks(self) -> None:
        """Wait until no task can write any more."""
        from dask.distributed import wait

        self._has_failed.set()
        wait([output for outputs in self._outputs.values() for output in outputs])


def _constant(value: Any) -> Any:
    return value


def _compute(work: bytes, index: int, partition: list[TaskPart | bytes], timeout: float, has_failed: str) -> TaskOutput:
    from dask.distributed import Event

    if Event(has_failed).is_set():
        raise RunnerError("the run has failed before this task began")
    segment: SegmentProgram
    segment, side_inputs = pickle.loads(work)
    return segment.compute(index, partition, side_inputs, timeout)
