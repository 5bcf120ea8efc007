"""Results of the segments of a bounded program, and which of them have to run again.

A task may run several times: when a worker is lost, a cluster computes what the others need of it again.  User code
that isn't deterministic then makes other elements, after some tasks have read the former ones.  So the attempts that
all results depend on are compared, and segments of which several were read run once more.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricResults, MetricsContainer
from ....sdk.redaction import logger_of
from ....sdk.runner import FinishedResult
from ..counters import Counts
from ..error_transport import TaskFailedError, original
from ..sinks.committer import sinks_of
from ..sinks.run_records import committed
from .attempts import TaskAttempt, all_read, joined, mixed
from .bounded_program import BoundedProgram
from .segment_program import TaskOutput

_logger = logger_of(__name__)

# How often a segment runs again because several attempts of its tasks were read.
MOST_REPETITIONS = 3


class SegmentResults:
    """What a run's segments have returned to the process that runs the pipeline.

    Args:
      forget: called with the number of a segment that is to run again, or has to behind another one.

    >>> import penstock as beam
    >>> from penstock.runners.execution.batch.segment_program import SegmentProgram
    >>> from penstock.options.pipeline_options import PipelineOptions
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1, 2]) | beam.Map(lambda n: ("sum", n)) | beam.CombinePerKey(sum) | beam.Map(print)
    >>> program = BoundedProgram.of(p.graph(), PipelineOptions([]), "mine", partitions=1)
    >>> results, outputs = SegmentResults(program), {}
    >>> with results.committed():
    ...     for number in results.to_run():
    ...         segment = SegmentProgram.of(program, number)
    ...         if program.is_source(number):
    ...             partition = segment.split(lambda size: 1)
    ...         else:
    ...             destination, senders = program.senders(number)
    ...             partition = [outputs[sender].part(destination, 0) for sender in senders]
    ...         outputs[number] = segment.compute(0, partition, results.side_inputs_of(number))
    ...         results.add(number, [outputs[number]])
    ('sum', 3)
    >>> results.finished().state
    'DONE'
    """

    def __init__(self, program: BoundedProgram, forget: Callable[[int], None] = lambda number: None) -> None:
        self._program = program
        self._forget = forget
        self._waiting = set(range(len(program.segments)))
        self._kept: dict[int, _Kept] = {}
        self._repetitions = Counter[int]()
        # What sinks have reported during their commits.
        self._metrics = MetricsContainer()

    def to_run(self) -> Iterator[int]:
        """Yield the numbers of the segments to run: inputs first, and some again.

        Raises `RunnerError` for a segment that would run too often.
        """
        while self._waiting:
            number = min(self._waiting)
            self._waiting.remove(number)
            yield number

    def take_ready(self) -> list[int]:
        """Remove and return all segments to run whose side inputs are complete: inputs first."""
        ready: list[int] = []
        for number in sorted(self._waiting):
            segments, side_inputs = self._program.segments, self._program.segments[number].side_inputs
            if all(
                need in self._kept if side_inputs.intersection(segments[need].side_outputs) else self.is_taken(need)
                for need in self._program.needs[number]
            ):
                self._waiting.remove(number)
                ready.append(number)
        return ready

    def is_taken(self, number: int) -> bool:
        """Return True if a segment isn't to be run, or not again."""
        return number not in self._waiting

    @property
    def is_complete(self) -> bool:
        """True if no segment is to be run."""
        return not self._waiting

    def has(self, number: int) -> bool:
        """Return True if the outputs of a segment are known."""
        return number in self._kept

    def add(self, number: int, outputs: Iterable[TaskOutput]) -> None:
        """Add the outputs of all tasks of a segment.  `TaskOutput.of_driver` has what is needed of them."""
        self.add_rows(number, _rows(outputs := list(outputs)))
        if number in self._kept:
            self._kept[number].outputs = outputs

    def add_rows(self, number: int, rows: Iterable[tuple[str, Any, bytes]]) -> None:
        """Add what the tasks of a segment have made for the driver.

        Args:
          rows: kind, place and bytes: ("attempt", None) with a `TaskAttempt`, ("sink", label) with a token, both
            pickled; and ("side", pcollection) with a block.
        """
        self.add_all({number: rows})

    def add_all(self, rows: Mapping[int, Iterable[tuple[str, Any, bytes]]]) -> None:
        """Add what the tasks of several segments have made for the driver, by segment; see `add_rows`."""
        self._kept |= {number: _Kept(own) for number, own in rows.items()}
        self.repeat(mixed(joined(each.read for each in self._kept.values())))

    def repeat(self, found: Collection[int]) -> None:
        """Run segments again of which several attempts were read, and those behind them; forget their results.

        Raises `RunnerError` for a segment that has run too often.
        """
        for number in sorted(found):
            self._repetitions[number] += 1
            label = self._program.segments[number].label
            if self._repetitions[number] > MOST_REPETITIONS:
                raise RunnerError(
                    f"{label}: in each of {MOST_REPETITIONS + 1} runs one of its tasks was computed again, with other "
                    "output, after other tasks had read the output of an earlier attempt; expected one attempt's "
                    "output only. Check whether workers are being lost, and whether functions return something else "
                    "for the same element while slow tasks are repeated, as by spark.speculation"
                )
            _logger.warning(
                "%s: a task was computed again, with other output, after tasks had read the output of an earlier "
                "attempt; running this segment again, and all segments that depend on it",
                label,
            )
        behind = set(found)
        for number, needed in enumerate(self._program.needs):
            if needed & behind:
                behind.add(number)
        for number in behind:
            self._kept.pop(number, None)
            self._forget(number)
        self._waiting |= behind

    def staged(self) -> dict[str, list[Any]]:
        """Return the tokens of each sink, by its label."""
        staged: dict[str, list[Any]] = {label: [] for label in sinks_of(self._program.plan)}
        for _, kept in sorted(self._kept.items()):
            for label, tokens in kept.staged.items():
                staged[label] += tokens
        return staged

    def side_inputs_of(self, number: int) -> dict[int, list[bytes]]:
        """Return the blocks of a segment's side inputs, by PCollection."""
        made = [kept.side_outputs for _, kept in sorted(self._kept.items())]
        wanted = self._program.segments[number].side_inputs
        return {i: [block for each in made for block in each.get(i, ())] for i in wanted}

    @contextmanager
    def committed(self, metrics: MetricsContainer | None = None) -> Iterator[None]:
        """Publish what was staged at the end of the block; remove it if the block fails.

        Raises in place of an error that `SegmentProgram.compute` has raised in another process the original one.
        """
        program, metrics = self._program, self._metrics if metrics is None else metrics
        try:
            with committed(program.plan, program.transaction, self.staged, metrics):
                yield
        except TaskFailedError as error:
            found = original(str(error)) or error
            raise found from found.__cause__

    def finished(self) -> FinishedResult:
        """Return the result of a run whose outputs were given to `add`."""
        counts, metrics = Counts(), MetricsContainer()
        metrics.merge(self._metrics)
        for _, kept in sorted(self._kept.items()):
            for output in kept.outputs:
                counts.add(output.report.counts)
                metrics.merge(output.report.metrics)
        return FinishedResult(MetricResults(metrics, None, counts.seconds))


class _Kept:
    """What the driver has kept of a segment that has run.

    Attributes:
      outputs: of all tasks, if they were given as such.
      staged: the tokens of each sink.
      side_outputs: the blocks of each PCollection that is a side input of others.
      read: by segment, the digests of the attempts that were read.
    """

    def __init__(self, rows: Iterable[tuple[str, Any, bytes]]) -> None:
        self.outputs: Sequence[TaskOutput] = ()
        self.staged: dict[str, list[Any]] = {}
        self.side_outputs: dict[int, list[bytes]] = {}
        attempts: list[TaskAttempt] = []
        for kind, where, block in rows:
            if kind == "attempt":
                attempts.append(pickle.loads(block))
            elif kind == "sink":
                self.staged.setdefault(where, []).append(pickle.loads(block))
            else:
                self.side_outputs.setdefault(where, []).append(block)
        self.read = all_read(attempts)


def _rows(outputs: Iterable[TaskOutput]) -> Iterator[tuple[str, Any, bytes]]:
    for output in outputs:
        yield "attempt", None, pickle.dumps(output.attempt, protocol=5)
        for label, token in output.staged:
            yield "sink", label, token
        for pcollection, block in output.side_blocks():
            yield "side", pcollection, block
