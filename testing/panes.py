"""TestPane and equal_to_panes: the elements that reach an `assert_that`, with their panes and signs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from ..frozen import frozen
from ..sdk.dofn.dofn import DoFn
from ..triggers import PaneInfo
from ..triggers.pane import PaneInfoTiming
from ..windowing import Timestamp


def _timestamp(time: Any) -> Timestamp | None:
    return None if time is None else Timestamp.of(time)


@frozen
class TestPane:
    """A value with its window, pane info and sign.

    In an expected pane, a window, pane info or timestamp of None matches any; a `PaneInfoTiming` as pane info matches
    every pane with that timing.

    Attributes:
      value: the element.
      window: its window.
      pane_info: its pane.
      sign: 1, or -1 for a retraction.
      timestamp: its event time.

    >>> print(TestPane(3, sign=-1, timestamp=9))
    -3 @ Timestamp(9)
    """

    # Keep pytest from collecting it as a test.
    __test__ = False

    value: Any
    window: Any = None
    pane_info: PaneInfo | PaneInfoTiming | None = None
    sign: int = 1
    timestamp: Any = attrs.field(default=None, kw_only=True, converter=_timestamp)

    def expects(self, actual: TestPane) -> bool:
        """Return True if an actual pane, with all of its attributes, matches this one."""
        pane = actual.pane_info.timing if isinstance(self.pane_info, PaneInfoTiming) else actual.pane_info  # type: ignore[union-attr]
        return bool(
            self.value == actual.value
            and self.sign == actual.sign
            and self.window in (None, actual.window)
            and self.pane_info in (None, pane)
            and self.timestamp in (None, actual.timestamp)
        )

    def __str__(self) -> str:
        parts = [f"{'+' if self.sign > 0 else '-'}{self.value!r}"]
        if self.window is not None:
            parts.append(f"in {self.window}")
        if self.timestamp is not None:
            parts.append(f"@ {self.timestamp}")
        pane = self.pane_info
        if isinstance(pane, PaneInfoTiming):
            parts.append(str(pane))
        elif pane is not None:
            ends = " first" * pane.is_first + " last" * pane.is_last
            parts.append(f"{pane.timing} pane {pane.index}/{pane.nonspeculative_index}{ends}")
        return " ".join(parts)

    __repr__ = __str__


class ReifyPanes(DoFn):
    """Elements, retractions included, to `TestPane`s."""

    def process(
        self,
        element: Any,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: Any = DoFn.WindowParam,
        pane_info: PaneInfo = DoFn.PaneInfoParam,
        sign: int = DoFn.SignParam,
    ) -> Iterable[TestPane]:
        yield TestPane(element, window, pane_info, sign, timestamp=timestamp)


@frozen
class PanesMatcher:
    """A matcher that `assert_that` calls with `TestPane`s."""

    matches: Callable[[Any], None]

    def __call__(self, actual: Any) -> None:
        self.matches(actual)
