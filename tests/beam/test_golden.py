"""Values of Beam's classes that earlier versions wrote are read."""

from __future__ import annotations

import base64
import json
import pathlib
import pickle
from typing import Any

import pytest

from penstock.beam.io.unbounded_source import Part
from penstock.beam.typehints.row_type import RowTypeConstraint

KEPT = json.loads(pathlib.Path(__file__).with_name("golden_values.json").read_text())
VALUES: dict[str, Any] = {
    "generated-row/1": RowTypeConstraint.from_fields([("name", str), ("count", int)], "golden")("tea", 2),
    "unbounded-part/1": Part(1, "source"),
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_of_an_earlier_version_is_read(name: str) -> None:
    restored = pickle.loads(base64.b64decode(KEPT[name]))
    assert type(VALUES[name]) is type(restored)
    assert pickle.dumps(VALUES[name]) == pickle.dumps(restored)
