"""The names of Beam's logical types, as attributes with an `urn`.

>>> micros_instant.urn
'beam:logical_type:micros_instant:v1'
"""

from __future__ import annotations

from ...frozen import frozen


@frozen
class PropertiesFromEnumValue:
    """Something of Beam's model that has a name."""

    urn: str


def _logical_type(name: str) -> PropertiesFromEnumValue:
    return PropertiesFromEnumValue(f"beam:logical_type:{name}:v1")


python_callable = _logical_type("python_callable")
micros_instant = _logical_type("micros_instant")
millis_instant = _logical_type("millis_instant")
decimal = _logical_type("decimal")
fixed_bytes = _logical_type("fixed_bytes")
var_bytes = _logical_type("var_bytes")
fixed_char = _logical_type("fixed_char")
var_char = _logical_type("var_char")
date = _logical_type("date")
timestamp = _logical_type("timestamp")
