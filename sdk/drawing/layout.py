"""A layered layout for a graph of nested boxes: sources on top, their consumers below.

Each group is laid out on its own, as rows of its members, and is then one box among the members of its group.

>>> tree = Group("", "", [Leaf(0, "Read"), Group("Count", "Count", [Leaf(1, "Pair"), Leaf(2, "Sum")])])
>>> placed = layout(tree, [(0, 1), (1, 2)])
>>> placed.boxes[0].y < placed.boxes[1].y < placed.boxes[2].y
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import attrs

from ...frozen import frozen

# In pixels.
CHARACTER = 7.2
LINE = 30
GAP_X = 24
GAP_Y = 44
PADDING = 14
HEADER = 24


@frozen
class Leaf:
    """A box without members: a transform, by its number in the graph, and its text."""

    index: int
    text: str


@frozen
class Group:
    """A box with members: the path of a composite, and the last part of the path."""

    path: str
    text: str
    members: list[Member] = attrs.field(factory=list)


Member: TypeAlias = Leaf | Group


@frozen
class Box:
    """The upper left corner and the size of a member."""

    x: float
    y: float
    width: float
    height: float

    def moved(self, x: float, y: float) -> Box:
        """Return the box at another position."""
        return attrs.evolve(self, x=self.x + x, y=self.y + y)


@frozen
class Layout:
    """Positions of all boxes.

    Attributes:
      boxes: the box of each leaf, by its index.
      groups: the box of each group, outer groups first.
      width, height: the size of the drawing.
    """

    boxes: dict[int, Box]
    groups: list[tuple[Group, Box]]
    width: float
    height: float


def layout(group: Group, edges: Iterable[tuple[int, int]]) -> Layout:
    """Return the layout of a group's members, with edges between leaves."""
    return _layout(group, list(edges))


def text_width(text: str) -> float:
    """Return the approximate width of a text."""
    return len(text) * CHARACTER


def _layout(group: Group, edges: list[tuple[int, int]]) -> Layout:
    home = {index: i for i, member in enumerate(group.members) for index in _leaves(member)}
    inside: list[list[tuple[int, int]]] = [[] for _ in group.members]
    between: set[tuple[int, int]] = set()
    for a, b in edges:
        if home[a] == home[b]:
            inside[home[a]].append((a, b))
        else:
            between.add((home[a], home[b]))
    inner = [_layout(m, inside[i]) if isinstance(m, Group) else _leaf(m) for i, m in enumerate(group.members)]
    rows = _rows(len(group.members), between)
    header = HEADER if group.text else 0
    widths = [sum(inner[i].width for i in row) + GAP_X * (len(row) - 1) for row in rows]
    width = max([text_width(group.text), *widths]) + 2 * PADDING
    boxes: dict[int, Box] = {}
    groups: list[tuple[Group, Box]] = []
    y = float(PADDING + header)
    for row, row_width in zip(rows, widths):
        x = (width - row_width) / 2
        for i in row:
            member = inner[i]
            boxes.update({index: box.moved(x, y) for index, box in member.boxes.items()})
            groups.extend((g, box.moved(x, y)) for g, box in member.groups)
            x += member.width + GAP_X
        y += max(inner[i].height for i in row) + GAP_Y
    height = y - (GAP_Y if rows else 0) + PADDING
    return Layout(boxes, [(group, Box(0, 0, width, height)), *groups], width, height)


def _leaf(leaf: Leaf) -> Layout:
    width = text_width(leaf.text) + 2 * PADDING
    return Layout({leaf.index: Box(0, 0, width, LINE)}, [], width, LINE)


def _rows(members: int, between: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the members by the length of the longest path to them.

    Two groups may each have a part that follows a part of the other.  Members are in the order of the pipeline, so
    edges to earlier members are left out.
    """
    depth = [0] * members
    for a, b in sorted(between):
        if a < b:
            depth[b] = max(depth[b], depth[a] + 1)
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for member, row in enumerate(depth):
        rows[row].append(member)
    return rows


def _leaves(member: Member) -> Iterator[int]:
    if isinstance(member, Leaf):
        yield member.index
    else:
        for inner in member.members:
            yield from _leaves(inner)
