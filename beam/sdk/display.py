"""Display data: the settings that transforms, DoFns and options tell of themselves, as items.

>>> import penstock as beam
>>> class Limited(beam.DoFn):
...     def display_data(self):
...         return {"limit": 5, "note": DisplayDataItem(None).drop_if_none()}
>>> [(item.key, item.value) for item in DisplayData.create_from(Limited()).items]
[('limit', 5)]
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from ...sdk.applied.display_settings import Setting, items

_TYPES = {
    str: "STRING",
    int: "INTEGER",
    float: "FLOAT",
    bool: "BOOLEAN",
    dt.timedelta: "DURATION",
    dt.datetime: "TIMESTAMP",
    type(None): "STRING",
}


@runtime_checkable
class HasDisplayData(Protocol):
    """An object with display data; a base class for those of the user's."""

    def display_data(self) -> dict[str, Any]:
        """Return the settings by key: values, `DisplayDataItem`s, or objects with display data of their own."""
        return {}


class DisplayDataItem:
    """A setting.

    Args:
      value: a str, a number, a bool, a class, a `datetime` or a `timedelta`.
      url: where it is described.
      label: its name for readers.
      namespace: the class that it belongs to; given by `DisplayData`.
      key: its key in `display_data`; given by `DisplayData`.
      shortValue: a short form; of a class, its name by default.
    """

    def __init__(
        self,
        value: Any,
        url: str | None = None,
        label: str | None = None,
        namespace: str | None = None,
        key: str | None = None,
        shortValue: Any = None,
    ) -> None:
        is_class = isinstance(value, type)
        self.value = value
        self.type = "CLASS" if is_class else _TYPES.get(type(value))
        self.shortValue = value.__name__ if shortValue is None and is_class else shortValue
        self.url = url
        self.label = label
        self.namespace = namespace
        self.key = key
        self._dropped: list[Any] = []

    def drop_if_none(self) -> DisplayDataItem:
        """Leave the item out if its value is None."""
        self._dropped.append(None)
        return self

    def drop_if_default(self, default: Any) -> DisplayDataItem:
        """Leave the item out if its value is the default."""
        self._dropped.append(default)
        return self

    def should_drop(self) -> bool:
        """Return whether the item is left out."""
        return self.value in self._dropped

    def is_valid(self) -> None:
        """Raise `ValueError` if the key, the namespace or the value is missing, or the value of another type."""
        for name in ("key", "namespace", "value"):
            if getattr(self, name) is None:
                raise ValueError(f"Invalid DisplayDataItem {self}. {name.capitalize()} must not be None.")
        if self.type is None:
            raise ValueError(f"Invalid DisplayDataItem. Value {self.value} is of an unsupported type.")

    def get_dict(self) -> dict[str, Any]:
        """Return the attributes that are set, with a class as its path, and times as milliseconds.

        Raises `ValueError` as `is_valid` does.

        >>> DisplayDataItem(5, key="limit", namespace="example").get_dict()
        {'key': 'limit', 'namespace': 'example', 'type': 'INTEGER', 'value': 5}
        """
        self.is_valid()
        return self._as_dict()

    def _as_dict(self) -> dict[str, Any]:
        kind = "STRING" if self.type == "CLASS" else self.type
        shown: dict[str, Any] = {"key": self.key, "namespace": self.namespace, "type": kind}
        shown |= {n: getattr(self, n) for n in ("url", "shortValue", "label") if getattr(self, n) is not None}
        return {**shown, "value": _formatted(self.value)}

    def __repr__(self) -> str:
        return f"DisplayDataItem({json.dumps(self._as_dict(), default=str)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisplayDataItem) and self._as_dict() == other._as_dict()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._as_dict().items())))


class DisplayData:
    """The items of an object with display data, and of those that it names.

    Args:
      namespace: the class of the object.
      display_data_dict: what its `display_data` returns.
    """

    def __init__(self, namespace: str, display_data_dict: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.items: list[DisplayDataItem] = []
        for key, value in display_data_dict.items():
            if isinstance(value, DisplayDataItem):
                if not value.should_drop():
                    value.key, value.namespace = key, namespace
                    self.items.append(value)
            elif isinstance(value, HasDisplayData) and not isinstance(value, type):
                self.items += DisplayData.create_from(value).items
            else:
                self.items.append(DisplayDataItem(value, namespace=namespace, key=key))

    @classmethod
    def create_from(cls, has_display_data: Any, extra_items: Mapping[str, Any] | None = None) -> DisplayData:
        """Return the display data of an object.  Raises `ValueError` for one without a method `display_data`."""
        kind = type(has_display_data)
        if not isinstance(has_display_data, HasDisplayData):
            raise ValueError(f"Element of class {_path(kind)} does not subclass HasDisplayData")
        return cls(_path(kind), {**has_display_data.display_data(), **(extra_items or {})})

    @classmethod
    def create_from_options(cls, pipeline_options: Any) -> DisplayData:
        """Return the options that differ from their default, values of other types as their text."""
        shown = pipeline_options.display_data()
        items = {k: v if type(v) in _TYPES or isinstance(v, type) else str(v) for k, v in shown.items()}
        return cls(_path(type(pipeline_options)), items)


def _setting(item: DisplayDataItem) -> Setting | None:
    """Return the setting of an item for drawings; None for one that is left out."""
    if item.should_drop():
        return None
    return Setting(item.label or "", item.value if item.shortValue is None else item.shortValue)


items.register(DisplayDataItem, _setting)


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _formatted(value: Any) -> Any:
    if isinstance(value, type):
        return _path(value)
    if isinstance(value, dt.timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, dt.datetime):
        # A time without a zone is one of UTC.
        in_zone = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return int(in_zone.timestamp() * 1000)
    return value
