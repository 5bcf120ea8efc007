"""Names that the core's modules have under Beam's paths."""

from __future__ import annotations

import unittest
from typing import NamedTuple
from unittest import mock

import penstock as beam
from penstock.dataframe import NonParallelOperation, WontImplementError
from penstock.dataframe.convert import to_dataframe
from penstock.dataframe.transforms import DataframeTransform
from penstock.sdk.names.namespaces import namespace
from penstock.sdk.userstate import BagStateSpec
from penstock.testing import assert_that, equal_to, test_utils
from penstock.utils import retry


class Point(NamedTuple):
    x: int
    name: str


def test_beams_names_are_those() -> None:
    """As programs import them."""
    assert to_dataframe is namespace("dataframe.convert").to_dataframe
    assert WontImplementError is namespace("dataframe.frame_base").WontImplementError
    assert NonParallelOperation is namespace("dataframe.expressions").NonParallelOperation
    assert DataframeTransform is namespace("dataframe.transforms").DataframeTransform


def test_a_name_that_beams_module_replaces_is_replaced_here() -> None:
    """And restored: what tests of Beam's users do."""
    before = beam.io.ReadFromText
    with mock.patch.object(namespace("io"), "ReadFromText") as replaced:
        assert replaced is beam.io.ReadFromText
    assert before is beam.io.ReadFromText


def test_the_module_is_beams() -> None:
    """As are the helpers of tests."""
    assert retry is beam.utils.retry
    case = unittest.TestCase()
    with test_utils.TempDir() as directory:
        path = test_utils.create_file(f"{directory.get_path()}/a", "text")
        assert "text" == test_utils.read_files_from_pattern(path)
        test_utils.delete_files([path])
    case.doCleanups()


def test_beams_modules_have_them() -> None:
    """Under Beam's paths."""
    assert BagStateSpec is namespace("transforms.userstate").BagStateSpec
    assert BagStateSpec is beam.transforms.userstate.BagStateSpec
    assert beam.TimeDomain is namespace("transforms.timeutil").TimeDomain
    assert beam.Deduplicate is namespace("transforms.deduplicate").Deduplicate


POINTS = beam.Create([Point(1, "a"), Point(2, "b")])


def test_results_are_tuples_under_beams_name() -> None:
    """As Beam's tests compare them."""
    with beam.Pipeline() as p:
        found = p | POINTS | namespace("transforms.sql").SqlTransform("SELECT `x`, `name` FROM PCOLLECTION")
        assert_that(found, equal_to([(1, "a"), (2, "b")]))
