"""Coders: values as bytes, and the one encoding of keys.

In reading order: the interface (`coder`); single values (`primitive`), numbers in other formats (`numeric`) and
Protocol Buffers' messages (`protobuf`); composite values (`container`), and those with named
fields (`row`); any value (`pickled`); timestamps, windows and
panes (`windowed`); sharded keys (`sharded_key`) and Avro records (`avro`); the coders of types (`typecoders`); key
groups (`key_encoding`) and their hash (`mixed_hash`); the equality of keys (`coded_key`); digests of values (`digest`).
"""

from .avro import AvroGenericCoder, AvroRecord
from .coded_key import check_keys
from .coder import Coder, FastCoder
from .container import (
    IterableCoder,
    LengthPrefixCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    TupleCoder,
    TupleSequenceCoder,
)
from .key_encoding import KEY_GROUPS, encode_key, key_group, key_hash
from .pickled import (
    Base64PickleCoder,
    CloudpickleCoder,
    DeterministicFastPrimitivesCoder,
    DillCoder,
    FastPrimitivesCoder,
    PickleCoder,
)
from .primitive import (
    BooleanCoder,
    BytesCoder,
    FloatCoder,
    SingletonCoder,
    StrUtf8Coder,
    ToBytesCoder,
    VarIntCoder,
)
from .row import LogicalTypeCoder, RowCoder
from .sharded_key import ShardedKey, ShardedKeyCoder
from .typecoders import CoderRegistry, registry
from .windowed import (
    GlobalWindowCoder,
    IntervalWindowCoder,
    PaneInfoCoder,
    ParamWindowedValueCoder,
    TimestampCoder,
    TimestampPrefixingWindowCoder,
    WindowedValueCoder,
)

__all__ = [
    "Coder",
    "FastCoder",
    "StrUtf8Coder",
    "ToBytesCoder",
    "BytesCoder",
    "BooleanCoder",
    "VarIntCoder",
    "FloatCoder",
    "SingletonCoder",
    "NullableCoder",
    "TupleCoder",
    "TupleSequenceCoder",
    "IterableCoder",
    "ListCoder",
    "MapCoder",
    "LengthPrefixCoder",
    "LogicalTypeCoder",
    "RowCoder",
    "PickleCoder",
    "CloudpickleCoder",
    "DillCoder",
    "Base64PickleCoder",
    "FastPrimitivesCoder",
    "DeterministicFastPrimitivesCoder",
    "TimestampCoder",
    "IntervalWindowCoder",
    "GlobalWindowCoder",
    "PaneInfoCoder",
    "WindowedValueCoder",
    "ParamWindowedValueCoder",
    "TimestampPrefixingWindowCoder",
    "ShardedKey",
    "ShardedKeyCoder",
    "AvroGenericCoder",
    "AvroRecord",
    "CoderRegistry",
    "registry",
    "encode_key",
    "key_hash",
    "key_group",
    "check_keys",
    "KEY_GROUPS",
]
