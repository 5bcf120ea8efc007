"""Client of a schema registry: settings without secrets, errors in words, and patience while it doesn't answer.

>>> RegistrySettings.of({"url": "http://ann:well@localhost:8081"})
RegistrySettings('http://localhost:8081')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from ....frozen import frozen
from ....sdk.errors import PenstockError
from ....sdk.redaction import redacted, redacted_cause
from ....sdk.user_code.error_text import text_or_class
from ...connections.waiting import patiently
from ...optional_package import optional_package

EXTRA = "kafka-registry"

# How long a registry is waited for, in seconds, before a run, and while records need a schema.
REACHED_WITHIN = 60.0
WAITED_FOR = 600.0

T = TypeVar("T")

# By settings, the clients of this process.
_clients: dict[RegistrySettings, Any] = {}


def package(module: str, needed_for: str) -> Any:
    """Import and return a module of the client's package.  Raises `MissingExtraError`."""
    return optional_package(f"confluent_kafka.schema_registry{module}", extra=EXTRA, needed_for=needed_for)


@frozen(repr=False)
class RegistrySettings:
    """The settings of the client.  Their text shows the URL only, without a user.

    Attributes:
      items: names and values, sorted.
    """

    items: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, given: Any) -> RegistrySettings:
        """Return checked settings.  Raises `ValueError` and `TypeError`, without showing values."""
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise TypeError(f"SchemaRegistry: expected a dict of settings, got {type(given).__name__}")
        if not isinstance(given.get("url"), str):
            raise ValueError(
                f"SchemaRegistry: the settings need 'url', such as 'http://localhost:8081'; found "
                f"{', '.join(map(repr, sorted(given))) or 'none'}"
            )
        settings = cls(tuple(sorted(_without_user(given).items())))
        try:
            package("", "SchemaRegistry").SchemaRegistryClient(dict(settings.items))
        except (ValueError, TypeError, OSError) as error:
            raise ValueError(f"SchemaRegistry: the client refuses the settings: {settings.shown(error)}") from None
        return settings

    @property
    def url(self) -> str:
        return redacted(dict(self.items)["url"])

    def client(self) -> Any:
        """Return the client of this process."""
        if self not in _clients:
            settings = {"max.retries": 0, "timeout": 30} | dict(self.items)
            _clients[self] = package("", "SchemaRegistry").SchemaRegistryClient(settings)
        return _clients[self]

    def shown(self, error: BaseException) -> str:
        """Return the text of an error without the settings' secrets."""
        text = text_or_class(error)
        for name, value in self.items:
            if name != "url" and isinstance(value, str) and any(part in name for part in ("auth", "password", "proxy")):
                for secret in (value, value.partition(":")[2]):
                    text = text.replace(secret, "***") if secret else text
        return redacted(text)

    def asked(
        self, what: str, label: str, call: Callable[[], T], kind: type[PenstockError], seconds: float | None = None
    ) -> T:
        """Return the result of a call to the registry; while the registry doesn't answer, call again for a while.

        Args:
          what: what can't be done without an answer.
          kind: the class of the error for the registry's errors.
          seconds: how long it is waited for; None for `REACHED_WITHIN`.
        """
        seconds = REACHED_WITHIN if seconds is None else seconds
        server = f"the schema registry at {self.url}"
        try:
            return patiently(label, server, call, seconds, _waits, self.shown)
        except Exception as error:
            if _waits(error):
                advice = "; is a registry running there, and is 'url' right?"
            elif is_refused(error):
                advice = "; are the credentials ('basic.auth.user.info') right?"
            else:
                raise
            raise kind(f"{label}: {what}: {server}: {self.shown(error)}{advice}") from redacted_cause(error)

    def __repr__(self) -> str:
        return f"RegistrySettings({self.url!r})"


def is_unknown(error: BaseException) -> bool:
    """Return True if the registry knows no such subject, version or schema."""
    return getattr(error, "http_status_code", None) == 404


def is_refused(error: BaseException) -> bool:
    """Return True if the registry refuses the credentials."""
    return getattr(error, "http_status_code", None) in (401, 403)


def _waits(error: BaseException) -> bool:
    """Return True if the registry may answer later."""
    status = getattr(error, "http_status_code", None)
    if status is not None:
        return bool(status == 429 or status >= 500)
    # Of the client's HTTP library, which it chooses itself.
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)


def _without_user(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the user of the URL as a setting of its own: the HTTP library logs URLs."""
    settings, urls = dict(given), []
    for url in given["url"].split(","):
        parts = urlsplit(url.strip())
        user, at, host = parts.netloc.rpartition("@")
        if at and ":" in user:
            settings.setdefault("basic.auth.user.info", user)
        urls.append(urlunsplit(parts._replace(netloc=host)))
    return settings | {"url": ",".join(urls)}
