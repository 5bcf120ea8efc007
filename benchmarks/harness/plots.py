"""Plots, as PNG in docs/: drawn where matplotlib is there, which only the extra `dev` asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"


def plot(
    name: str,
    title: str,
    x: str,
    y: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log: bool = False,
    level: tuple[str, float] | None = None,
) -> None:
    """Draw lines of points into docs/NAME.png; `level` is a name and a height that they are measured against."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), dpi=120)
    for label, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4 if len(points) < 20 else 0, label=label)
    if level is not None:
        axes.axhline(level[1], linestyle="--", color="grey", label=level[0])
    if log:
        axes.set_xscale("log")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(DOCS / f"{name}.png", metadata={"Software": None})
    pyplot.close(figure)
