"""WithLengthBucketKey: elements of similar length under one key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from ...sdk.dofn.dofn import DoFn
from ...sdk.process.shared import Shared
from ...sdk.process.task_name import is_task_named, worker_id

DEFAULT_BUCKET_BOUNDARIES = (16, 32, 64, 128, 256, 512)


class WithLengthBucketKey(DoFn):
    """Each element as ((worker, bucket), element), so that elements of similar length can be batched together.

    The first bucket is for lengths below the first boundary, the next for lengths from there to below the second, and
    so on; the last for lengths from the last boundary on.  `worker` identifies the process, or the task of
    a Spark batch, so that elements stay in it.

    Args:
      length_fn: returns the length of an element.
      bucket_boundaries: the boundaries of the buckets, ascending.

    >>> import penstock as beam
    >>> pairs = ["a", "bbb", "cc"] | beam.ParDo(WithLengthBucketKey(len, [2, 3]))
    >>> [(bucket, element) for (_, bucket), element in pairs]
    [(0, 'a'), (2, 'bbb'), (1, 'cc')]
    """

    # Each worker has its own key.
    deterministic = False

    def __init__(
        self, length_fn: Callable[[Any], int], bucket_boundaries: Sequence[int] = DEFAULT_BUCKET_BOUNDARIES
    ) -> None:
        if not callable(length_fn):
            raise TypeError(f"WithLengthBucketKey: length_fn must be a function, got {length_fn!r}")
        self.length_fn = length_fn
        self.boundaries = checked_boundaries(bucket_boundaries, "WithLengthBucketKey")
        self.shared = Shared()

    def setup(self) -> None:
        # A process may run several tasks with names.
        self.worker = worker_id().hex() if is_task_named() else self.shared.acquire(lambda: worker_id().hex())

    def process(self, element: Any) -> Iterable[Any]:
        return (((self.worker, bisect_right(self.boundaries, self.length_fn(element))), element),)


def checked_boundaries(boundaries: Sequence[int], transform: str) -> tuple[int, ...]:
    """Return boundaries of lengths as a tuple.

    Raises `ValueError`, naming the transform, unless they are positive and ascending.

    >>> checked_boundaries([16, 32], "BatchElements")
    (16, 32)
    """
    checked = tuple(boundaries)
    if not checked or checked[0] <= 0 or any(a >= b for a, b in pairwise(checked)):
        raise ValueError(f"{transform}: bucket_boundaries must be positive and ascending, got {list(checked)}")
    return checked
