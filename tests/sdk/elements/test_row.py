"""Row, and the object that a process shares."""

import gc
import pickle
import weakref

import pytest

from penstock.sdk.elements.row import Row
from penstock.sdk.process.shared import Shared


def test_fields_are_attributes_in_order():
    row = Row(b=1, a="x")
    assert (1, "x") == (row.b, row.a)
    assert ("b", "a") == row._fields
    assert [1, "x"] == list(row)
    assert {"b": 1, "a": "x"} == row.as_dict() == row._asdict()


def test_rows_are_equal_when_names_values_and_order_are():
    assert Row(a=1, b=2) == Row(a=1.0, b=2)
    assert Row(a=1, b=2) != Row(b=2, a=1)
    assert Row(a=1) != Row(a=2)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != (1,)
    assert {Row(a=1): "x"} == {Row(a=True): "x"}


def test_a_row_of_lists_has_no_hash():
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Row(a=[1]))


class Named(Row):
    pass


@pytest.mark.parametrize("row", [Row(a=1, b=[2]), Row(), Named(a=1), Row(cls=1, self_=2)])
def test_a_row_travels(row):
    copy = pickle.loads(pickle.dumps(row))
    assert (type(row), row) == (type(copy), copy)


def test_a_row_shows_its_fields():
    assert "Row(a=1, b='x')" == repr(Row(a=1, b="x"))


def test_changing_the_dictionary_doesnt_change_the_row():
    row = Row(a=1)
    row.as_dict()["a"] = 2
    assert 1 == row.a


def test_an_unknown_field_is_answered_with_those_that_there_are():
    with pytest.raises(AttributeError) as error:
        Row(a=1, b=2).c
    assert "the row has no field 'c'; it has a, b" == str(error.value)


def test_a_shared_object_is_built_once():
    built = []
    shared = Shared()
    for handle in (shared, pickle.loads(pickle.dumps(shared)), shared):
        assert ["table"] == handle.acquire(lambda: built.append(1) or ["table"])
    assert [1] == built


def test_another_tag_builds_it_anew():
    shared = Shared()
    objects = [shared.acquire(lambda tag=tag: [tag], tag) for tag in ("v1", "v1", "v2")]
    assert [["v1"], ["v1"], ["v2"]] == objects
    assert objects[0] is objects[1]


def test_two_handles_share_nothing():
    assert 1 == Shared().acquire(lambda: 1)
    assert 2 == Shared().acquire(lambda: 2)


class Model:
    pass


def test_the_object_that_was_acquired_last_is_kept():
    first, second = Shared(), Shared()
    seen = weakref.ref(first.acquire(Model))
    gc.collect()
    assert seen() is first.acquire(Model)
    held = second.acquire(Model)
    gc.collect()
    assert seen() is None
    assert isinstance(first.acquire(Model), Model)
    assert held is second.acquire(list)


def test_none_is_built_again():
    shared = Shared()
    assert [None, 3] == [shared.acquire(lambda: None), shared.acquire(lambda: 3)]


def test_a_constructor_that_raised_is_tried_again():
    shared = Shared()
    with pytest.raises(ZeroDivisionError):
        shared.acquire(lambda: 1 / 0)
    assert 3 == shared.acquire(lambda: 3)
