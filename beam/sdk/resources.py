"""Resource hints: what Beam's transforms declare of the machines that run them.

They are checked and kept; penstock's runners ignore them.  A subclass of `ResourceHint` is a hint of the user's:

>>> class DiskHint(ResourceHint):
...     urn = "example:disk:v1"
>>> register_resource_hint("disk", DiskHint)
>>> parse_resource_hints({"disk": "ssd", "min_ram": "2 GiB"})
{'example:disk:v1': b'ssd', 'beam:resources:min_ram_bytes:v1': b'2147483648'}
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, ClassVar

_logger = logging.getLogger(__name__)

_UNITS: dict[str, int] = {"B": 1} | {
    f"{prefix}{kind}": base**power
    for power, prefix in enumerate("KMGTP", 1)
    for kind, base in (("B", 1000), ("iB", 1024))
}

_by_name: dict[str, type[ResourceHint]] = {}
_noted: set[str] = set()


class ResourceHint:
    """Base class of hints, which parse their value and merge it with that of the composite around.

    Attributes:
      urn: the name of the parsed hint.
    """

    urn: ClassVar[str | None] = None

    @classmethod
    def parse(cls, value: Any) -> dict[str, bytes]:
        """Return the value as bytes, by URN.  Raises `ValueError` for an invalid value."""
        if not isinstance(value, str):
            raise ValueError(f"expected a str, got {value!r}")
        return {str(cls.urn): value.encode("ascii")}

    @classmethod
    def get_merged_value(cls, outer_value: bytes, inner_value: bytes) -> bytes:
        """Return the value for a transform with a hint that the composite around it has, too: that of the transform."""
        return inner_value

    @staticmethod
    def get_by_urn(urn: str) -> type[ResourceHint]:
        """Return the class with this URN.  Raises `KeyError`."""
        return {str(hint.urn): hint for hint in _by_name.values()}[urn]

    @staticmethod
    def get_by_name(name: str) -> type[ResourceHint]:
        """Return the class that is registered under this name.  Raises `KeyError`."""
        return _by_name[name]

    @staticmethod
    def is_registered(name: str) -> bool:
        """Return whether a class is registered under this name."""
        return name in _by_name

    @staticmethod
    def register_resource_hint(hint_name: str, hint_class: type[ResourceHint]) -> None:
        """Register a class under the name of its argument in `with_resource_hints`."""
        register_resource_hint(hint_name, hint_class)


class AcceleratorHint(ResourceHint):
    """Hardware accelerators."""

    urn = "beam:resources:accelerator:v1"


class MinRamHint(ResourceHint):
    """The least memory, in bytes or as "4GB"; the maximum of composite and transform."""

    urn = "beam:resources:min_ram_bytes:v1"

    @classmethod
    def parse(cls, value: Any) -> dict[str, bytes]:
        return {cls.urn: b"%d" % _bytes(value)}

    @classmethod
    def get_merged_value(cls, outer_value: bytes, inner_value: bytes) -> bytes:
        return max(outer_value, inner_value, key=int)


class CpuCountHint(ResourceHint):
    """The number of CPUs; the maximum of composite and transform."""

    urn = "beam:resources:cpu_count:v1"

    @classmethod
    def parse(cls, value: Any) -> dict[str, bytes]:
        return {cls.urn: b"%d" % int(value)}

    @classmethod
    def get_merged_value(cls, outer_value: bytes, inner_value: bytes) -> bytes:
        return max(outer_value, inner_value, key=int)


class MaxActiveBundlesPerWorkerHint(CpuCountHint):
    """The number of bundles at once in a worker; the sum of composite and transform."""

    urn = "beam:resources:max_active_bundles_per_worker:v1"

    @classmethod
    def get_merged_value(cls, outer_value: bytes, inner_value: bytes) -> bytes:
        return b"%d" % (int(outer_value) + int(inner_value))


def register_resource_hint(hint_name: str, hint_class: type[ResourceHint]) -> None:
    """Register a class under the name of its argument in `with_resource_hints`.

    Raises `ValueError` for a class without a URN.
    """
    if not issubclass(hint_class, ResourceHint) or hint_class.urn is None:
        raise ValueError(f"expected a subclass of ResourceHint with a urn, got {hint_class!r}")
    _by_name[hint_name] = hint_class


def parse_resource_hints(hints: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the parsed hints, by URN.  Logs, once for each name, that the hint has no effect.

    Raises `ValueError` for an unknown hint and an invalid value.
    """
    parsed: dict[str, bytes] = {}
    for name, value in hints.items():
        hint = _by_name.get(name)
        if hint is None:
            raise ValueError(f"Unknown resource hint: {name}. Expected one of {', '.join(sorted(_by_name))}")
        try:
            parsed |= hint.parse(value)
        except ValueError as error:
            raise ValueError(f"Resource hint {name} has invalid value {value}: {error}") from None
    unnoted = sorted(hints.keys() - _noted)
    if unnoted:
        _noted.update(unnoted)
        _logger.info("Resource hints have no effect on penstock's runners: %s", ", ".join(unnoted))
    return parsed


def merge_resource_hints(outer_hints: Mapping[str, bytes], inner_hints: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the hints of a transform, with those of the composite around it.

    >>> outer = parse_resource_hints({"min_ram": 5, "accelerator": "type:a"})
    >>> merge_resource_hints(outer, parse_resource_hints({"min_ram": 9}))
    {'beam:resources:min_ram_bytes:v1': b'9', 'beam:resources:accelerator:v1': b'type:a'}
    """
    merged = {**outer_hints, **inner_hints}
    for urn in outer_hints.keys() & inner_hints.keys():
        merged[urn] = ResourceHint.get_by_urn(urn).get_merged_value(outer_hints[urn], inner_hints[urn])
    return merged


def _bytes(value: int | str) -> int:
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(.*?)([A-Za-z]+)", str(value).replace(" ", ""))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"expected a number of bytes, or one with a unit such as GB or GiB, got {value!r}")
    return round(float(match[1]) * _UNITS[match[2]])


for _names, _hint in (
    ("accelerator", AcceleratorHint),
    ("min_ram minRam", MinRamHint),
    ("cpu_count cpuCount", CpuCountHint),
    (
        "max_active_bundles_per_worker MaxActiveBundlesPerWorker max_active_bundle_per_worker MaxActiveBundlePerWorker",
        MaxActiveBundlesPerWorkerHint,
    ),
):
    for _name in _names.split():
        register_resource_hint(_name, _hint)
