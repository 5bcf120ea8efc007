"""Messages of a shop, as protoc's generated code has them.

syntax = "proto3";
package shop;
enum Size { SMALL = 0; LARGE = 1; }
message Item { string name = 1; optional int64 count = 2; bytes code = 3; }
message Order {
  string item = 1; int64 count = 2; Size size = 3; Item most = 4; repeated Item items = 5;
  map<string, int64> counts = 6; map<string, Item> by_name = 7; repeated Size sizes = 8;
      google.protobuf.Timestamp at = 9;
}
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.internal import builder

_FILE = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
_FILE.dependency.append(timestamp_pb2.DESCRIPTOR.name)
_LABELS = {"one": 1, "many": 3}
_TYPES = {"int64": 3, "string": 9, "bytes": 12}


def _add(message: Any, number: int, name: str, kind: str, label: str = "one") -> Any:
    field = message.field.add(name=name, number=number, label=_LABELS[label])
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = (14 if kind == ".shop.Size" else 11), kind
    return field


_size = _FILE.enum_type.add(name="Size")
for _name in ("SMALL", "LARGE"):
    _size.value.add(name=_name, number=len(_size.value))
_item = _FILE.message_type.add(name="Item")
_order = _FILE.message_type.add(name="Order")
_add(_item, 1, "name", "string")
_count = _add(_item, 2, "count", "int64")
_count.proto3_optional, _count.oneof_index = True, 0
_item.oneof_decl.add(name="_count")
_add(_item, 3, "code", "bytes")
for _name, _kind in (("CountsEntry", "int64"), ("ByNameEntry", ".shop.Item")):
    _entry = _order.nested_type.add(name=_name)
    _entry.options.map_entry = True
    _add(_entry, 1, "key", "string")
    _add(_entry, 2, "value", _kind)
for _number, (_name, _kind, _label) in enumerate(
    (
        ("item", "string", "one"),
        ("count", "int64", "one"),
        ("size", ".shop.Size", "one"),
        ("most", ".shop.Item", "one"),
        ("items", ".shop.Item", "many"),
        ("counts", ".shop.Order.CountsEntry", "many"),
        ("by_name", ".shop.Order.ByNameEntry", "many"),
        ("sizes", ".shop.Size", "many"),
        ("at", ".google.protobuf.Timestamp", "one"),
    ),
    1,
):
    _add(_order, _number, _name, _kind, _label)

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_FILE.SerializeToString())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
