"""The canonical encoding of keys, which determines key groups.

Two keys have the same encoding exactly if they are equal in Python: `1`, `1.0` and `True` are one key, and so are
`("a", 1)` and a named tuple of the same values.  For types with a registered coder, the coder decides (`coded_key.py`).
The encoding is the same in every process and on every machine (`hash` is not: it is seeded).  Values that can't be
encoded can't be keys, and are refused.

The first byte is the kind of the value.  Numbers are encoded independently of their type: whole ones as `i`, other
floats as `f`, other fractions as `q`.  Each part of a container is prefixed with its length.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
import sys
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum, Flag
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

import attr

from ...persistence import name_of, restores
from ...windowing.microseconds import MICROS_PER_SECOND, Microseconds
from ...windowing.windows import BoundedWindow, GlobalWindow, IntervalWindow
from ..elements.row import Row
from ..errors import InvalidKeyError
from .mixed_hash import BITS, MASK, MULTIPLIER, mixed
from .refused_key import Refused, message, refused
from .typecoders import registry

if TYPE_CHECKING:
    import pathlib
    from fractions import Fraction

# The number of key groups.  State is rescaled by key groups.
KEY_GROUPS = 128

Encoder: TypeAlias = Callable[[Any], bytes]

_double = struct.Struct(">d")
_STR_SEED = crc32(b"s")
_INT_SEED = crc32(b"i")


class CodedKey:
    """A key with its encoding, which decides its equality; see `coded_key.py`."""

    __slots__ = ("encoded", "key")

    def __init__(self, encoded: bytes, key: Any) -> None:
        self.encoded = encoded
        self.key = key

    def __eq__(self, other: object) -> bool:
        return type(other) is CodedKey and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __repr__(self) -> str:
        return repr(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_coded_key, (self.encoded, self.key))


@restores("coded-key", 1)
def _coded_key(encoded: bytes, key: Any) -> CodedKey:
    return CodedKey(encoded, key)


def key_hash(key: Any) -> int:
    """Return a 32-bit hash of a key, which is the same in every process for equal keys.  Raises `InvalidKeyError`.

    >>> key_hash("a"), key_hash(1) == key_hash(1.0) == key_hash(True)
    (3991240644, True)
    """
    # Fast path for the two kinds of key that nearly all pipelines use, in a quarter of the time.
    kind = type(key)
    try:
        if kind is str:
            return crc32(key.encode(), _STR_SEED) * MULTIPLIER & MASK
        if kind is int:
            return crc32(key.to_bytes(8, "big", signed=True), _INT_SEED) * MULTIPLIER & MASK
    except (OverflowError, UnicodeEncodeError):
        pass
    return mixed(crc32(encode_key(key)))


def key_group(key: Any, groups: int = KEY_GROUPS) -> int:
    """Return the key group, less than `groups`, of a key.  Raises `InvalidKeyError`.

    >>> key_group("a")
    118
    """
    return key_hash(key) * groups >> BITS


def key_groups(keys: Sequence[Any], groups: int = KEY_GROUPS) -> list[int]:
    """Return the `key_group` of each key, for strings and ints in half the time.

    >>> key_groups(["a", "b"]), key_groups([("a", 1)])
    ([118, 19], [111])
    """
    kinds = set(map(type, keys))
    # If `groups` is a power of two, the high bits of the hash are the group.
    last = groups - 1
    down = BITS - last.bit_length() if groups & last == 0 else 0
    try:
        if down and kinds == {str}:
            return [crc32(key.encode(), _STR_SEED) * MULTIPLIER >> down & last for key in keys]
        if down and kinds == {int}:
            return [crc32(key.to_bytes(8, "big", signed=True), _INT_SEED) * MULTIPLIER >> down & last for key in keys]
    except (OverflowError, UnicodeEncodeError):
        pass
    # Equal keys have one encoding, which is computed once.
    known = {key: key_hash(key) * groups >> BITS for key in dict.fromkeys(keys)}
    return [known[key] for key in keys]


def encode_keys(keys: Sequence[Any]) -> list[bytes]:
    """Return the `encode_key` of each key, for strings and ints in half the time.

    >>> encode_keys([1, 2]) == [encode_key(1), encode_key(2)]
    True
    """
    kinds = set(map(type, keys))
    try:
        if kinds == {str}:
            return [b"s" + key.encode() for key in keys]
        if kinds == {int}:
            return [b"i" + key.to_bytes(8, "big", signed=True) for key in keys]
    except (OverflowError, UnicodeEncodeError):
        pass
    return list(map(encode_key, keys))


def groups_of_encoded(encoded: Sequence[bytes]) -> list[int]:
    """Return the key group of each key that `encode_key` has encoded.

    >>> groups_of_encoded(encode_keys(["a", 1.5])) == key_groups(["a", 1.5])
    True
    """
    down, last = BITS - (KEY_GROUPS - 1).bit_length(), KEY_GROUPS - 1
    return [crc32(own) * MULTIPLIER >> down & last for own in encoded]


def encode_key(key: Any) -> bytes:
    """Return the encoding of a key: equal for equal keys, different for different ones.

    Keys can be None, numbers, strings, bytes, dates and times, UUIDs, paths, IP addresses and networks, enum members,
    windows, timestamps, NumPy scalars, those of times included, `Row`s, frozen dataclasses and attrs classes, tuples
    and frozensets of all these, values of a type with a registered deterministic coder, and of a
    class with `__setstate__`, `__eq__` and `__hash__`, whose state is a key or a dict of keys by name.
    Raises `InvalidKeyError` for other values, with a message that starts with the value.

    >>> encode_key("a"), encode_key((1, "a")) == encode_key((1.0, "a"))
    (b'sa', True)
    """
    try:
        return _encode(key)
    except Refused as error:
        raise InvalidKeyError(message(key, error)) from None


# ---------------------------------------------------------------- encoders, by the type of the key


def _encode(key: Any) -> bytes:
    if _cache_version != registry.version:
        _forget()
    kind = type(key)
    return (_cache.get(kind) or _derived(kind))(key)


def _block(encoded: bytes) -> bytes:
    return len(encoded).to_bytes(4, "big") + encoded


def _none(key: None) -> bytes:
    return b"n"


def _int(key: int) -> bytes:
    try:
        return b"i" + int.to_bytes(key, 8, "big", signed=True)
    except OverflowError:
        # The least number of bytes, which exceeds eight.
        return b"i" + int.to_bytes(key, int.bit_length(key) // 8 + 1, "big", signed=True)


def _float(key: float) -> bytes:
    if float.is_integer(key):
        return _int(int(key))
    if key != key:
        raise Refused(key, "is not equal to itself and so in no group", "replace it, for example with None")
    return b"f" + _double.pack(key)


def _fraction(key: Decimal | Fraction) -> bytes:
    if isinstance(key, Decimal) and not key.is_finite():
        return _float(float("nan") if key.is_nan() else float(key))
    numerator, denominator = key.as_integer_ratio()
    if denominator == 1:
        return _int(numerator)
    try:
        nearest = numerator / denominator
        if nearest.as_integer_ratio() == (numerator, denominator):
            return _float(nearest)
    except OverflowError:
        pass
    return b"q" + _block(_int(numerator)) + _int(denominator)


def _complex(key: complex) -> bytes:
    return _float(key.real) if key.imag == 0 else b"c" + _block(_float(key.real)) + _float(key.imag)


def _str(key: str) -> bytes:
    return b"s" + str.encode(key, "utf-8", "surrogatepass")


def _bytes(key: bytes) -> bytes:
    return b"b" + key


def _tuple(key: tuple[Any, ...]) -> bytes:
    parts = [b"t"]
    for part in key:
        encoded = _encode(part)
        parts.append(len(encoded).to_bytes(4, "big"))
        parts.append(encoded)
    return b"".join(parts)


def _frozenset(key: frozenset[Any]) -> bytes:
    return b"z" + b"".join(sorted(_block(_encode(part)) for part in key))


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


# With fold 0, which comparison and datetime's hash ignore.
def _datetime(key: dt.datetime) -> bytes:
    offset = key.replace(fold=0).utcoffset()
    micros = (key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return b"d" + _int(micros) if offset is None else b"u" + _int(micros - offset // _MICROSECOND)


def _date(key: dt.date) -> bytes:
    return b"D" + _int(key.toordinal())


def _time(key: dt.time) -> bytes:
    offset = key.replace(fold=0).utcoffset()
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return b"h" + _int(micros) if offset is None else b"H" + _int(micros - offset // _MICROSECOND)


def _timedelta(key: dt.timedelta) -> bytes:
    return b"l" + _int(key // _MICROSECOND)


def _uuid(key: uuid.UUID) -> bytes:
    return b"U" + key.bytes


# Paths of Windows are equal in any case.
def _path(key: pathlib.PurePath) -> bytes:
    is_of_windows = isinstance(key, sys.modules["pathlib"].PureWindowsPath)
    return b"P" + _str(str(key).lower()) if is_of_windows else b"p" + _str(str(key))


# An address has one form as text, with the scope of IPv6; so has a network.
def _ip_address(key: Any) -> bytes:
    return b"a" + _block(type(key).__name__.encode()) + _str(str(key))


# Timestamps and durations equal the number of their seconds, and are encoded as it.  Some hundreds of years from now,
# microseconds no longer fit a float, and are encoded themselves.
def _microseconds(key: Microseconds) -> bytes:
    seconds, rest = divmod(key.micros, MICROS_PER_SECOND)
    if rest == 0:
        return _int(seconds)
    nearest = key.micros / MICROS_PER_SECOND
    return _float(nearest) if round(nearest * MICROS_PER_SECOND) == key.micros else b"m" + _int(key.micros)


def _global_window(key: GlobalWindow) -> bytes:
    return b"G"


def _window(key: BoundedWindow) -> bytes:
    fields = sorted(vars(key).items())
    return b"w" + _name(type(key)) + _tuple(tuple(part for field in fields for part in field))


def _row(key: Row) -> bytes:
    return b"r" + _name(type(key)) + _tuple((*key._fields, *key))


def _enum(key: Enum) -> bytes:
    return b"e" + _name(type(key)) + _encode(key.value if isinstance(key, Flag) else key.name)


def _name(kind: type) -> bytes:
    return _block(name_of(kind).encode())


_EXACT: dict[type, Encoder] = {
    type(None): _none,
    bool: _int,
    int: _int,
    float: _float,
    Decimal: _fraction,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    tuple: _tuple,
    IntervalWindow: _tuple,
    frozenset: _frozenset,
    # Before date, its base class.
    dt.datetime: _datetime,
    dt.date: _date,
    dt.time: _time,
    dt.timedelta: _timedelta,
    uuid.UUID: _uuid,
    Microseconds: _microseconds,
    GlobalWindow: _global_window,
    Row: _row,
    BoundedWindow: _window,
    CodedKey: attrgetter("encoded"),
}


_OF_OTHER_MODULES: tuple[tuple[str, str, Encoder], ...] = (
    ("fractions", "Fraction", _fraction),
    ("pathlib", "PurePath", _path),
    *(
        ("ipaddress", f"IPv{version}{kind}", _ip_address)
        for version in (4, 6)
        for kind in ("Address", "Network", "Interface")
    ),
)

# ---------------------------------------------------------------- types seen for the first time

_cache: dict[type, Encoder] = {}
_cache_version = -1


def _forget() -> None:
    """Clear all caches that depend on the registered coders."""
    global _cache_version
    _cache.clear()
    _cache.update(_EXACT)
    for kind in registry.deterministic_types() & _EXACT.keys():
        _cache[kind] = _registered(kind) or _EXACT[kind]
    _cache_version = registry.version


def _derived(kind: type) -> Encoder:
    """Return the encoder of a type that isn't registered."""
    # Importing these takes a part of the time of `import penstock`.  A program with such keys has imported them.
    for module, name, encode in _OF_OTHER_MODULES:
        if module in sys.modules:
            _EXACT.setdefault(getattr(sys.modules[module], name), encode)
    encoder = _cache[kind] = (
        _registered(kind)
        or _as_base(kind)
        or _as_enum(kind)
        or _as_fields(kind)
        or _as_numpy(kind)
        or _as_state(kind)
        or _refuse
    )
    return encoder


def _registered(kind: type) -> Encoder | None:
    coder = registry.registered_coder(kind)
    if coder is None:
        return None
    if not coder.is_deterministic():
        try:
            coder = coder.as_deterministic_coder(kind.__name__)
        except InvalidKeyError:
            return _refuse_non_deterministic
    prefix = b"k" + _name(kind) + _name(type(coder))
    return lambda key: prefix + coder.encode(key)


def _as_base(kind: type) -> Encoder | None:
    """Return the base class's encoder for a subclass with the same equality: named tuples, `IntEnum`s, `Timestamp`s."""
    for base, encoder in _EXACT.items():
        if issubclass(kind, base) and all(_method(kind, name) is _method(base, name) for name in _EQUALITY):
            return encoder
    return None


def _as_enum(kind: type) -> Encoder | None:
    is_own = any(_method(kind, name) not in (_method(Enum, name), _method(Flag, name)) for name in _EQUALITY)
    return _enum if issubclass(kind, Enum) and not is_own else None


def _as_fields(kind: type) -> Encoder | None:
    """Return the encoder of a dataclass or attrs class whose equality and hash are generated from its fields."""
    if _method(kind, "__hash__") in (None, object.__hash__) or not _is_generated(_method(kind, "__eq__")):
        return None
    if attr.has(kind):
        getters = [_getter(field.name, field.eq_key) for field in attr.fields(kind) if field.eq]
    elif dataclasses.is_dataclass(kind):
        getters = [_getter(field.name, None) for field in dataclasses.fields(kind) if field.compare]
    else:
        return None
    prefix = b"o" + _name(kind)
    return lambda key: prefix + _tuple(tuple(getter(key) for getter in getters))


# The methods that define equality.
_EQUALITY = ("__eq__", "__hash__")


def _method(kind: type, name: str) -> Any:
    return getattr(kind, name)


def _has_hash(kind: type) -> bool:
    return _method(kind, "__hash__") is not None


# The file of generated source: "<string>", or "<attrs generated ...>".
def _is_generated(method: Any) -> bool:
    return getattr(getattr(method, "__code__", None), "co_filename", "").startswith("<")


def _getter(name: str, eq_key: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return (lambda key: getattr(key, name)) if eq_key is None else (lambda key: eq_key(getattr(key, name)))


def _as_numpy(kind: type) -> Encoder | None:
    # Recognized by their module, so that NumPy isn't required.
    if kind.__module__ != "numpy" or not _has_hash(kind) or not hasattr(kind, "item"):
        return None
    return _numpy_time if kind.__name__ in ("datetime64", "timedelta64") else _numpy


def _numpy(key: Any) -> bytes:
    value = key.item()
    if type(value) not in (bool, int, float, complex, str, bytes):
        raise refused(key)
    return _encode(value)


# Units of NumPy's times: as seconds, in thousandths of each other from seconds on, and as months.
_SECONDS = {"W": 7 * 86_400, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_FRACTIONS = ("s", "ms", "us", "ns", "ps", "fs", "as")
_MONTHS = {"Y": 12, "M": 1}


def _numpy_time(key: Any) -> bytes:
    """Encode a `datetime64` or a `timedelta64`: equal ones may have different units."""
    numpy = sys.modules["numpy"]
    if numpy.isnat(key):
        raise Refused(key, "is not equal to itself and so in no group", "replace it, for example with None")
    is_time = type(key) is numpy.datetime64
    unit, count = numpy.datetime_data(key.dtype)
    if is_time and unit in _MONTHS:
        key = key.astype("datetime64[D]")
        unit, count = "D", 1
    number = int(key.astype(numpy.int64)) * count
    prefix = b"N" if is_time else b"L"
    if unit in _MONTHS:
        return prefix + b"M" + _int(number * _MONTHS[unit])
    if unit == "generic":
        return prefix + b"g" + _int(number)
    if unit in _FRACTIONS:
        return prefix + b"s" + _int(number * 10 ** (18 - 3 * _FRACTIONS.index(unit)))
    return prefix + b"s" + _int(number * _SECONDS[unit] * 10**18)


def _as_state(kind: type) -> Encoder | None:
    """Return the encoder of a class with a `__setstate__`, and with an equality and a hash of its own, by its state.

    The class has no `__reduce__`, by which its state would be only a part of it.
    """
    is_restored = hasattr(kind, "__getstate__") and hasattr(kind, "__setstate__")
    if not is_restored or _method(kind, "__reduce__") is not object.__reduce__ or not _has_hash(kind):
        return None
    if any(_method(kind, name) is _method(object, name) for name in _EQUALITY):
        return None
    prefix = b"O" + _name(kind)

    def encode(key: Any) -> bytes:
        state = key.__getstate__()
        if isinstance(state, dict):
            return prefix + b"{" + _tuple(tuple(part for name in sorted(state) for part in (name, state[name])))
        return prefix + _encode(state)

    return encode


def _refuse(key: Any) -> bytes:
    raise refused(key)


def _refuse_non_deterministic(key: Any) -> bytes:
    coder = type(registry.registered_coder(type(key))).__name__
    advice = f"let {coder}.is_deterministic return True, if equal values always have equal bytes"
    raise Refused(key, f"is encoded by {coder}, which is not deterministic", advice)
