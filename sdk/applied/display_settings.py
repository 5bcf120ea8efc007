"""Settings that the user's transforms tell of themselves by `display_data`, as texts for drawings."""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ..adapters import Converters
from ..redaction import HIDDEN, looks_secret, redacted


@frozen
class Setting:
    """A setting with its name for readers."""

    name: str
    value: Any


# For items of display data that aren't plain values: the setting; None to leave the item out.
items: Converters[Setting | None] = Converters()


def settings_of(has_display_data: Any) -> tuple[str, ...]:
    """Return the settings of an object, and of those that it names, as texts without secrets.

    Settings of penstock's own classes are left out.

    >>> class Connected:
    ...     __module__ = "program"
    ...     def display_data(self):
    ...         return {"url": "redis://:secret@host", "api_key": "abc", "kind": int}
    >>> settings_of(Connected())
    ('url: redis://***@host', 'api_key: ***', 'kind: int')
    """
    texts: list[str] = []
    is_own = not type(has_display_data).__module__.startswith(f"{__name__.partition('.')[0]}.")
    for key, value in has_display_data.display_data().items():
        convert = items.find(value)
        if convert is None and hasattr(value, "display_data") and not isinstance(value, type):
            texts += settings_of(value)
        elif is_own:
            setting = Setting(key, value) if convert is None else convert(value)
            if setting is not None:
                texts.append(_text(key, setting))
    return tuple(texts)


def _text(key: str, setting: Setting) -> str:
    name = setting.name or key
    value = setting.value.__name__ if isinstance(setting.value, type) else setting.value
    is_secret = looks_secret(name) or looks_secret(key)
    return redacted(f"{name}: {HIDDEN if is_secret else value}")
