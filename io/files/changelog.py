"""WriteToChangelog: each addition and retraction of its input as a line of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...sdk.elements.bundle import Bundle
from ...sdk.options.value_provider import ValueProvider
from ...sdk.sink import SinkSpec
from ...triggers.pane import PaneInfo
from ...windowing.microseconds import MICROS_PER_SECOND
from ...windowing.windows import GLOBAL_WINDOW, BoundedWindow
from ..records import as_dict, is_record
from .compression import CompressionTypes
from .filesystem import AnyPath
from .json import JsonFormat
from .write import FileSink, WriteFiles


class WriteToChangelog(WriteFiles):
    r"""Additions ("+") and retractions ("-"), with timestamp, window and pane.

    Takes a `PCollection[T]`, of any type.

    A line is an object with

      op         "+", or "-" for a retraction
      value      the element; a record (a Row, a dict, ...) is an object
      timestamp  in seconds of event time since 1970
      window     its start and end in seconds, or "global"
      pane       timing, index, first and last: see `PaneInfo`

    and an element in several windows has a line for each of them.  Lines of one file are in the order of their arrival.
    The sum of the signs of equal values is the result.  `FileSink` describes when files appear, and their names.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create([beam.window.TimestampedValue("to", 7)])
    ...     words = words | beam.WindowInto(beam.window.FixedWindows(60)) | beam.combiners.Count.PerElement()
    ...     _ = words | beam.io.WriteToChangelog(directory / "changes", file_name_suffix=".jsonl")
    >>> [file] = directory.iterdir()
    >>> print(file.read_text().replace(',"', ',\n "').rstrip())
    {"op":"+",
     "value":["to",1],
     "timestamp":59.999999,
     "window":{"start":0,
     "end":60},
     "pane":{"timing":"ON_TIME",
     "index":0,
     "first":true,
     "last":true}}
    """

    def __init__(
        self,
        file_path_prefix: AnyPath,
        file_name_suffix: str | ValueProvider = "",
        *,
        compression_type: str = CompressionTypes.AUTO,
        max_records_per_shard: int | None = None,
        skip_if_empty: bool = False,
    ) -> None:
        super().__init__(
            ChangelogSink(
                file_path_prefix,
                JsonFormat(),
                file_name_suffix=file_name_suffix,
                compression_type=compression_type,
                max_records_per_shard=max_records_per_shard,
                skip_if_empty=skip_if_empty,
                transform=type(self).__name__,
            )
        )


class ChangelogSink(FileSink):
    """Files of changes, which hold each element with its timestamp, window and pane."""

    spec = SinkSpec(accepts_retractions=True, has_dead_letters=True)

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Iterable[Any]]]:
        return [(None, None, changes(bundle))]


def changes(bundle: Bundle) -> Iterator[dict[str, Any]]:
    """Yield the fields of a line for each element of a bundle and each of its windows.

    >>> from penstock.sdk.elements.bundle import Bundle
    >>> next(changes(Bundle(["a"], timestamps=1_500_000, signs=-1)))["op"]
    '-'
    """
    for value, timestamp, windows, pane, sign in bundle.rows():
        shown = as_dict(value) if is_record(value) else value
        for window in windows:
            yield {
                "op": "+" if sign > 0 else "-",
                "value": shown,
                "timestamp": _seconds(timestamp),
                "window": _window(window),
                "pane": _pane(pane),
            }


def _window(window: BoundedWindow) -> Any:
    if window is GLOBAL_WINDOW:
        return "global"
    start = getattr(window, "start", None)
    # A user's own window has an end, but not always a start.
    of_start = {} if start is None else {"start": _seconds(start.micros)}
    return of_start | {"end": _seconds(window.end.micros)}


def _pane(pane: PaneInfo) -> dict[str, Any]:
    return {"timing": pane.timing.name, "index": pane.index, "first": pane.is_first, "last": pane.is_last}


def _seconds(micros: int) -> float:
    """Return seconds for JSON: whole seconds as an int."""
    whole, rest = divmod(micros, MICROS_PER_SECOND)
    return micros / MICROS_PER_SECOND if rest else whole
