"""Drawings of a pipeline."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.sdk.drawing import drawing
from penstock.sdk.drawing.layout import Box, Group, Leaf, layout
from penstock.sdk.graph import Graph


class Inner(beam.PTransform):
    """A grouping in a composite."""

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Pair" >> beam.WithKeys(1) | "Group" >> beam.GroupByKey()


class Outer(beam.PTransform):
    """A composite in a composite."""

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Before" >> beam.Map(str) | Inner() | "After" >> beam.Map(str)


def example() -> Graph:
    """A pipeline with nested composites, a side input, tags, and labels that need escaping."""
    p = beam.Pipeline()
    words = p | beam.Create(["a", "b"])
    total = words | "Total" >> beam.combiners.Count.Globally()
    outputs = words | "Split" >> beam.ParDo(lambda w, n: [], beam.pvalue.AsSingleton(total)).with_outputs(
        "odd", main="even"
    )
    (outputs.even, outputs.odd) | "Both" >> beam.Flatten() | '<b> & "q"\\' >> Outer()
    return p.graph()


def test_mermaid_nests_composites_and_tells_edges_apart() -> None:
    """Tags are written on the arrows, side inputs are dashed."""
    expected = r"""flowchart TD
    subgraph g0["Create"]
        t0(["Values"])
    end
    subgraph g1["Total"]
        t1["KeyWithVoid"]
        t2{{"CombinePerKey"}}
        t3["UnKey"]
        subgraph g2["DoOnce"]
            t4(["Values"])
        end
        t5["InjectDefault"]
    end
    t6["Split"]
    t7[/"Both"\]
    subgraph g3["#60;b#62; #38; #34;q#34;#92;"]
        t8["Before"]
        subgraph g4["Inner"]
            t9["Pair"]
            t10{{"Group"}}
        end
        t11["After"]
    end
    t0 --> t1
    t1 --> t2
    t2 --> t3
    t4 --> t5
    t3 -.-> t5
    t0 --> t6
    t5 -.-> t6
    t6 --> t7
    t6 -->|"odd"| t7
    t7 --> t8
    t8 --> t9
    t9 --> t10
    t10 --> t11"""
    assert expected == drawing.to_mermaid(example())


def test_dot_nests_composites_and_tells_edges_apart() -> None:
    """Quotes and backslashes are escaped."""
    lines = [line.strip() for line in drawing.to_dot(example()).splitlines()]
    assert "digraph pipeline {" == lines[0]
    assert r'label="<b> & \"q\"\\";' in lines
    assert ["t3 -> t5 [style=dashed];", "t5 -> t6 [style=dashed];"] == [line for line in lines if "dashed" in line]
    assert 't6 -> t7 [label="odd"];' in lines
    depth = drawing.to_dot(example()).index('label="Inner"')
    assert drawing.to_dot(example()).index("cluster_3") < depth
    assert sum(line.endswith("{") for line in lines) == lines.count("}")


def test_text_has_a_line_for_each_transform() -> None:
    """With what it reads, the side inputs last."""
    lines = drawing.to_text(example()).splitlines()
    assert "Create/Values: Read" == lines[0]
    assert "Total/InjectDefault: ParDo of Total/DoOnce/Values, Total/UnKey" == lines[5]
    assert "Both: Flatten of Split, Split[odd]" == lines[7]


def test_html_is_well_formed_and_needs_nothing_else() -> None:
    """No scripts, no addresses but the namespace; every label is escaped."""
    html = drawing.to_html(example())
    root = ElementTree.fromstring(html)
    assert "div" == root.tag
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\"]+", html)
    assert "script" not in html
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert '<b> & "q"\\/Inner' in titles
    assert "Split (ParDo)" in titles


def test_html_draws_every_transform_composite_and_edge() -> None:
    """Side inputs dashed, tags written beside the line."""
    graph = example()
    groups = [
        g.get("class") for g in ElementTree.fromstring(drawing.to_html(graph)).iter("{http://www.w3.org/2000/svg}g")
    ]
    edges = sum(len(t.inputs) for t in graph.transforms)
    assert (12, 5, edges, 2) == tuple(
        groups.count(kind) for kind in ("transform", "composite", "pcollection", "side-input")
    )
    assert ">odd</text>" in drawing.to_html(graph)


def test_long_labels_are_shortened_in_html_only() -> None:
    """The full label is in the title."""
    p = beam.Pipeline()
    p | "x" * 100 >> beam.Impulse()
    html = drawing.to_html(p.graph())
    assert ("x" * 43 + "…</text>" in html, "x" * 100 in html) == (True, True)
    assert "x" * 100 in drawing.to_mermaid(p.graph())


def test_a_notebook_may_choose_the_form() -> None:
    """By MIME type; the pipeline itself offers them."""
    p = beam.Pipeline()
    p | beam.Create([1])
    graph = p.graph()
    expected = {
        "text/plain": drawing.to_text(graph),
        "text/html": drawing.to_html(graph),
        "text/vnd.mermaid": drawing.to_mermaid(graph),
        "text/vnd.graphviz": drawing.to_dot(graph),
    }
    assert expected == drawing.mime_bundle(graph) == p._repr_mimebundle_()
    assert expected["text/html"] == p._repr_html_()


def test_an_empty_pipeline_can_be_drawn() -> None:
    """There is nothing on it."""
    graph = beam.Pipeline().graph()
    assert ("", "flowchart TD") == (drawing.to_text(graph), drawing.to_mermaid(graph))
    assert "digraph pipeline {\n    node [shape=box];\n}" == drawing.to_dot(graph)
    ElementTree.fromstring(drawing.to_html(graph))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("A", ["A"]),
        ("A/B/C", ["A", "B", "C"]),
        ("Read(a/b)/C", ["Read(a/b)", "C"]),
        ("Tag[a/b]", ["Tag[a/b]"]),
        ("a)/b", ["a)", "b"]),
    ],
)
def test_a_slash_in_brackets_does_not_end_a_composites_name(label: str, expected: list[str]) -> None:
    """It is part of what the transform was given."""
    assert expected == drawing._path(label)


# Layouts


def trees() -> st.SearchStrategy[Group]:
    """Nested groups whose leaves are numbered in order."""
    shapes = st.recursive(st.none(), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=20)

    def numbered(shape: object) -> Group:
        count = iter(range(1000))

        def member(part: object) -> Group | Leaf:
            if part is None:
                return Leaf(next(count), "leaf")
            assert isinstance(part, list)
            return Group("path", "group", [member(inner) for inner in part])

        made = member(shape if isinstance(shape, list) else [shape])
        assert isinstance(made, Group)
        return made

    return shapes.map(numbered)


def leaves(group: Group) -> list[int]:
    return [i for m in group.members for i in (leaves(m) if isinstance(m, Group) else [m.index])]


def inside(inner: Box, outer: Box) -> bool:
    fits_across = outer.x <= inner.x and inner.x + inner.width <= outer.x + outer.width + 1e-6
    return fits_across and outer.y <= inner.y and inner.y + inner.height <= outer.y + outer.height + 1e-6


def apart(a: Box, b: Box) -> bool:
    beside = a.x + a.width <= b.x or b.x + b.width <= a.x
    return beside or a.y + a.height <= b.y or b.y + b.height <= a.y


@given(trees(), st.data())
def test_boxes_lie_in_their_group_and_never_overlap(tree: Group, data: st.DataObject) -> None:
    """With any nesting of groups and any connections."""
    n = len(leaves(tree))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = data.draw(st.lists(pairs, max_size=20)) if n > 1 else []
    placed = layout(tree, edges)
    assert set(range(n)) == set(placed.boxes)
    for group, box in placed.groups:
        assert inside(box, Box(0, 0, placed.width, placed.height))
        assert all(inside(placed.boxes[i], box) for i in leaves(group))
        others = [placed.boxes[i] for i in range(n) if i not in leaves(group)]
        assert all(apart(box, other) for other in others)
    assert all(apart(placed.boxes[a], placed.boxes[b]) for a in range(n) for b in range(a))


@given(st.integers(2, 10), st.data())
def test_without_groups_what_consumes_lies_below_what_produces(n: int, data: st.DataObject) -> None:
    """For every edge."""
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = data.draw(st.lists(pairs, max_size=20))
    boxes = layout(Group("", "", [Leaf(i, "leaf") for i in range(n)]), edges).boxes
    assert all(boxes[a].y < boxes[b].y for a, b in edges)


class Limited(beam.DoFn):
    def display_data(self):
        return {
            "limit": 5,
            "url": "redis://:secret@host",
            "api_key": "abc",
        }

    def process(self, element):
        yield element


class Sampled(beam.PTransform):
    def display_data(self):
        return {"rate": 0.5}

    def expand(self, pcoll):
        return pcoll | "Limit" >> beam.ParDo(Limited())


def test_display_data_of_the_users_transforms_is_shown_without_secrets():
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | Sampled()
    drawn = drawing.mime_bundle(p.outline(with_settings=True))

    assert [
        "Create/Values: Read",
        "Sampled: rate: 0.5",
        "Sampled/Limit: ParDo of Create/Values",
        "    limit: 5",
        "    url: redis://***@host",
        "    api_key: ***",
    ] == drawn["text/plain"].splitlines()
    assert 't1["Limit<br/>limit: 5<br/>url: redis://#42;#42;#42;#64;host<br/>' in drawn["text/vnd.mermaid"]
    assert 'subgraph g1["Sampled<br/>rate: 0.5"]' in drawn["text/vnd.mermaid"]
    assert 'label="Limit\\nlimit: 5\\nurl: redis://***@host\\napi_key: ***"' in drawn["text/vnd.graphviz"]
    assert "<title>Sampled/Limit (ParDo)\nlimit: 5\n" in drawn["text/html"]
    assert "secret" not in "".join(drawn.values())
