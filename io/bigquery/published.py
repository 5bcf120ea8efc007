"""Load jobs within the pipeline: those of a write whose jobs a transform is applied to.

Otherwise load jobs are part of the commit at the end of the run.
"""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ...sdk.errors import UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...transforms.write import WriteAs
from ..files.sinks.published_files import PublishedFiles, published_by_demand
from .sinks import LoadSink


@frozen
class JobReference:
    """The name of a job."""

    projectId: str
    jobId: str


class LoadRows(PTransform):
    """Lines of JSON into tables, by load jobs.  Returns pairs of a table's name and a job's reference.

    Args:
      sink_label: the full label of the transform that writes.
    """

    def __init__(self, sink: LoadSink, sink_label: str) -> None:
        super().__init__()
        self._sink = sink
        self._sink_label = sink_label

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        sink: Any = _WithJobs(self._sink)
        jobs: PCollection[Any] = published_by_demand(pcoll, _PublishedLoads(sink, self._sink_label))
        _ = pcoll | WriteAs(self._sink, self._sink_label)
        return jobs


class _WithJobs(LoadSink):
    """The sink, as what publishes files within a pipeline has it."""

    sharded = False
    num_shards = None

    def __init__(self, sink: LoadSink) -> None:
        super().__init__(sink.written, sink.directory, sink.project)

    def claims(self) -> Any:
        """Return nothing: several transforms may write into a table."""
        return ()

    def publish(self, context: Any, staged: Any) -> list[Any]:
        """Run the jobs of a transaction."""
        jobs = self.load(context, staged)
        project = self.project or self.opened(context).client.project
        return [(str(table), JobReference(project, job)) for table, job in jobs]


class _PublishedLoads(PublishedFiles):
    element_type = tuple[str, JobReference]

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if not pcoll.is_bounded:
            raise UnsupportedError(
                f"{self.sink_label}: load jobs of a stream run when a checkpoint is complete, so no transform can be "
                "applied to destination_load_jobid_pairs; their ids are logged"
            )
        return super().expand(pcoll)
