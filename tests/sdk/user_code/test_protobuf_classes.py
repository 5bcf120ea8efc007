"""Protobuf's generated code in another process, which can't import it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.sdk.user_code.pickler import pickled

# In another process: what the pickle has, and whether it has each thing once.
OTHER = """
import pickle, sys
from penstock.sdk.user_code.pickler import pickled
data = sys.stdin.buffer.read()
make, count, module, size, order, message, field, other = pickle.loads(data)
print(make().item, make().size, size.Name(1), module.LARGE, message.at.seconds, field.name, other(a=4).a)
print(isinstance(make(), order), type(message) is order, module.Order is order, count(message))
again = pickle.loads(data)
print(again[2] is module, again[4] is order, again[7] is other, pickle.loads(pickled(message)) == message)
"""

EXPECTED = """\
tea 1 LARGE 1 5 count 4
True True True 3
True True True True
"""

# The definition of another message with the name of one that is unpickled.
CLASH = """
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto(name={name!r}, package="shop", syntax="proto3")
file.message_type.add(name="Order").field.add(name="other", number=1, type=3, label=1)
descriptor_pool.Default().Add(file)
"""


@pytest.fixture
def shop() -> Iterator[Any]:
    """A generated module, which is pickled by value as those beside a program are."""
    from kafka import shop_pb2

    is_known = shop_pb2.__name__ in cloudpickle.list_registry_pickle_by_value()
    if not is_known:
        cloudpickle.register_pickle_by_value(shop_pb2)
    yield shop_pb2
    if not is_known:
        cloudpickle.unregister_pickle_by_value(shop_pb2)


def of_no_module() -> Any:
    """A class of messages that is made while the program runs."""
    file = descriptor_pb2.FileDescriptorProto(name="made.proto", syntax="proto3")
    file.message_type.add(name="Made").field.add(name="a", number=1, type=3, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Made"))


def data_of(shop: Any) -> bytes:
    """Functions, classes, messages and descriptors of a generated module, in one pickle."""
    order, message = shop.Order, shop.Order(item="jam", count=3)
    message.at.seconds = 5
    make = lambda: shop.Order(item="tea", size=shop.LARGE)
    count = lambda found: found.count if isinstance(found, order) else None
    field = order.DESCRIPTOR.fields_by_name["count"]
    return pickled((make, count, shop, shop.Size, order, message, field, of_no_module()))


def found_by(program: str, data: bytes, directory: Path) -> str:
    run = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=False, cwd=directory)
    assert 0 == run.returncode, run.stderr.decode()
    return run.stdout.decode()


def test_generated_code_works_where_it_can_not_be_imported(shop: Any, tmp_path: Path) -> None:
    """Modules, functions that use them, classes, enums, messages and descriptors; and classes of no module."""
    assert EXPECTED == found_by(OTHER, data_of(shop), tmp_path)


@pytest.mark.parametrize("name", ["shop.proto", "other.proto"])
def test_a_process_with_another_definition_keeps_both(shop: Any, tmp_path: Path, name: str) -> None:
    """Under the same name of a file, or of a message."""
    assert EXPECTED == found_by(CLASH.format(name=name) + OTHER, data_of(shop), tmp_path)


def test_a_module_that_is_imported_later_has_the_same_classes(shop: Any, tmp_path: Path) -> None:
    program = f"""
import pickle, sys
order = pickle.load(sys.stdin.buffer)
sys.path.append({str(Path(shop.__file__).parents[1])!r})
from kafka import shop_pb2
print(shop_pb2.Order is order)
"""
    assert "True\n" == found_by(program, pickled(shop.Order), tmp_path)


def test_a_class_comes_back_as_itself(shop: Any) -> None:
    """In the process that it comes from."""
    made = of_no_module()
    assert [shop.Order, made] == pickle.loads(pickled([shop.Order, made]))
