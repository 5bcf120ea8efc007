"""Matchers of a run's state, and of the files that it has written, for PyHamcrest."""

from __future__ import annotations

import time
from typing import Any

from ...io.connections import retry
from ...sdk.runner import PipelineState
from ..sdk.matching import BaseMatcher
from .file_systems import FileSystems
from .test_utils import compute_hash

# Attempts to read the files after the first one.
MAX_RETRIES = 4


class PipelineStateMatcher(BaseMatcher):
    """Matcher of a `PipelineResult` by its state.

    >>> from penstock.sdk.runner import PipelineResult
    >>> PipelineStateMatcher().matches(PipelineResult(PipelineState.FAILED))
    False
    """

    def __init__(self, expected_state: str = PipelineState.DONE) -> None:
        self.expected_state = expected_state

    def _matches(self, item: Any) -> bool:
        return bool(item.state == self.expected_state)

    def describe_to(self, description: Any) -> None:
        """Append what is expected to a description of PyHamcrest."""
        description.append_text(f"a pipeline in the state {self.expected_state}")

    def describe_mismatch(self, item: Any, mismatch_description: Any) -> None:
        """Append what was found."""
        mismatch_description.append_text(f"its state is {item.state}")


def retry_on_io_error_and_server_error(exception: BaseException) -> bool:
    """Return whether an error may not occur again: those of input and output."""
    return isinstance(exception, OSError)


class FileChecksumMatcher(BaseMatcher):
    """Matcher by the hash of the lines of files, whatever is matched.

    Args:
      file_path: a path or pattern.
      expected_checksum: the `compute_hash` of the lines, in any order.
      sleep_secs: whole seconds to wait before the files are read.

    Raises `ValueError` for other seconds.  The match raises `OSError` if no file matches the pattern.
    """

    def __init__(self, file_path: str, expected_checksum: Any, sleep_secs: int | None = None) -> None:
        if sleep_secs is not None and not isinstance(sleep_secs, int):
            raise ValueError(
                f"Sleep seconds, if received, must be int. But received: {sleep_secs!r}, {type(sleep_secs)}"
            )
        self.file_path = file_path
        self.expected_checksum = expected_checksum
        self.sleep_secs = sleep_secs
        self.checksum = ""

    @retry.with_exponential_backoff(num_retries=MAX_RETRIES, retry_filter=retry_on_io_error_and_server_error)
    def _lines(self) -> list[bytes]:
        (found,) = FileSystems.match([self.file_path])
        if not found.metadata_list:
            raise OSError(f"No such file or directory: {self.file_path}")
        lines: list[bytes] = []
        for metadata in found.metadata_list:
            with FileSystems.open(metadata.path) as file:
                lines += file
        return lines

    def _matches(self, item: Any) -> bool:
        if self.sleep_secs:
            time.sleep(self.sleep_secs)
        self.checksum = compute_hash(self._lines())
        return bool(self.checksum == self.expected_checksum)

    def describe_to(self, description: Any) -> None:
        """Append what is expected to a description of PyHamcrest."""
        description.append_text(f"files {self.file_path} with the checksum {self.expected_checksum}")

    def describe_mismatch(self, item: Any, mismatch_description: Any) -> None:
        """Append what was found."""
        mismatch_description.append_text(f"their checksum is {self.checksum}")
