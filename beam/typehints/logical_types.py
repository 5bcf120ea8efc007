"""Logical types: types of fields that are represented by other types, and the registry of these.

A program may define its own:

>>> class Celsius(float):
...     pass
>>> @LogicalType.register_logical_type
... class CelsiusType(NoArgumentLogicalType):
...     @classmethod
...     def urn(cls):
...         return "doctest:celsius:v1"
...     @classmethod
...     def language_type(cls):
...         return Celsius
...     @classmethod
...     def representation_type(cls):
...         return float
...     def to_representation_type(self, value):
...         return float(value)
...     def to_language_type(self, value):
...         return Celsius(value)
>>> LogicalType.from_typing(Celsius).to_language_type(20.5) == Celsius(20.5)
True
"""

from __future__ import annotations

import datetime
import decimal
import logging
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import numpy

from ...windowing.timestamp import Timestamp
from .schema_messages import LogicalType as LogicalTypeMessage
from .schema_values import value_from_runner_api

_logger = logging.getLogger(__name__)

LanguageT = TypeVar("LanguageT")
RepresentationT = TypeVar("RepresentationT")
ArgT = TypeVar("ArgT")

_LARGEST = int(numpy.iinfo(numpy.int32).max)


class LogicalTypeRegistry:
    """Logical types by their name, and by the type of Python that they stand for."""

    def __init__(self) -> None:
        self.by_urn: dict[str, Any] = {}
        self.by_logical_type: dict[Any, str] = {}
        self.by_language_type: dict[Any, Any] = {}

    def add(self, urn: str, logical_type: Any) -> None:
        """Register a class, which replaces an earlier one of the same name or type of Python."""
        self.by_urn[urn] = logical_type
        self.by_logical_type[logical_type] = urn
        self.by_language_type[logical_type.language_type()] = logical_type

    def get_logical_type_by_urn(self, urn: str) -> Any:
        """Return the class of a name, or None."""
        return self.by_urn.get(urn)

    def get_urn_by_logical_type(self, logical_type: Any) -> str | None:
        """Return the name of a class, or None."""
        return self.by_logical_type.get(logical_type)

    def get_logical_type_by_language_type(self, representation_type: Any) -> Any:
        """Return the class for a type of Python, or None."""
        return self.by_language_type.get(representation_type)

    def copy(self) -> LogicalTypeRegistry:
        """Return a registry with the same classes."""
        copied = LogicalTypeRegistry()
        copied.load(self)
        return copied

    def load(self, another: LogicalTypeRegistry) -> None:
        """Add the classes of another registry."""
        self.by_urn.update(another.by_urn)
        self.by_logical_type.update(another.by_logical_type)
        self.by_language_type.update(another.by_language_type)


class LogicalType(Generic[LanguageT, RepresentationT, ArgT]):
    """Base class of logical types."""

    _known_logical_types: ClassVar[LogicalTypeRegistry] = LogicalTypeRegistry()

    @classmethod
    def urn(cls) -> str:
        """Return the name."""
        raise NotImplementedError(f"{cls.__name__} doesn't define urn")

    @classmethod
    def language_type(cls) -> Any:
        """Return the type of values in Python."""
        raise NotImplementedError(f"{cls.__name__} doesn't define language_type")

    @classmethod
    def representation_type(cls) -> Any:
        """Return the type of what represents a value."""
        raise NotImplementedError(f"{cls.__name__} doesn't define representation_type")

    @classmethod
    def argument_type(cls) -> Any:
        """Return the type of the argument; None for a type without one."""
        raise NotImplementedError(f"{cls.__name__} doesn't define argument_type")

    def argument(self) -> Any:
        """Return the argument."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define argument")

    def to_representation_type(self, value: Any) -> Any:
        """Return what represents a value."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define to_representation_type")

    def to_language_type(self, value: Any) -> Any:
        """Return the value that something represents."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define to_language_type")

    @classmethod
    def register_logical_type(cls, logical_type_cls: Any) -> Any:
        """Register a class, and return it: a decorator."""
        cls._known_logical_types.add(logical_type_cls.urn(), logical_type_cls)
        return logical_type_cls

    @classmethod
    def is_known_logical_type(cls, logical_type: Any) -> bool:
        """Return whether a class is registered."""
        return cls._known_logical_types.get_urn_by_logical_type(logical_type) is not None

    @classmethod
    def from_typing(cls, typ: Any) -> Any:
        """Return the logical type for a type of Python.  Raises `ValueError` if there is none."""
        try:
            found = cls._known_logical_types.get_logical_type_by_language_type(typ)
        except TypeError:  # unhashable
            found = None
        if found is None:
            raise ValueError(f"no logical type is registered for {typ!r}")
        return found._from_typing(typ)

    @classmethod
    def _from_typing(cls, typ: Any) -> Any:
        return cls()

    @classmethod
    def from_runner_api(cls, logical_type_proto: LogicalTypeMessage) -> Any:
        """Return the logical type of a message.  Raises `ValueError` for an unknown name."""
        found = cls._known_logical_types.get_logical_type_by_urn(logical_type_proto.urn)
        if found is None:
            raise ValueError(f"no logical type is registered under the name {logical_type_proto.urn!r}")
        if not logical_type_proto.HasField("argument_type") or not logical_type_proto.HasField("argument"):
            return found()
        try:
            argument = value_from_runner_api(logical_type_proto.argument_type, logical_type_proto.argument)
        except ValueError:
            _logger.warning("%s: its argument is ignored, since it is no atomic value", logical_type_proto.urn)
            return found()
        return found(argument)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))


class NoArgumentLogicalType(LogicalType[LanguageT, RepresentationT, None]):
    """Base class of logical types without an argument."""

    @classmethod
    def argument_type(cls) -> Any:
        return None

    def argument(self) -> Any:
        return None


class PassThroughLogicalType(LogicalType[LanguageT, LanguageT, ArgT]):
    """Base class of logical types whose values represent themselves."""

    @classmethod
    def representation_type(cls) -> Any:
        return cls.language_type()

    def to_representation_type(self, value: Any) -> Any:
        return value

    def to_language_type(self, value: Any) -> Any:
        return value


class MicrosInstantRepresentation(NamedTuple):
    """Seconds, rounded down, and the microseconds behind them."""

    seconds: numpy.int64
    micros: numpy.int64


class ParameterizedTimestampRepresentation(NamedTuple):
    """Seconds, rounded down, and a fraction of a second in the units of the precision."""

    seconds: numpy.int64
    subseconds: numpy.int32


class ParameterizedTimestampShortRepresentation(NamedTuple):
    """The same for a precision of at most four digits."""

    seconds: numpy.int64
    subseconds: numpy.int16


_SHORT_PRECISION: Final = 4


# Those that stand for the same type of Python are registered in an order: the last counts.
@LogicalType.register_logical_type
class ParameterizedTimestamp(LogicalType[Timestamp, Any, numpy.int32]):
    """`Timestamp`s with a number of decimal digits of a second, from 0 to 9.

    >>> ParameterizedTimestamp(3).to_representation_type(Timestamp(1.5))
    ParameterizedTimestampShortRepresentation(seconds=1, subseconds=500)
    """

    def __init__(self, precision: int | None = None) -> None:
        if precision is None or not 0 <= precision <= Timestamp.NANOS_PRECISION:
            raise ValueError(f"{self.urn()} needs a precision from 0 to {Timestamp.NANOS_PRECISION}, got {precision!r}")
        self._precision = int(precision)

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:timestamp:v1"

    @classmethod
    def language_type(cls) -> Any:
        return Timestamp

    def representation_type(self) -> Any:  # type: ignore[override]
        is_short = self._precision <= _SHORT_PRECISION
        return ParameterizedTimestampShortRepresentation if is_short else ParameterizedTimestampRepresentation

    @classmethod
    def argument_type(cls) -> Any:
        return numpy.int32

    def argument(self) -> int:
        return self._precision

    def to_representation_type(self, value: Timestamp) -> Any:
        fraction, digits = value.micros % 1_000_000, Timestamp.MICROS_PRECISION
        subseconds, rest = divmod(fraction * 10**self._precision, 10**digits)
        if rest:
            raise ValueError(f"{value!r} has more than {self._precision} digits of a second")
        return self.representation_type()(value.micros // 1_000_000, subseconds)

    def to_language_type(self, value: Any) -> Timestamp:
        subseconds = int(value.subseconds)
        if not 0 <= subseconds < 10**self._precision:
            raise ValueError(f"{subseconds} is no fraction of a second with {self._precision} digits")
        return Timestamp(int(value.seconds), subseconds, self._precision)

    @classmethod
    def _from_typing(cls, typ: Any) -> Any:
        return cls(Timestamp.MICROS_PRECISION)


@LogicalType.register_logical_type
class MillisInstant(NoArgumentLogicalType[Timestamp, numpy.int64]):
    """`Timestamp`s of whole milliseconds, as Java writes them: shifted by two to the power of 63."""

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:millis_instant:v1"

    @classmethod
    def representation_type(cls) -> Any:
        return numpy.int64

    @classmethod
    def language_type(cls) -> Any:
        return Timestamp

    def to_language_type(self, value: Any) -> Timestamp:
        millis = int(value) + (1 << 63) if value < 0 else int(value) - (1 << 63)
        return Timestamp(micros=millis * 1000)


@LogicalType.register_logical_type
class MicrosInstant(NoArgumentLogicalType[Timestamp, MicrosInstantRepresentation]):
    """`Timestamp`s with microseconds.

    >>> MicrosInstant().to_representation_type(Timestamp(-0.25))
    MicrosInstantRepresentation(seconds=-1, micros=750000)
    """

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:micros_instant:v1"

    @classmethod
    def representation_type(cls) -> Any:
        return MicrosInstantRepresentation

    @classmethod
    def language_type(cls) -> Any:
        return Timestamp

    def to_representation_type(self, value: Timestamp) -> MicrosInstantRepresentation:
        parts: tuple[Any, Any] = divmod(value.micros, 1_000_000)
        return MicrosInstantRepresentation(*parts)

    def to_language_type(self, value: Any) -> Timestamp:
        return Timestamp(seconds=int(value.seconds), micros=int(value.micros))


@LogicalType.register_logical_type
class Date(NoArgumentLogicalType[datetime.date, numpy.int64]):
    """Dates, as days since 1970."""

    EPOCH: ClassVar[datetime.date] = datetime.date(1970, 1, 1)

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:date:v1"

    @classmethod
    def representation_type(cls) -> Any:
        return numpy.int64

    @classmethod
    def language_type(cls) -> Any:
        return datetime.date

    def to_representation_type(self, value: datetime.date) -> Any:
        return (value - self.EPOCH).days

    def to_language_type(self, value: Any) -> datetime.date:
        return self.EPOCH + datetime.timedelta(days=int(value))


class FixedPrecisionDecimalArgumentRepresentation(NamedTuple):
    """The number of digits, and of those behind the point."""

    precision: numpy.int32
    scale: numpy.int32


class DecimalLogicalType(NoArgumentLogicalType[decimal.Decimal, bytes]):
    """Decimals, as text."""

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:decimal:v1"

    @classmethod
    def representation_type(cls) -> Any:
        return bytes

    @classmethod
    def language_type(cls) -> Any:
        return decimal.Decimal

    def to_representation_type(self, value: decimal.Decimal) -> bytes:
        return str(value).encode()

    def to_language_type(self, value: bytes) -> decimal.Decimal:
        return decimal.Decimal(value.decode())


@LogicalType.register_logical_type
class FixedPrecisionDecimalLogicalType(
    LogicalType[decimal.Decimal, DecimalLogicalType, FixedPrecisionDecimalArgumentRepresentation]
):
    """Decimals with a number of digits, and of those behind the point."""

    def __init__(self, precision: int = -1, scale: int = 0) -> None:
        self.precision = precision
        self.scale = scale

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:fixed_decimal:v1"

    @classmethod
    def representation_type(cls) -> Any:
        return DecimalLogicalType

    @classmethod
    def language_type(cls) -> Any:
        return decimal.Decimal

    @classmethod
    def argument_type(cls) -> Any:
        return FixedPrecisionDecimalArgumentRepresentation

    def argument(self) -> Any:
        return FixedPrecisionDecimalArgumentRepresentation(numpy.int32(self.precision), numpy.int32(self.scale))

    def to_representation_type(self, value: decimal.Decimal) -> decimal.Decimal:
        return value

    def to_language_type(self, value: decimal.Decimal) -> decimal.Decimal:
        return value


LogicalType.register_logical_type(DecimalLogicalType)


class _Bounded(PassThroughLogicalType[Any, numpy.int32]):
    """Base class of bytes and text of at most, or exactly, some length."""

    length: int
    padding: ClassVar[Any] = None

    @classmethod
    def argument_type(cls) -> Any:
        return numpy.int32

    def argument(self) -> int:
        return self.length

    def to_language_type(self, value: Any) -> Any:
        if len(value) > self.length:
            raise ValueError(f"{value!r} is longer than {self.length}, the length of {type(self).__name__}")
        return value if self.padding is None else value + self.padding * (self.length - len(value))


class _OfLength(_Bounded):
    def __init__(self, length: int) -> None:
        self.length = length


class _OfLengthUpTo(_Bounded):
    def __init__(self, max_length: int = _LARGEST) -> None:
        self.max_length = self.length = max_length


@LogicalType.register_logical_type
class FixedBytes(_OfLength):
    """Bytes of one length; shorter ones are padded with zeros.

    >>> FixedBytes(3).to_language_type(b"a")
    b'a\\x00\\x00'
    """

    padding: ClassVar[Any] = b"\0"

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:fixed_bytes:v1"

    @classmethod
    def language_type(cls) -> Any:
        return bytes


@LogicalType.register_logical_type
class VariableBytes(_OfLengthUpTo):
    """Bytes of at most some length."""

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:var_bytes:v1"

    @classmethod
    def language_type(cls) -> Any:
        return bytes


@LogicalType.register_logical_type
class FixedString(_OfLength):
    """Text of one length; shorter text is padded with blanks."""

    padding: ClassVar[Any] = " "

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:fixed_char:v1"

    @classmethod
    def language_type(cls) -> Any:
        return str


@LogicalType.register_logical_type
class VariableString(_OfLengthUpTo):
    """Text of at most some length."""

    @classmethod
    def urn(cls) -> str:
        return "beam:logical_type:var_char:v1"

    @classmethod
    def language_type(cls) -> Any:
        return str
