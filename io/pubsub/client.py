"""The client of Pub/Sub, the names of topics and subscriptions, and errors in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ...frozen import frozen
from ...sdk.errors import missing_extra
from ...sdk.redaction import without_environment
from ...sdk.user_code.error_text import text_or_class
from ..connections.google_credentials import ADVICE, advice_on, credentials
from ..connections.lost_connections import is_lost
from ..connections.server_connection import ServerConnection

# A call that isn't repeated by the client, silently, and how long its answer is waited for, in seconds.
ONCE: Mapping[str, Any] = {"retry": None, "timeout": 10.0}

_NAME = re.compile(r"projects/(?P<project>[^/]+)/(?P<kind>topics|subscriptions)/(?P<name>[^/]+)")


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    try:
        return import_module("google.cloud.pubsub_v1")
    except ImportError as error:
        raise missing_extra("google-cloud-pubsub", "pubsub", needed_for) from error


def open_publisher(needed_for: str) -> Any:
    """Return Google's client that publishes.

    Args:
      needed_for: the transform.
    """
    return package(needed_for).PublisherClient(**_credentials())


def open_subscriber(needed_for: str) -> Any:
    """Return Google's client that receives.

    Args:
      needed_for: the transform.
    """
    return package(needed_for).SubscriberClient(**_credentials())


def _credentials() -> dict[str, Any]:
    # An emulator has none.
    return {} if os.environ.get("PUBSUB_EMULATOR_HOST") else {"credentials": credentials()}


def error_of_client(error: Exception) -> Exception:
    """Return the error of Google's client for one of gRPC."""
    if isinstance(error, import_module("grpc").RpcError):
        found: Exception = import_module("google.api_core.exceptions").from_grpc_error(error)
        return found
    return error


@frozen(repr=False)
class Resource(ServerConnection):
    """A topic or a subscription.

    >>> Resource.of("Read", "projects/shop/topics/orders", "topics").name
    'orders'
    """

    service = "Pub/Sub"

    transform: str
    project: str
    kind: str
    name: str

    @staticmethod
    def of(transform: str, path: Any, kind: str) -> Resource:
        """Return the topic or subscription of a path.  Raises `ValueError`, naming the transform."""
        found = _NAME.fullmatch(path) if isinstance(path, str) else None
        if found is None or found["kind"] != kind:
            raise ValueError(f"{transform}: expected a path such as 'projects/PROJECT/{kind}/NAME', got {path!r}")
        return Resource(transform, found["project"], kind, found["name"])

    @property
    def path(self) -> str:
        return f"projects/{self.project}/{self.kind}/{self.name}"

    @property
    def shown(self) -> str:
        return self.path

    @property
    def server(self) -> str:
        return f"Pub/Sub's {self.path}"

    def check(self, client: Any, permission: str) -> None:
        """Raise the client's error if there is no such topic or subscription, or if a permission is missing.

        An account that has the permission needn't have the one to look at the topic or subscription.
        """
        exceptions = import_module("google.api_core.exceptions")
        kind = self.kind[:-1]
        unseen = None
        try:
            self.patiently(lambda: getattr(client, f"get_{kind}")({kind: self.path}, **ONCE))
        except exceptions.PermissionDenied as error:
            unseen = error
        request = {"resource": self.path, "permissions": [permission]}
        try:
            answer = self.patiently(lambda: client.test_iam_permissions(request, **ONCE))
        except (exceptions.MethodNotImplemented, exceptions.PermissionDenied):
            # As emulators answer.
            if unseen is not None:
                raise unseen from None
            return
        if permission not in answer.permissions:
            raise unseen or exceptions.PermissionDenied(f"the account doesn't have the permission {permission}")

    def failed(self, what: str) -> str:
        """Return what failed, such as "can't be read", with the topic or subscription."""
        return f"{self.server} {what}"

    def said(self, error: BaseException) -> str:
        return without_environment(text_or_class(error))

    def advice(self, error: BaseException) -> str:
        advice = {
            **ADVICE,
            "PermissionDenied": "; do the credentials have the role Pub/Sub Subscriber, or Publisher?",
            "NotFound": f"; create it with `gcloud pubsub {self.kind} create {self.name}`",
        }
        return advice_on(error, advice)

    def cause(self, error: BaseException | None) -> None:
        """Return None: the client's errors have errors of its transports as causes."""

    def is_own(self, error: Exception) -> bool:
        """Return True for any error but that of a lost connection."""
        return not is_lost(error)
