"""Every error that penstock raises itself.

A message names the transform by its full label, what was found, what was
expected and what to do.  What user code raises is never replaced: see
`UserCodeError`.
"""

from __future__ import annotations

from typing import Any

from .redaction import redacted


class PenstockError(Exception):
    """The base of every error that penstock raises itself.

    Files, databases and servers are named by connection strings; the secrets in these are hidden, see `redacted`.

    Attributes:
      transform: the full label of the transform that it is about; "" if of none, or not known.
    """

    transform: str = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args), **kwargs)


class PipelineError(PenstockError):
    """The pipeline is put together wrongly; raised while it is being built."""


class DuplicateLabelError(PipelineError):
    """Two transforms of one pipeline have the same full label."""


class TypeHintError(PipelineError):
    """What one transform produces is not what the next one takes."""


class StatefulDoFnError(PipelineError, ValueError):
    """A DoFn's states and timers don't fit together, or can't be had where it is applied."""


class EndlessGroupError(PipelineError, ValueError):
    """A grouping would wait for the end of an input that has none."""


class UnsupportedError(PipelineError):
    """The chosen runner can't do what the pipeline asks for, so it refuses."""


class SerializationError(PenstockError):
    """Something that has to travel to a worker can't be pickled."""


class OptionsError(PenstockError):
    """A pipeline option is unknown or has a value of the wrong type."""


class MissingExtraError(PenstockError, ImportError):
    """An optional dependency is not installed; names the extra that brings it."""


class InvalidKeyError(PenstockError, TypeError):
    """A key can't be grouped by: it has no hash, or no deterministic encoding."""


class NotAPairError(PenstockError, TypeError):
    """A grouping was given an element that is not a (key, value) pair."""


class SideInputError(PenstockError, ValueError):
    """A side input does not hold what its view promises."""


class SourceError(PenstockError, OSError):
    """A source can't be read: it is missing, unreadable or malformed."""


class SinkError(PenstockError, OSError):
    """A sink can't be written."""


class RejectedRecordError(SinkError):
    """A sink's target refuses a record: a constraint of a table, a name that no file can have, a key with two values.

    Attributes:
      record: a shortened `repr` of it; "" where it isn't known.
    """

    record: str = ""


class SnapshotError(PenstockError):
    """A checkpoint can't be written, or isn't there.  What was committed before stays as it was."""


class UnknownFormatError(SnapshotError):
    """A file has a record, or a value of a type of the library's, in a version that can't be read."""


class CorruptSnapshotError(SnapshotError):
    """A file of a checkpoint is not what was written.

    Attributes:
      file: its path.
      found: what was found there, in words.
      expected: what should have been there, in words.
    """

    def __init__(self, file: str, found: str, expected: str) -> None:
        super().__init__(file, found, expected)
        self.file, self.found, self.expected = self.args

    def __str__(self) -> str:
        return f"{self.file}: found {self.found}, expected {self.expected}"


class StaleWriterError(SnapshotError):
    """Somebody else has taken over the checkpoints since: nothing more may be committed by this writer."""


class UncertainCommitError(SnapshotError):
    """A commit failed half-way, so that only a restart can tell whether the checkpoint is there."""


class UntrustedSnapshotError(SnapshotError):
    """Others could have written the checkpoints, and reading them would run what they wrote."""


class CheckpointMismatchError(SnapshotError):
    """A checkpoint has state that the pipeline has no place for."""


class RunnerError(PenstockError):
    """A runner can't be found or started, or failed outside of user code."""


class UserCodeError(PenstockError):
    """A user's function raised.

    `Pipeline.run` raises an instance that is *also* of the class that the user's
    function raised, wherever Python lets one class be both, so `except ValueError`
    around a pipeline goes on working.  The original is its `__cause__`, its
    traceback cut down to the user's own frames.

    Attributes:
      transform: the full label of the transform whose function raised.
      element: a shortened `repr` of the element it was given, or None.
      location: "file:line" of the user's frame that raised, or None.
    """

    element: str | None = None
    location: str | None = None


def missing_extra(package: str, extra: str, needed_for: str) -> MissingExtraError:
    """The error for an optional dependency that is not installed.

    >>> print(missing_extra("pyarrow", "parquet", "ReadFromParquet"))
    ReadFromParquet needs the package 'pyarrow': pip install 'penstock[parquet]'
    """
    return MissingExtraError(f"{needed_for} needs the package '{package}': pip install 'penstock[{extra}]'")
