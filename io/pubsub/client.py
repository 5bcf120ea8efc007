"""The client of Pub/Sub, the names of topics and subscriptions, and errors in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import attrs

from ...sdk.errors import PenstockError, SinkError, SourceError, missing_extra
from ...sdk.redaction import without_environment
from ...sdk.user_code.error_text import text_or_class
from ..lost_connections import is_lost

# A call that isn't repeated by the client, silently, and how long its answer is waited for, in seconds.
ONCE: Mapping[str, Any] = {"retry": None, "timeout": 10.0}

_NAME = re.compile(r"projects/(?P<project>[^/]+)/(?P<kind>topics|subscriptions)/(?P<name>[^/]+)")


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    try:
        return import_module("google.cloud.pubsub_v1")
    except ImportError as error:
        raise missing_extra("google-cloud-pubsub", "pubsub", needed_for) from error


@attrs.frozen
class Resource:
    """A topic or a subscription.

    >>> Resource.of("Read", "projects/shop/topics/orders", "topics").name
    'orders'
    """

    project: str
    kind: str
    name: str

    @staticmethod
    def of(transform: str, path: Any, kind: str) -> Resource:
        """Return the topic or subscription of a path.  Raises `ValueError`, naming the transform."""
        found = _NAME.fullmatch(path) if isinstance(path, str) else None
        if found is None or found["kind"] != kind:
            raise ValueError(f"{transform}: expected a path such as 'projects/PROJECT/{kind}/NAME', got {path!r}")
        return Resource(found["project"], kind, found["name"])

    @property
    def path(self) -> str:
        return f"projects/{self.project}/{self.kind}/{self.name}"


@contextmanager
def explained(
    transform: str, resource: Resource, what: str, kind: type[SourceError] | type[SinkError] = SourceError
) -> Iterator[None]:
    """Convert the client's errors, except of lost connections, into `SourceError`s or `SinkError`s.

    Args:
      what: such as "can't be read".
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        if is_lost(error):
            raise
        raise error_of(transform, resource, what, error, kind) from None


def error_of(
    transform: str,
    resource: Resource,
    what: str,
    error: BaseException,
    kind: type[SourceError] | type[SinkError] = SourceError,
) -> SourceError | SinkError:
    """Return the client's error in words, with what to do."""
    said = without_environment(text_or_class(error))
    advice = {
        "DefaultCredentialsError": "; set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default "
        "login`",
        "PermissionDenied": "; do the credentials have the role Pub/Sub Subscriber, or Publisher?",
        "NotFound": f"; create it with `gcloud pubsub {resource.kind} create {resource.name}`",
    }.get(type(error).__name__, "")
    return kind(f"{transform}: Pub/Sub's {resource.path} {what}: {said}{advice}")
