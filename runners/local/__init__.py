"""The local runner: `LocalStreamingRunner`, which `--runner=local` starts.

A bounded pipeline runs on the batch engine (`batch`), in this process or in workers.  A stream, a script (TestStream),
a loop, and a pipeline with checkpoints is a job (`job`), whose tasks run as subtasks (`subtask`) in workers
(`workers`), connected by channels (`channels`).  `productions` gives MillWheel's guarantees instead of checkpoints, and
`simulation` runs jobs under a seed.
"""

from .runner import LocalStreamingRunner

__all__ = ["LocalStreamingRunner"]
