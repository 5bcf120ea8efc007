"""The errors of penstock.

A message names the transform by its full label, what was found, what was expected and what to do.  Exceptions of user
code are never replaced: see `UserCodeError`.
"""

from __future__ import annotations

from typing import Any

from .extras import installed_by
from .redaction import redacted


class PenstockError(Exception):
    """Base class of the errors of penstock.

    Files, databases and servers are named by connection strings; the secrets in these are hidden, see `redacted`.

    Attributes:
      transform: the full label of the transform concerned; "" if there is none or it is unknown.
    """

    transform: str = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args), **kwargs)


class PipelineError(PenstockError):
    """The pipeline is invalid; raised while it is being built."""


class CoderClassError(PipelineError, TypeError):
    """Something else than a class of coders is registered as the coder of a type."""


class InputError(PipelineError, TypeError, ValueError):
    """An argument or an input of a transform is of another kind than it takes."""


class NoPCollectionError(InputError, AttributeError):
    """A transform of PCollections is applied to the pipeline itself."""


class DuplicateLabelError(PipelineError, RuntimeError):
    """Two transforms of one pipeline have the same full label."""


class UnclosedErrorHandlerError(PipelineError, RuntimeError):
    """An error handler whose dead letters would be lost, or that is used after its `with` block."""


class UnknownTagError(PipelineError, ValueError):
    """An output is asked for by a tag that the transform doesn't have."""


class TypeHintError(PipelineError):
    """The output type of a transform doesn't fit the input type of the next one.

    >>> import penstock as beam
    >>> words = beam.Pipeline() | beam.Create(["tea"])
    >>> words | beam.Map(abs).with_input_types(int)
    Traceback (most recent call last):
    penstock.sdk.errors.TypeHintError: The transform 'Map(abs)' requires PCollections of type '<class 'int'>' but ...
    """


class NotIterableHintError(TypeHintError, ValueError):
    """The annotated result of a function that returns several outputs isn't iterable."""


class BatchTypeError(TypeHintError, TypeError):
    """The types of a DoFn's batches don't fit each other, or the elements."""


class StatefulDoFnError(PipelineError, ValueError):
    """A DoFn's states and timers are inconsistent, or can't be used with its input."""


class EndlessGroupError(PipelineError, ValueError):
    """A grouping would wait for the end of an unbounded input."""


class UnsupportedError(PipelineError, NotImplementedError):
    """The runner doesn't support a feature that the pipeline needs."""


class SerializationError(PenstockError, ValueError):
    """A value can't be encoded or decoded, or an object that must be sent to a worker can't be pickled."""


class OptionsError(PenstockError):
    """A pipeline option is unknown or has a value of the wrong type."""


class InvalidOptionError(OptionsError, SystemExit):
    """A flag has a wrong value.  A program that doesn't catch the error ends with status 2, as with argparse."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 2


class MissingOptionError(OptionsError, SystemExit):
    """A required option wasn't given.  A program that doesn't catch the error ends with status 2, as with argparse."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 2


class MissingExtraError(PenstockError, ImportError):
    """An optional dependency is not installed; the message names its extra."""


class InvalidKeyError(PenstockError, TypeError, ValueError):
    """A key can't be grouped: it has no hash, or no deterministic encoding."""


class NotAPairError(PenstockError, TypeError):
    """An input element of a grouping is not a (key, value) pair."""


class LargeGroupError(PenstockError, TypeError, AttributeError):
    """A group that is too large for memory is used as a list: indexed, sorted or changed."""


class ColumnError(PenstockError, ValueError):
    """An expression over the fields of elements can't be computed."""


class SideInputError(PenstockError, ValueError):
    """The elements of a side input don't fit its view."""


class SourceError(PenstockError, OSError):
    """A source can't be read: it is missing, unreadable or malformed."""


class SinkError(PenstockError, OSError):
    """A sink can't be written."""


class WorkingDirectoryError(PenstockError, FileNotFoundError):
    """The working directory of the process was deleted, and a relative path, or a program that is started, needs it."""


class RejectedRecordError(SinkError):
    """A sink's target refuses a record: a constraint of a table, an invalid file name, a key with two values.

    Attributes:
      record: its shortened `repr`; "" if unknown.
    """

    record: str = ""


class SnapshotError(PenstockError):
    """A checkpoint can't be written, or is missing.  Earlier commits are unaffected."""


class UnknownFormatError(SnapshotError):
    """A file has a record, or a value of a type of penstock, in an unknown version."""


class CorruptSnapshotError(SnapshotError):
    """A file of a checkpoint is damaged.

    Attributes:
      file: its path.
      found: a description of the content that was found.
      expected: a description of the expected content.
    """

    def __init__(self, file: str, found: str, expected: str) -> None:
        super().__init__(file, found, expected)
        self.file, self.found, self.expected = self.args

    def __str__(self) -> str:
        return f"{self.file}: found {self.found}, expected {self.expected}"


class StaleWriterError(SnapshotError):
    """Another coordinator has taken over the checkpoints: this writer is fenced, and may commit no more."""


class UncertainCommitError(SnapshotError):
    """A commit failed half-way, so that only a restart can tell whether the checkpoint is complete."""


class UntrustedSnapshotError(SnapshotError):
    """Other users could have written the checkpoints, and reading them would run their code."""


class CheckpointMismatchError(SnapshotError):
    """A checkpoint has state that doesn't belong to any step of the pipeline."""


class StateNotFoundError(PenstockError, LookupError):
    """A checkpoint has no state of the step, key, name or window that was asked for."""


class AmbiguousStateError(PenstockError, LookupError):
    """A key has state in several cells or windows, and the read names none of them."""


class RunnerError(PenstockError):
    """A runner can't be found or started, or failed outside of user code."""


class UnknownRunnerError(RunnerError, ValueError):
    """No runner has the given name."""


class SimulationError(PenstockError):
    """A simulated run had wrong results, did not end, or failed without a fault.

    Attributes:
      trace: the events of the run, line by line.
    """

    def __init__(self, message: str, seed: int = 0, trace: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.seed = seed
        self.trace = trace


class UserCodeError(PenstockError):
    """A user's function raised an exception.

    `Pipeline.run` raises an instance that is *also* of the class of the user's exception, if Python allows such a
    class, so `except ValueError` around a pipeline works.  The original exception is its `__cause__`, with a traceback
    of the user's own frames.

    Attributes:
      transform: the full label of the transform with the function.
      element: a shortened `repr` of its element, or None.
      location: "file:line" of the user's frame that raised, or None.
    """

    element: str | None = None
    location: str | None = None


def missing_extra(package: str, extra: str, needed_for: str) -> MissingExtraError:
    """Return the error for an optional dependency that is not installed.

    >>> print(missing_extra("pyarrow", "parquet", "ReadFromParquet"))
    ReadFromParquet needs the package 'pyarrow': pip install 'penstock[parquet]'
    """
    return MissingExtraError(f"{needed_for} needs the package '{package}': {installed_by(extra)}")
