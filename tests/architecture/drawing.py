"""The drawing of the package: its sub-packages, each above those that it imports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape

import attrs
from architecture.imports import ROOT, imports, modules

DRAWING = ROOT / "docs" / "architecture.svg"

# Packages whose sub-packages are drawn on their own.
_OPEN = frozenset({"runners", "runners.execution", "runners.local", "runners.spark"})

# Programs that use the package, and names for type checkers.
_NOT_DRAWN = frozenset(
    {"__main__", "coders", "metrics", "options", "pvalue", "trigger", "typehints", "utils", "window"}
)

# By the first part of a package's name, the fill of its box.
_FILLS = {
    "runners.execution": "#dcebfa",
    "runners.local": "#e2f3e0",
    "runners.spark": "#fde8d3",
    "runners": "#eeeeee",
}
_OTHER = "#f4f0fa"

# In pixels.
_CHARACTER, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 7.4, 40, 22, 56, 20
_MOST_IN_A_ROW = 6


@attrs.define
class _Box:
    name: str
    modules: int
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        return max(len(self.name), 12) * _CHARACTER + 20


def package_of(module: str) -> str:
    """Return the package that a module is drawn in.

    A module at the root of a package that is drawn in parts is a part of its own.
    """
    parts = module.split(".")
    depth = 1
    while depth < len(parts) and ".".join(parts[:depth]) in _OPEN:
        depth += 1
    return ".".join(parts[:depth])


def packages() -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the packages with their numbers of modules, and the packages that each imports."""
    known, graph = modules(), imports()
    inner = {name for name, path in known.items() if path.name == "__init__.py" and name not in _OPEN and name}
    drawn = {}
    for module, path in known.items():
        if path.name == "__init__.py" or module.split(".")[0] in _NOT_DRAWN or module.startswith("examples."):
            continue
        package = package_of(module)
        if package == module and "." in module:
            # A module at the root of a package that is drawn in parts.
            root = module.rsplit(".", 1)[0]
            package = module if _stands_on_parts(module, f"{root}.", graph, inner) else f"{root}/base"
        drawn[module] = package
    sizes: dict[str, int] = defaultdict(int)
    edges: dict[str, set[str]] = defaultdict(set)
    for module, package in drawn.items():
        sizes[package] += 1
        edges[package] |= {drawn[other] for other in graph[module] if other in drawn and drawn[other] != package}
    return dict(sizes), dict(edges)


def _stands_on_parts(module: str, root: str, graph: Mapping[str, Iterable[str]], inner: set[str]) -> bool:
    """Return whether a module imports a part of the package that it is at the root of, or a module beside it does."""
    beside = {other for other in graph[module] if other.startswith(root)}
    return any(
        package_of(other) in inner or (package_of(other) == other and _stands_on_parts(other, root, graph, inner))
        for other in beside
    )


def _ranks(edges: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the row of each package, from below: above everything that it imports."""
    ranks: dict[str, int] = {}

    def rank(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(f"packages import each other: {' -> '.join([*above[above.index(name) :], name])}")
        if name not in ranks:
            ranks[name] = 1 + max((rank(other, (*above, name)) for other in sorted(edges.get(name, ()))), default=-1)
        return ranks[name]

    for name in sorted(edges):
        rank(name, ())
    return ranks


def _reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that don't follow from others."""
    reach: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in reach:
            reach[name] = set().union(*({other} | reached(other) for other in edges.get(name, ())))
        return reach[name]

    return {
        name: {o for o in own if not any(o in reached(other) for other in own - {o})} for name, own in edges.items()
    }


def svg() -> str:
    """Return the drawing."""
    sizes, edges = packages()
    ranks = _ranks({name: edges.get(name, set()) for name in sizes})
    boxes = {name: _Box(name.removeprefix("runners."), size) for name, size in sizes.items()}
    rows: list[list[str]] = []
    for rank in sorted(set(ranks.values()), reverse=True):
        names = sorted(name for name in boxes if ranks[name] == rank)
        rows += [names[i : i + _MOST_IN_A_ROW] for i in range(0, len(names), _MOST_IN_A_ROW)]
    widths = [sum(boxes[name].width for name in row) + _GAP_X * (len(row) - 1) for row in rows]
    whole = max(widths)
    for number, (row, width) in enumerate(zip(rows, widths, strict=True)):
        x = _MARGIN + (whole - width) / 2
        for name in row:
            boxes[name].x, boxes[name].y = x, _MARGIN + number * (_HEIGHT + _GAP_Y)
            x += boxes[name].width + _GAP_X
    height = len(rows) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    return "\n".join(
        [*_head(whole + 2 * _MARGIN, height), *_arrows(boxes, _reduced(edges)), *_drawn(boxes), "</svg>", ""]
    )


def _head(width: float, height: float) -> Iterable[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif">'
    yield "<title>Packages of penstock, each above those that it imports</title>"
    yield '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path d="M0 0L8 4L0 8z" fill="#777"/></marker>'
    yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'


def _arrows(boxes: Mapping[str, _Box], edges: Mapping[str, set[str]]) -> Iterable[str]:
    for name in sorted(edges):
        for other in sorted(edges[name]):
            above, below = boxes[name], boxes[other]
            x, y = above.x + above.width / 2, above.y + _HEIGHT
            to_x, to_y = below.x + below.width / 2, below.y
            bend = (to_y - y) / 2
            yield (
                f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}"'
                ' fill="none" stroke="#999" marker-end="url(#arrow)"/>'
            )


def _drawn(boxes: Mapping[str, _Box]) -> Iterable[str]:
    for name, box in sorted(boxes.items()):
        fill = next((fill for prefix, fill in _FILLS.items() if name.startswith(prefix)), _OTHER)
        middle = box.x + box.width / 2
        yield (
            f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_HEIGHT}" rx="5" fill="{fill}" '
            'stroke="#666"/>'
        )
        text = f'<text x="{middle:.0f}" text-anchor="middle"'
        yield f'{text} y="{box.y + 17:.0f}" font-size="13">{escape(box.name)}</text>'
        count = f"{box.modules} module{'s' if box.modules > 1 else ''}"
        yield f'{text} y="{box.y + 32:.0f}" font-size="10" fill="#555">{count}</text>'
