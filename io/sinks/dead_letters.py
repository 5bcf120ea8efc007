"""Dead letters: records that a sink's target refuses, kept by the sink with `--on_commit_error=dead_letter`.

>>> refused = Rejected({"word": None, "n": 3}, 1, "NOT NULL constraint failed: words.word")
>>> refused.as_json()
'{"word":null,"n":3}'
>>> raise_for([refused])
Traceback (most recent call last):
penstock.sdk.errors.RejectedRecordError: it refuses {'word': None, 'n': 3}: NOT NULL constraint failed: words.word
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.errors import RejectedRecordError
from ...sdk.metrics import DEAD_LETTERS
from ...sdk.redaction import redacted

_logger = logging.getLogger(__name__)


@frozen
class Rejected:
    """A record that the target refuses.

    Attributes:
      record: its fields, or the value itself.
      sign: -1 for a retraction.
      why: the target's message.
    """

    record: Any
    sign: int
    why: str = attrs.field(converter=redacted)

    def as_json(self) -> str:
        """Return the record as ASCII JSON; values that JSON has no form for become text."""
        text = json.dumps(self.record, ensure_ascii=False, separators=(",", ":"), default=_as_text)
        # A surrogate without the other half, escaped as JSON does.
        return text.encode(errors="backslashreplace").decode()


def _as_text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def raise_for(rejected: Sequence[Rejected]) -> None:
    """Raise `RejectedRecordError` for the first rejected record, if there is one."""
    if not rejected:
        return
    first = rejected[0]
    shown = shortened(first.record, 200)
    what = f"it refuses {shown}" if first.sign > 0 else f"it refuses the retraction of {shown}"
    more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
    error = RejectedRecordError(f"{what}{more}: {first.why}")
    error.record = shown
    raise error


def tell(rejected: Sequence[Rejected], transform: str, where: str, elements: int | None = None) -> None:
    """Log each dead letter, and count their elements.

    Args:
      elements: the number of elements, if a dead letter has several or none.
    """
    if n := len(rejected) if elements is None else elements:
        DEAD_LETTERS.inc(n)
    for each in rejected:
        shown = shortened(each.record, 200)
        _logger.warning("%s: %s is refused, and written to %s: %s", transform, shown, redacted(where), each.why)
