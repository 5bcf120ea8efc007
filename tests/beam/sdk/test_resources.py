"""Resource hints, kept and ignored."""

from __future__ import annotations

import logging

import pytest

import penstock as beam
from penstock.beam.sdk import resources
from penstock.testing import TestPipeline, assert_that, equal_to


def test_hints_are_kept_and_ignored_with_a_note(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ones are added; each name is noted once."""
    monkeypatch.setattr(resources, "_noted", set())
    caplog.set_level(logging.INFO)
    hinted = beam.Map(str).with_resource_hints(min_ram="1.5GB").with_resource_hints(cpu_count=2, minRam="2 KiB")
    expected = {"beam:resources:min_ram_bytes:v1": b"2048", "beam:resources:cpu_count:v1": b"2"}
    assert expected == hinted.get_resource_hints()
    labelled = ("label" >> beam.Map(str)).with_resource_hints(min_ram=1)
    assert {"beam:resources:min_ram_bytes:v1": b"1"} == labelled.get_resource_hints()
    notes = [record.getMessage() for record in caplog.records]
    begin = "Resource hints have no effect on penstock's runners: "
    assert [f"{begin}min_ram", f"{begin}cpu_count, minRam"] == notes
    with TestPipeline() as p:
        assert_that(p | beam.Create([1]) | hinted | labelled, equal_to(["1"]))


def test_unknown_hints_and_invalid_values_are_refused() -> None:
    """By name."""
    with pytest.raises(ValueError, match="Unknown resource hint: min_rum. Expected one of .*min_ram"):
        beam.Map(str).with_resource_hints(min_rum="1GB")
    for value in ("1 elephant", "GB", "12"):
        with pytest.raises(ValueError, match=f"Resource hint min_ram has invalid value {value}"):
            beam.Map(str).with_resource_hints(min_ram=value)


def test_a_composites_hint_is_merged_with_a_transforms() -> None:
    """The greater memory; the sum of bundles; else the inner one."""
    outer = {"min_ram": 10, "max_active_bundles_per_worker": 2, "accelerator": "type:a"}
    inner = {"min_ram": 9, "max_active_bundles_per_worker": 3, "accelerator": "type:b"}
    merged = resources.merge_resource_hints(
        resources.parse_resource_hints(outer), resources.parse_resource_hints(inner)
    )
    expected = {"min_ram": 10, "max_active_bundles_per_worker": 5, "accelerator": "type:b"}
    assert resources.parse_resource_hints(expected) == merged


def test_annotations_name_the_class() -> None:
    """And what a subclass adds."""

    class Noted(beam.PTransform):
        def annotations(self) -> dict[str, str]:
            return {**super().annotations(), "owner": "team"}

    annotations = ("label" >> Noted()).annotations()
    assert "team" == annotations["owner"]
    assert annotations["python_type"].endswith(".Noted")
