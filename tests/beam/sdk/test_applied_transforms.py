"""What Beam's visitors see of transforms besides the core's: annotations and resource hints."""

from __future__ import annotations

from typing import Any

import penstock as beam
from penstock.testing import TestPipeline


class Labelled(beam.PTransform):
    def expand(self, pcoll: Any) -> Any:
        return pcoll | "add" >> beam.Map(lambda x, more: x + len(more), beam.pvalue.AsList(pcoll))


def test_a_visitor_sees_annotations_and_merged_hints() -> None:
    """Those of the block, of the transform, and of the composites around it."""
    seen = {}

    class Nodes(beam.PipelineVisitor):
        def visit_transform(self, transform_node: Any) -> None:
            seen[transform_node.full_label] = transform_node

    p = TestPipeline()
    with p.transform_annotations(owner="team"), p.transform_annotations(note=b"n"):
        numbers = p | beam.Create([1])
    numbers | "composite" >> Labelled().with_resource_hints(min_ram=5)
    p.visit(Nodes())
    annotations = seen["Create/Values"].annotations
    assert (b"team", b"n") == (annotations["owner"], annotations["note"])
    assert annotations["python_type"].startswith(b"penstock.")
    assert {"python_type"} == set(seen["composite/add"].annotations)
    assert {"beam:resources:min_ram_bytes:v1": b"5"} == seen["composite/add"].resource_hints
