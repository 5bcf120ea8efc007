"""Drawings of a pipeline: Mermaid, Graphviz, and HTML for notebooks.

Transforms are boxes within the composites of their labels.  PCollections are arrows between them, with the tag unless
it is the main output.  Side inputs are dashed.  Arrows of columns are thick; a text on them tells where elements are
made of columns, or columns of elements (docs/columns.md).  In Graphviz and HTML, the tooltip of an arrow has the fields
that are known of the elements.  Display data of the user's transforms is below their
labels; in HTML, in the tooltip.

>>> import penstock as beam
>>> p = beam.Pipeline()
>>> _ = p | beam.Create([1]) | "Double" >> beam.Map(lambda x: 2 * x)
>>> print(to_mermaid(p.graph()))
flowchart TD
    subgraph g0["Create"]
        t0(["Values"])
    end
    t1["Double"]
    t0 --> t1
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from html import escape
from itertools import count
from typing import Any, TypeAlias

from ...frozen import frozen
from .. import graph
from ..typehints.schema import schemas_of
from .columns import Columns, conversion
from .layout import HEADER, PADDING, Box, Group, Layout, Leaf, layout

# Forms of a drawing, of which a notebook chooses one.
MimeBundle: TypeAlias = dict[str, str]

_LONGEST = 44


@frozen
class _Edge:
    """An arrow between transforms, by their numbers."""

    source: int
    target: int
    pcollection: int
    text: str
    is_side_input: bool
    is_columnar: bool = False
    # How the target converts the elements, if it does.
    conversion: str = ""
    # The fields of the elements.
    fields: str = ""

    @property
    def caption(self) -> str:
        """The text beside the arrow."""
        return ", ".join(filter(None, (self.text, self.conversion)))


def mime_bundle(pipeline: graph.Graph) -> MimeBundle:
    """Return the pipeline in every form, by MIME type."""
    return {
        "text/plain": to_text(pipeline),
        "text/html": to_html(pipeline),
        "text/vnd.mermaid": to_mermaid(pipeline),
        "text/vnd.graphviz": to_dot(pipeline),
    }


def to_text(pipeline: graph.Graph) -> str:
    """Return a line for each transform, with its inputs.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1]) | "Double" >> beam.Map(lambda x: 2 * x)
    >>> print(to_text(p.graph()))
    Create/Values: Read
    Double: ParDo of Create/Values
    """
    inputs: list[list[str]] = [[] for _ in pipeline.transforms]
    for edge in _edges(pipeline):
        name = pipeline.transforms[edge.source].label + (f"[{edge.text}]" if edge.text else "")
        notes = ", ".join(filter(None, ("columns" if edge.is_columnar else "", edge.conversion)))
        inputs[edge.target].append(f"{name} ({notes})" if notes else name)
    lines: list[str] = []
    settings = dict(pipeline.settings)
    for transform, names in zip(pipeline.transforms, inputs, strict=True):
        for path in _composites_of(transform.label):
            # The settings of a composite are before its first transform.
            lines += [f"{path}: {text}" for text in settings.pop(path, ())]
        line = f"{transform.label}: {_kind(transform)}"
        lines.append(f"{line} of {', '.join(names)}" if names else line)
        lines += [f"    {text}" for text in settings.pop(transform.label, ())]
    return "\n".join(lines)


def _composites_of(label: str) -> list[str]:
    parts = _path(label)
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


# --- Mermaid

_MERMAID_SHAPES = {
    "Read": ("([", "])"),
    "Write": ("[(", ")]"),
    "GroupByKeyAndWindow": ("{{", "}}"),
    "Flatten": ("[/", "\\]"),
}


def to_mermaid(pipeline: graph.Graph) -> str:
    """Return a Mermaid flowchart with composites as nested subgraphs."""
    lines = ["flowchart TD"]
    numbers = count()
    settings = partial(_settings_of, pipeline)

    def write(group: Group, indent: str) -> None:
        for member in group.members:
            if isinstance(member, Leaf):
                before, after = _MERMAID_SHAPES.get(_kind(pipeline.transforms[member.index]), ("[", "]"))
                lines.append(f"{indent}t{member.index}{before}{_mermaid_text(member.text, *settings(member))}{after}")
            else:
                lines.append(f"{indent}subgraph g{next(numbers)}[{_mermaid_text(member.text, *settings(member))}]")
                write(member, indent + "    ")
                lines.append(f"{indent}end")

    write(_tree(pipeline), "    ")
    for edge in _edges(pipeline):
        arrow = "-.->" if edge.is_side_input else "==>" if edge.is_columnar else "-->"
        text = f"|{_mermaid_text(edge.caption)}|" if edge.caption else ""
        lines.append(f"    t{edge.source} {arrow}{text} t{edge.target}")
    return "\n".join(lines)


def _mermaid_text(*texts: str) -> str:
    """Return lines of text in quotes, with Mermaid's special characters as character codes."""
    lines = [" ".join(text.split()) for text in texts]
    plain = " _-.,:/()[]=+'"
    return (
        '"' + "<br/>".join("".join(c if c.isalnum() or c in plain else f"#{ord(c)};" for c in s) for s in lines) + '"'
    )


# --- Graphviz

_DOT_SHAPES = {"Read": "oval", "Write": "cylinder", "GroupByKeyAndWindow": "hexagon", "Flatten": "trapezium"}


def to_dot(pipeline: graph.Graph) -> str:
    """Return a Graphviz digraph with composites as nested clusters.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1])
    >>> print(to_dot(p.graph()))
    digraph pipeline {
        node [shape=box];
        subgraph cluster_0 {
            label="Create";
            t0 [label="Values", shape=oval];
        }
    }
    """
    lines = ["digraph pipeline {", "    node [shape=box];"]
    numbers = count()
    settings = partial(_settings_of, pipeline)

    def write(group: Group, indent: str) -> None:
        for member in group.members:
            if isinstance(member, Leaf):
                shape = _DOT_SHAPES.get(_kind(pipeline.transforms[member.index]))
                style = f", shape={shape}" if shape else ""
                lines.append(f"{indent}t{member.index} [label={_dot_text(member.text, *settings(member))}{style}];")
            else:
                lines.append(f"{indent}subgraph cluster_{next(numbers)} {{")
                lines.append(f"{indent}    label={_dot_text(member.text, *settings(member))};")
                write(member, indent + "    ")
                lines.append(f"{indent}}}")

    write(_tree(pipeline), "    ")
    for edge in _edges(pipeline):
        attributes = [f"label={_dot_text(edge.caption)}"] if edge.caption else []
        attributes += ["style=dashed"] if edge.is_side_input else ["style=bold"] if edge.is_columnar else []
        attributes += [f"tooltip={_dot_text(edge.fields)}"] if edge.fields else []
        suffix = f" [{', '.join(attributes)}]" if attributes else ""
        lines.append(f"    t{edge.source} -> t{edge.target}{suffix};")
    return "\n".join([*lines, "}"])


def _dot_text(*texts: str) -> str:
    escaped = "\n".join(texts).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# --- HTML

_FILLS = {"Read": "#e3f1e1", "Write": "#f8e3dc", "GroupByKeyAndWindow": "#dfe8f7", "Flatten": "#f3eeda"}
_GROUP_FILLS = ("#fafafa", "#f1f3f5")


def to_html(pipeline: graph.Graph) -> str:
    """Return one `div` with a self-contained drawing in SVG."""
    tree, edges = _tree(pipeline, _LONGEST), _edges(pipeline)
    drawn = layout(tree, [(edge.source, edge.target) for edge in edges])
    size = f'width="{drawn.width:.0f}" height="{drawn.height:.0f}"'
    font = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'
    box = f'viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}"'
    parts = [
        f'<div style="overflow:auto"><svg xmlns="http://www.w3.org/2000/svg" {size} {box} {font} role="img">',
        "<title>A pipeline</title>",
        *_svg_groups(pipeline, drawn),
        *(_svg_edge(edge, drawn) for edge in edges),
        *_svg_nodes(pipeline, tree, drawn),
        "</svg></div>",
    ]
    return "\n".join(parts)


def _svg_groups(pipeline: graph.Graph, drawn: Layout) -> Iterator[str]:
    # The first is the whole drawing.
    for group, box in drawn.groups[1:]:
        fill = _GROUP_FILLS[len(_path(group.path)) % 2]
        x, y = box.x + PADDING, box.y + HEADER - 7
        title = escape(_titled(pipeline, group.path))
        yield (
            f'<g class="composite"><title>{title}</title>{_svg_rectangle(box, fill, "#b8bfc6")}'
            f'<text x="{x:.0f}" y="{y:.0f}" fill="#57606a">{escape(group.text)}</text></g>'
        )


def _svg_nodes(pipeline: graph.Graph, tree: Group, drawn: Layout) -> Iterator[str]:
    for leaf in _leaves(tree):
        transform, box = pipeline.transforms[leaf.index], drawn.boxes[leaf.index]
        kind = _kind(transform)
        yield (
            f'<g class="transform"><title>{escape(_titled(pipeline, transform.label, f" ({kind})"))}</title>'
            f"{_svg_rectangle(box, _FILLS.get(kind, '#ffffff'), '#57606a')}"
            f'<text x="{box.x + box.width / 2:.0f}" y="{box.y + box.height / 2 + 4:.0f}" text-anchor="middle" '
            f'fill="#1f2328">{escape(leaf.text)}</text></g>'
        )


def _svg_rectangle(box: Box, fill: str, stroke: str) -> str:
    corners = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    return f'<rect {corners} rx="6" fill="{fill}" stroke="{stroke}"/>'


def _svg_edge(edge: _Edge, drawn: Layout) -> str:
    source, target = drawn.boxes[edge.source], drawn.boxes[edge.target]
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    bend = max(24.0, abs(y2 - y1) / 2)
    dashes = ' stroke-dasharray="5 4"' if edge.is_side_input else ' stroke-width="3"' if edge.is_columnar else ""
    line = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2 - 6:.0f}"
    head = f"M{x2 - 4:.0f},{y2 - 7:.0f} L{x2:.0f},{y2:.0f} L{x2 + 4:.0f},{y2 - 7:.0f} Z"
    text = ""
    if edge.caption:
        x, y = (x1 + x2) / 2 + 6, (y1 + y2) / 2
        text = f'<text x="{x:.0f}" y="{y:.0f}" fill="#57606a" font-size="11">{escape(edge.caption)}</text>'
    title = f"<title>{escape(edge.fields)}</title>" if edge.fields else ""
    return (
        f'<g class="{"side-input" if edge.is_side_input else "columns" if edge.is_columnar else "pcollection"}">{title}'
        f'<path d="{line}" fill="none" stroke="#57606a"{dashes}/><path d="{head}" fill="#57606a"/>{text}</g>'
    )


# --- Data


def drawn_transforms(pipeline: graph.Graph) -> dict[str, Any]:
    """Return a drawing as data, for a program that draws it itself.

    Its transforms, in the order of the graph, have label, text, kind, settings, and the upper left corner and size of
    their box in pixels.  Its groups have path, text and box.  Its edges have the numbers of two transforms, the
    PCollection, and say whether it is a side input, and whether its elements are columns.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1]) | "Double" >> beam.Map(lambda x: 2 * x)
    >>> drawing = drawn_transforms(p.graph())
    >>> [(each["label"], each["kind"]) for each in drawing["transforms"]], drawing["edges"][0]["target"]
    ([('Create/Values', 'Read'), ('Double', 'ParDo')], 1)
    """
    tree, edges = _tree(pipeline, _LONGEST), _edges(pipeline)
    drawn = layout(tree, [(edge.source, edge.target) for edge in edges])
    texts = {leaf.index: leaf.text for leaf in _leaves(tree)}
    return {
        "width": drawn.width,
        "height": drawn.height,
        "transforms": [
            {
                "label": transform.label,
                "text": texts[index],
                "kind": _kind(transform),
                "settings": list(pipeline.settings.get(transform.label, ())),
                **_corners(drawn.boxes[index]),
            }
            for index, transform in enumerate(pipeline.transforms)
        ],
        "groups": [{"path": group.path, "text": group.text, **_corners(box)} for group, box in drawn.groups[1:]],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "pcollection": edge.pcollection,
                "tag": edge.text,
                "is_side_input": edge.is_side_input,
                "is_columnar": edge.is_columnar,
                "conversion": edge.conversion,
            }
            for edge in edges
        ],
    }


def _corners(box: Box) -> dict[str, float]:
    return {"x": box.x, "y": box.y, "width": box.width, "height": box.height}


# --- The graph to draw


def _settings_of(pipeline: graph.Graph, member: Group | Leaf) -> tuple[str, ...]:
    label = member.path if isinstance(member, Group) else pipeline.transforms[member.index].label
    return pipeline.settings.get(label, ())


def _titled(pipeline: graph.Graph, label: str, kind: str = "") -> str:
    return "\n".join([label + kind, *pipeline.settings.get(label, ())])


def _kind(transform: graph.Transform) -> str:
    if isinstance(transform.primitive, graph.ParDo) and transform.primitive.sink is not None:
        return "Write"
    return type(transform.primitive).__name__


def _edges(pipeline: graph.Graph) -> list[_Edge]:
    producers = {i: (index, tag) for index, t in enumerate(pipeline.transforms) for tag, i in t.outputs.items()}
    columns = Columns(pipeline)
    edges = []
    for index, transform in enumerate(pipeline.transforms):
        converted = conversion(columns, transform)
        for pcollection in transform.inputs:
            source, tag = producers[pcollection]
            is_columnar = pcollection in columns.pcollections
            own = converted if is_columnar == (converted == "to elements") else ""
            schemas = {str(schema) for _, schema in schemas_of(pipeline.pcollections[pcollection].element_type)}
            fields = "".join(schemas) if len(schemas) == 1 else ""
            edges.append(_Edge(source, index, pcollection, tag or "", False, is_columnar, own, fields))
        for side_input in transform.side_inputs:
            source, tag = producers[side_input.pcollection]
            edges.append(_Edge(source, index, side_input.pcollection, tag or "", True))
    return edges


def _tree(pipeline: graph.Graph, longest: int | None = None) -> Group:
    """Return the transforms in the composites of their labels, in the order of the pipeline."""
    root = Group("", "")
    groups = {"": root}
    for index, transform in enumerate(pipeline.transforms):
        *outer, own = _path(transform.label)
        path, group = "", root
        for part in outer:
            path = f"{path}/{part}" if path else part
            if path not in groups:
                groups[path] = Group(path, _shortened(part, longest))
                group.members.append(groups[path])
            group = groups[path]
        group.members.append(Leaf(index, _shortened(own, longest)))
    return root


def _leaves(group: Group) -> Iterator[Leaf]:
    for member in group.members:
        if isinstance(member, Leaf):
            yield member
        else:
            yield from _leaves(member)


def _path(label: str) -> list[str]:
    """Return the parts of a full label.  A slash within brackets, as in "Read(a/b)", is no separator.

    >>> _path("Count/Group/WithKeys(a/b)")
    ['Count', 'Group', 'WithKeys(a/b)']
    """
    parts, depth = [""], 0
    for character in label:
        depth = max(0, depth + (character in "([{") - (character in ")]}"))
        if character == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _shortened(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    return text[: longest - 1] + "…"
