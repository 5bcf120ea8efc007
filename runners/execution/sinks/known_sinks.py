"""Known sinks: what a run writes down of its sinks, so that a later start finds the output of those that are gone.

A sink may be renamed or removed while it has open transactions.  A sink of the pipeline with the same target takes the
place of a renamed one: it commits and aborts them under the label that they were begun with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from ....sdk.redaction import logger_of
from ....sdk.sink import LabelledSink
from ....sdk.user_code.error_text import text_or_class

if TYPE_CHECKING:
    from ..checkpoints.storage import Disk

_logger = logger_of(__name__)

# The name of the file, and its format.
SINKS = "sinks"
_FORMAT = "penstock sinks"


@frozen
class KnownSink:
    """A sink, without secrets.

    Attributes:
      label: the label by which it names what it keeps at its target, which may be that of a composite.
      kind: the name of its class.
      target: see `Sink.target`; None for a sink that no other takes the place of.
    """

    label: str
    kind: str
    target: str | None

    @property
    def where(self) -> str:
        """The target, or the kind of a sink that names none."""
        return self.target or self.kind

    @staticmethod
    def of(labelled: LabelledSink) -> KnownSink:
        """Return what is known of a sink of the pipeline."""
        sink = labelled.sink
        return KnownSink(labelled.label, type(sink).__qualname__, sink.target())


@frozen
class KnownSinks:
    """The file of the sinks among the checkpoints."""

    disk: Disk
    directory: str

    def read(self) -> dict[str, KnownSink]:
        """Return the sinks of the run before, by label; of an earlier version's run none are known."""
        # Runs without checkpoints import none of it.
        from ..checkpoints.manifest import unsealed

        path = f"{self.directory}/{SINKS}"
        if not self.disk.exists(path):
            return {}
        try:
            return unsealed(path, self.disk.read(path), _FORMAT, dict[str, KnownSink])
        except CorruptSnapshotError as error:
            _logger.warning("%s; continuing without it", error)
            return {}

    def write(self, sinks: Mapping[str, KnownSink]) -> None:
        """Write the sinks of this run.  Raises `SnapshotError`."""
        from ..checkpoints.manifest import sealed

        path = f"{self.directory}/{SINKS}"
        try:
            self.disk.write_atomically(path, sealed(_FORMAT, dict(sinks)))
        except OSError as error:
            raise SnapshotError(f"{path} can't be written: {text_or_class(error)}") from error


def in_place_of(known: Mapping[str, KnownSink], sinks: Mapping[str, LabelledSink]) -> dict[str, LabelledSink]:
    """Return, for each sink that the pipeline doesn't have any more, the one that takes its place, by the old label.

    That is the only sink with its target which is new in the pipeline.
    """
    new = [(KnownSink.of(sink), sink) for label, sink in sinks.items() if label not in known]
    found: dict[str, LabelledSink] = {}
    for label, gone in known.items():
        if label in sinks or gone.target is None:
            continue
        rivals = [each for at, each in known.items() if at not in sinks and _same(each, gone)]
        fitting = [sink for now, sink in new if _same(now, gone)]
        if len(rivals) == len(fitting) == 1:
            found[label] = attrs.evolve(fitting[0], label=gone.label)
    return found


def moved(known: Mapping[str, KnownSink], sinks: Mapping[str, LabelledSink]) -> dict[str, KnownSink]:
    """Return the sinks of the run before that write to another target now, by label, as they were then."""
    now = {label: KnownSink.of(sink) for label, sink in sinks.items() if label in known}
    return {label: known[label] for label, sink in now.items() if not _same(known[label], sink)}


def _same(one: KnownSink, other: KnownSink) -> bool:
    return (one.kind, one.target) == (other.kind, other.target)
