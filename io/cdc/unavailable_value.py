"""What Debezium writes for a value that didn't change and that the database didn't log.

Source: the option `unavailable.value.placeholder` of Debezium's connectors.  The placeholder is written as text or
bytes, as the elements of an array, as key and value of a map, or, for an array of numbers, as its bytes' numbers.
Kafka Connect writes a map with its keys as pairs: lists in JSON, and records in Avro.  Avro's readers make a decimal
of its bytes, rounded to the precision of the field.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import uuid
from decimal import Context, Decimal
from typing import Any

DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"

_HEX = "hex:"
# Fewer digits may be those of a value.
_DIGITS_OF_DECIMALS = 16


class UnavailableValue:
    """The placeholder of a connector, which values are compared with.

    Args:
      placeholder: as the connector has it, with octets in hexadecimal digits behind 'hex:'.

    Raises `ValueError` for an empty placeholder, and for one with other digits.

    >>> unavailable = UnavailableValue()
    >>> [unavailable.is_it(value) for value in (DEFAULT_PLACEHOLDER, [DEFAULT_PLACEHOLDER], ["tea"], [], None)]
    [True, True, False, False, False]
    """

    def __init__(self, placeholder: str = DEFAULT_PLACEHOLDER) -> None:
        self.placeholder = placeholder
        if placeholder.startswith(_HEX):
            try:
                octets = binascii.unhexlify(placeholder[len(_HEX) :])
            except binascii.Error as error:
                raise ValueError(f"expected hexadecimal digits behind 'hex:', got {placeholder!r}: {error}") from error
        else:
            octets = placeholder.encode()
        if not octets:
            raise ValueError(f"expected the connector's unavailable.value.placeholder, got {placeholder!r}")
        text = octets.decode("utf-8", "replace")
        self._octets = octets
        self._maps = ({text: text}, [[text, text]], [{"key": text, "value": text}])
        # Of an array of UUIDs: as Java names one by bytes.
        named = uuid.UUID(bytes=hashlib.md5(octets, usedforsecurity=False).digest(), version=3)
        encodings = (base64.b64encode, base64.urlsafe_b64encode, binascii.hexlify)
        self._texts = frozenset({text, str(named), *(encode(octets).decode() for encode in encodings)})
        self._unscaled = Decimal(int.from_bytes(octets, "big", signed=True))
        self._numbers = [octet - 256 if octet > 127 else octet for octet in octets]

    def is_it(self, value: Any) -> bool:
        """Return True if a value stands for one that isn't there."""
        if isinstance(value, str):
            return value in self._texts or (value[:1] == "{" and self._is_map(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value) == self._octets
        if isinstance(value, (dict, list)) and value in self._maps:
            return True
        if isinstance(value, list):
            is_one = len(value) == 1 and not isinstance(value[0], (list, dict))
            return value == self._numbers or (is_one and self.is_it(value[0]))
        if isinstance(value, uuid.UUID):
            return str(value) in self._texts
        return isinstance(value, Decimal) and self._is_decimal(value)

    def _is_decimal(self, value: Decimal) -> bool:
        """Return True for a decimal of the placeholder's bytes, of a field of any scale."""
        if not value.is_finite() or value.is_signed() != self._unscaled.is_signed():
            return False
        digits = value.as_tuple().digits
        if len(digits) < _DIGITS_OF_DECIMALS:
            return False
        rounded = Context(prec=len(digits)).plus(self._unscaled)
        return _significant(rounded) == _significant(value)

    def _is_map(self, text: str) -> bool:
        """Return True for a map that is written as JSON."""
        try:
            return json.loads(text) in self._maps
        except ValueError:
            return False


def _significant(value: Decimal) -> str:
    return "".join(map(str, value.as_tuple().digits)).rstrip("0")
