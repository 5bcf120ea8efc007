"""A row of a table of shares: what a page adds, found again and again."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from harness.timing import Figure, Figures


def row(name: str, times: str, shares: Sequence[float]) -> Figures:
    """Return the row.

    Args:
      times: what the shares are counted in.

    >>> print(row("steps: open, against closed", "slots", [0.01, -0.02, 0.0]))
    steps: open, against closed                  slots 3   median 0.0 %   lower quartile -2.0 %   upper quartile 1.0 %
    """
    low, _, high = quantiles(shares) if len(shares) > 1 else [*shares] * 3
    found = {
        times: Figure(len(shares)),
        "median": Figure(median(shares) * 100, "%", 1),
        "lower quartile": Figure(low * 100, "%", 1),
        "upper quartile": Figure(high * 100, "%", 1),
    }
    return Figures(name, found)
