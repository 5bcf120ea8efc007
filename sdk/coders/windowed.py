"""Coders of timestamps, windows and panes.

Formats are Beam's, except that all times are microseconds; Beam's portable formats truncate windows to milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ...triggers.pane import PaneInfo, PaneInfoTiming
from ...windowing.timestamp import Timestamp
from ...windowing.windows import GLOBAL_WINDOW, BoundedWindow, GlobalWindow, IntervalWindow
from ..elements.element_wrappers import WindowedValue
from ..typehints.forms import windowed_form
from .coder import Coder, encode_varint, read_varint, take, wrong_type
from .container import IterableCoder
from .pickled import PickleCoder
from .primitive import SelfDelimitingCoder, SingletonCoder, VarIntCoder

_signed = struct.Struct(">q")
_unsigned = struct.Struct(">Q")
_SHIFT = 1 << 63
_index = VarIntCoder()


class TimestampCoder(SelfDelimitingCoder[Timestamp]):
    """`Timestamp`s, as microseconds in eight bytes, big-endian.

    >>> from penstock.windowing import Timestamp
    >>> TimestampCoder().encode(Timestamp.of_micros(1))
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'
    """

    def encode(self, value: Any) -> bytes:
        if isinstance(value, Timestamp):
            return _signed.pack(value.micros)
        raise wrong_type(self, "Timestamp", value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[Timestamp, int]:
        return Timestamp.of_micros(*_signed.unpack(take(encoded, start, start + 8))), start + 8

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return Timestamp


class IntervalWindowCoder(SelfDelimitingCoder[IntervalWindow]):
    """`IntervalWindow`s, as their end and length in microseconds; the bytes sort as the ends do.

    >>> from penstock.windowing import IntervalWindow
    >>> coder = IntervalWindowCoder()
    >>> coder.decode(coder.encode(IntervalWindow(0, 60))) == IntervalWindow(0, 60)
    True
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, IntervalWindow):
            raise wrong_type(self, "IntervalWindow", value)
        end = value.end_micros
        return _unsigned.pack(end + _SHIFT) + encode_varint(end - value.start_micros)

    def read_nested(self, encoded: bytes, start: int) -> tuple[IntervalWindow, int]:
        end = _unsigned.unpack(take(encoded, start, start + 8))[0] - _SHIFT
        length, start = read_varint(encoded, start + 8)
        return IntervalWindow.of_micros(end - length, end), start

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return IntervalWindow


class GlobalWindowCoder(SingletonCoder):
    """The global window, encoded as no bytes.

    >>> GlobalWindowCoder().decode(b"")
    GlobalWindow
    """

    def __init__(self) -> None:
        super().__init__(GLOBAL_WINDOW)

    def to_type_hint(self) -> Any:
        return GlobalWindow

    def __repr__(self) -> str:
        return "GlobalWindowCoder()"


class PaneInfoCoder(SelfDelimitingCoder[PaneInfo]):
    """`PaneInfo`s: a byte for the flags, followed by the indexes that the flags don't imply.

    >>> from penstock.triggers import PaneInfo
    >>> PaneInfoCoder().encode(PaneInfo())
    b'\\x0f'
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, PaneInfo):
            raise wrong_type(self, "PaneInfo", value)
        flags = value.is_first | value.is_last << 1 | value.timing << 2
        index, nonspeculative = value.index, value.nonspeculative_index
        if index == 0 and nonspeculative == 0:
            return bytes((flags,))
        if nonspeculative == (-1 if value.timing == PaneInfoTiming.EARLY else index):
            return bytes((flags | 1 << 4,)) + _index.encode(index)
        return bytes((flags | 2 << 4,)) + _index.encode(index) + _index.encode(nonspeculative)

    def read_nested(self, encoded: bytes, start: int) -> tuple[PaneInfo, int]:
        byte = take(encoded, start, start + 1)[0]
        start += 1
        timing = PaneInfoTiming(byte >> 2 & 3)
        indexes = byte >> 4
        index = nonspeculative = 0
        if indexes:
            index, start = _index.read_nested(encoded, start)
            nonspeculative = -1 if timing == PaneInfoTiming.EARLY else index
        if indexes == 2:
            nonspeculative, start = _index.read_nested(encoded, start)
        return PaneInfo(bool(byte & 1), bool(byte & 2), timing, index, nonspeculative), start

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return PaneInfo


class TimestampPrefixingWindowCoder(Coder):
    """Windows of any class: the last timestamp of the window, and then the window.

    >>> coder = TimestampPrefixingWindowCoder(IntervalWindowCoder())
    >>> coder.decode(coder.encode(IntervalWindow(0, 10)))
    [0.0, 10.0)
    """

    def __init__(self, window_coder: Coder) -> None:
        self._window_coder = window_coder

    def encode(self, value: Any) -> bytes:
        return TimestampCoder().encode(value.max_timestamp()) + self._window_coder.encode(value)

    def encode_nested(self, value: Any) -> bytes:
        return TimestampCoder().encode(value.max_timestamp()) + self._window_coder.encode_nested(value)

    def decode(self, encoded: bytes) -> Any:
        return self._window_coder.decode(encoded[8:])

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        return self._window_coder.read_nested(encoded, start + 8)

    def is_deterministic(self) -> bool:
        return self._window_coder.is_deterministic()

    def to_type_hint(self) -> Any:
        return self._window_coder.to_type_hint()


class WindowedValueCoder(Coder):
    """`WindowedValue`s: timestamp, windows, pane and then the value.

    Args:
      wrapped_value_coder: the coder of the values.
      window_coder: the coder of the windows; by default they are pickled.
    """

    def __init__(self, wrapped_value_coder: Coder, window_coder: Coder | None = None) -> None:
        self._value_coder = wrapped_value_coder
        self._window_coder = window_coder or PickleCoder()

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, WindowedValue):
            raise wrong_type(self, "WindowedValue", value)
        return self._header(value) + self._value_coder.encode(value.value)

    def encode_nested(self, value: Any) -> bytes:
        return self._header(value) + self._value_coder.encode_nested(value.value)

    def _header(self, value: WindowedValue) -> bytes:
        windows = IterableCoder(self._window_coder).encode(value.windows)
        return TimestampCoder().encode(value.timestamp) + windows + PaneInfoCoder().encode(value.pane_info)

    def decode(self, encoded: bytes) -> WindowedValue:
        timestamp, windows, pane, start = self._read_header(encoded, 0)
        return WindowedValue(self._value_coder.decode(encoded[start:]), timestamp, windows, pane)

    def read_nested(self, encoded: bytes, start: int) -> tuple[WindowedValue, int]:
        timestamp, windows, pane, start = self._read_header(encoded, start)
        value, end = self._value_coder.read_nested(encoded, start)
        return WindowedValue(value, timestamp, windows, pane), end

    def _read_header(self, encoded: bytes, start: int) -> tuple[Timestamp, list[BoundedWindow], PaneInfo, int]:
        timestamp, start = TimestampCoder().read_nested(encoded, start)
        windows, start = IterableCoder(self._window_coder).read_nested(encoded, start)
        pane, start = PaneInfoCoder().read_nested(encoded, start)
        return timestamp, windows, pane, start

    def is_deterministic(self) -> bool:
        return self._value_coder.is_deterministic() and self._window_coder.is_deterministic()

    def to_type_hint(self) -> Any:
        return windowed_form(self._value_coder.to_type_hint()) if windowed_form.is_provided() else WindowedValue


class ParamWindowedValueCoder(WindowedValueCoder):
    """`WindowedValue`s with the timestamp, windows and pane of an encoded one, of which only values are encoded.

    Args:
      payload: a `WindowedValue` as bytes of a `WindowedValueCoder`, whose own value is ignored.
      components: the coders of values and of windows.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> like = WindowedValueCoder(VarIntCoder()).encode(WindowedValue(0, Timestamp(5), []))
    >>> coder = ParamWindowedValueCoder(like, [VarIntCoder(), PickleCoder()])
    >>> coder.encode(WindowedValue(7, Timestamp(5), [])), coder.decode(b"\\x07").timestamp
    (b'\\x07', Timestamp(5))
    """

    def __init__(self, payload: bytes, components: Sequence[Coder]) -> None:
        super().__init__(*components)
        self.payload = payload

    def _header(self, value: WindowedValue) -> bytes:
        return b""

    def _read_header(self, encoded: bytes, start: int) -> tuple[Timestamp, list[BoundedWindow], PaneInfo, int]:
        timestamp, windows, pane, _ = super()._read_header(self.payload, 0)
        return timestamp, windows, pane, start
