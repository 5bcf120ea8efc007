"""What a job may combine: delivery, recovery, checkpoint mode, parallelism and the shape of its pipeline.

`REFUSALS` is the table of what doesn't go together.  The runner, the simulator, `penstock simulate` and the
documentation read it.

>>> print(refusal_of(Combination(recovery="region", parallelism=1)))
option --recovery=region: with --parallelism=1 there is only one subtask of each task; use --recovery=graph
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import attrs

from ...frozen import frozen
from ...sdk.errors import OptionsError
from ...sdk.graph import Graph
from ...sdk.options import StreamingOptions
from ..execution.checkpoints.storage import disk_of
from ..execution.streaming_options import parallelism_of


@frozen
class Combination:
    """What a job combines.

    Attributes:
      delivery: "barriers", "strong" or "weak".
      recovery: "graph" or "region".
      checkpoint_mode: "aligned" or "unaligned".
      alignment_timeout: in seconds, or None.
      parallelism: the number of subtasks of each task.
      allow_dropped_state: drop state of steps that the pipeline no longer has.
      checkpoint_dir: the directory of checkpoints or logs that is kept; None without one.
      is_bounded: all input is bounded.
      loop: the label of a loop, or None.
      state_backend: "memory" or "rocksdb".
    """

    delivery: str = "barriers"
    recovery: str = "graph"
    checkpoint_mode: str = "aligned"
    alignment_timeout: float | None = None
    parallelism: int = 2
    allow_dropped_state: bool = False
    checkpoint_dir: str | None = None
    is_bounded: bool = False
    loop: str | None = None
    state_backend: str = "memory"

    @classmethod
    def of(cls, graph: Graph, streaming: StreamingOptions) -> Combination:
        """Return what a pipeline with these options combines."""
        directory, loops = streaming.checkpoint_dir, graph.loops()
        return cls(
            streaming.delivery,
            streaming.recovery,
            streaming.checkpoint_mode,
            streaming.alignment_timeout,
            parallelism_of(streaming),
            streaming.allow_dropped_state,
            None if directory is None else str(directory),
            graph.is_bounded,
            loops[0].label if loops else None,
            streaming.state_backend,
        )


class Refusal(NamedTuple):
    """Two things that don't go together.

    Attributes:
      option: the option that is refused, as the documentation shows it.
      other: what it doesn't go with, as the documentation shows it.
      applies: whether a combination has both.
      met: the other, with attributes of the combination.
      why: the reason.
      instead: the way out.
    """

    option: str
    other: str
    applies: Callable[[Combination], bool]
    met: str
    why: str
    instead: str

    def of(self, combination: Combination) -> str:
        """Return the text of an error."""
        name = self.option.partition("=")[0]
        value = getattr(combination, name)
        given = "" if value is True else f"={value:g}" if isinstance(value, float) else f"={value}"
        met = self.met.format_map(attrs.asdict(combination))
        return f"option --{name}{given}: with {met} {self.why}; {self.instead}"


_UNALIGNED, _STRONG_OR_WEAK = "checkpoint_mode=unaligned", "`--delivery=strong` or `weak`"

REFUSALS = (
    Refusal(
        _UNALIGNED,
        "a loop",
        lambda c: c.checkpoint_mode == "unaligned" and c.loop is not None,
        "the loop {loop}",
        "barriers have to be aligned",
        "use --checkpoint_mode=aligned",
    ),
    Refusal(
        _UNALIGNED,
        _STRONG_OR_WEAK,
        lambda c: c.checkpoint_mode == "unaligned" and c.delivery != "barriers",
        "--delivery={delivery}",
        "there are no barriers",
        "leave it out, or use --delivery=barriers",
    ),
    Refusal(
        "alignment_timeout",
        f"`--{_UNALIGNED}`",
        lambda c: c.alignment_timeout is not None and c.checkpoint_mode == "unaligned",
        "--checkpoint_mode=unaligned",
        "there is no alignment that could take too long",
        "leave it out",
    ),
    Refusal(
        "alignment_timeout",
        _STRONG_OR_WEAK,
        lambda c: c.alignment_timeout is not None and c.delivery != "barriers",
        "--delivery={delivery}",
        "there are no barriers",
        "leave it out",
    ),
    Refusal(
        "alignment_timeout",
        "`--recovery=region`",
        lambda c: c.alignment_timeout is not None and c.recovery == "region",
        "--recovery=region",
        "a checkpoint may have no in-flight records, which would be processed twice",
        "leave it out",
    ),
    Refusal(
        "alignment_timeout",
        "a loop",
        lambda c: c.alignment_timeout is not None and c.loop is not None,
        "the loop {loop}",
        "barriers have to be aligned",
        "leave it out",
    ),
    Refusal(
        "recovery=region",
        "`--parallelism=1`",
        lambda c: c.recovery == "region" and c.parallelism == 1,
        "--parallelism={parallelism}",
        "there is only one subtask of each task",
        "use --recovery=graph",
    ),
    Refusal(
        "recovery=region",
        _STRONG_OR_WEAK,
        lambda c: c.recovery == "region" and c.delivery != "barriers",
        "--delivery={delivery}",
        "a failed worker is replaced, and no other subtask restarts",
        "use --recovery=graph",
    ),
    Refusal(
        "recovery=region",
        f"`--{_UNALIGNED}`",
        lambda c: c.recovery == "region" and c.checkpoint_mode == "unaligned",
        "--checkpoint_mode=unaligned",
        "a checkpoint has in-flight records, which would be processed twice",
        "use --recovery=graph",
    ),
    Refusal(
        "recovery=region",
        "a bounded input without `--checkpoint_dir`",
        lambda c: c.recovery == "region" and c.is_bounded and c.checkpoint_dir is None,
        "a bounded input and no --checkpoint_dir",
        "there is no checkpoint to restart from",
        "use --recovery=graph",
    ),
    Refusal(
        "recovery=region",
        "a loop",
        lambda c: c.recovery == "region" and c.loop is not None,
        "the loop {loop}",
        "all subtasks restart, as its elements may be in any of them",
        "use --recovery=graph",
    ),
    Refusal(
        "state_backend=rocksdb",
        _STRONG_OR_WEAK,
        lambda c: c.state_backend == "rocksdb" and c.delivery != "barriers",
        "--delivery={delivery}",
        "a subtask's log has all of its state in one record, which has to fit into memory",
        "leave it out, or use --delivery=barriers",
    ),
    Refusal(
        "allow_dropped_state",
        _STRONG_OR_WEAK,
        lambda c: c.allow_dropped_state and c.delivery != "barriers",
        "--delivery={delivery}",
        "a pipeline resumes with the same steps only",
        "leave it out, or use --delivery=barriers",
    ),
    Refusal(
        "checkpoint_dir=s3://BUCKET",
        _STRONG_OR_WEAK,
        lambda c: c.delivery != "barriers" and c.checkpoint_dir is not None and not _appends(c.checkpoint_dir),
        "--delivery={delivery}",
        "it has to be on a disk whose files can be appended to, which an object store isn't",
        "give a directory of a local disk, or use --delivery=barriers",
    ),
)


def _appends(directory: str) -> bool:
    return disk_of(directory).can_append


def refusal_of(combination: Combination) -> str | None:
    """Return why a combination is refused, with the option and the way out; None for one that runs."""
    return next((refusal.of(combination) for refusal in REFUSALS if refusal.applies(combination)), None)


def check_combination(combination: Combination) -> None:
    """Raise `OptionsError` for a combination that is refused."""
    if (why := refusal_of(combination)) is not None:
        raise OptionsError(why)


def combinations_table() -> list[str]:
    """Return the lines of the table of the documentation.

    >>> print(combinations_table()[2])
    | `--checkpoint_mode=unaligned` | a loop | barriers have to be aligned |
    """
    rows = [f"| `--{refusal.option}` | {refusal.other} | {refusal.why} |" for refusal in REFUSALS]
    return ["| option | isn't combined with | since with it |", "| --- | --- | --- |", *rows]
