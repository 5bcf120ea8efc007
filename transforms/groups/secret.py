"""Secrets, such as keys of encryptions: fetched where they are used, and never shown."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ...sdk.errors import missing_extra


class Secret(ABC):
    """Base class of secrets: `get_secret_bytes` fetches one.

    It is pickled with the transform that uses it, and called in the workers.  Its `repr` is that of its class.

    >>> class FromTheEnvironment(Secret):
    ...     def get_secret_bytes(self):
    ...         return os.environb[b"GROUPING_KEY"]
    >>> FromTheEnvironment()
    FromTheEnvironment(***)
    """

    _cached_secret_bytes: bytes | None = None

    @abstractmethod
    def get_secret_bytes(self) -> bytes:
        """Fetch the secret."""

    def get_bytes(self, cacheSecret: bool = False) -> bytes:
        """Return the secret; with `cacheSecret` it is fetched once in each process."""
        if cacheSecret and self._cached_secret_bytes is not None:
            return self._cached_secret_bytes
        found = self.get_secret_bytes()
        if cacheSecret:
            self._cached_secret_bytes = found
        return found

    def get_str(self, cacheSecret: bool = False) -> str:
        """Return the secret as text."""
        return self.get_bytes(cacheSecret).decode()

    @staticmethod
    def generate_secret_bytes() -> bytes:
        """Return a new key for `GroupByEncryptedKey`: 32 random bytes, in the URL-safe form of base 64.

        Raises `MissingExtraError` without the extra `encryption`.
        """
        key: bytes = fernet("Secret.generate_secret_bytes").generate_key()
        return key

    @staticmethod
    def parse_secret_option(secret: str) -> Secret:
        """Return the secret that an option names, as `type:GcpSecret;version_name:projects/p/secrets/s/versions/1`.

        Raises `ValueError` for other types and parameters.
        """
        pairs = (part.split(":") for part in secret.split(";"))
        parameters = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        kind = parameters.pop("type", None)
        if kind is None:
            raise ValueError(
                "Secret string must contain a valid type parameter, as in type:GcpSecret;version_name:NAME"
            )
        if kind.lower() != "gcpsecret":
            raise ValueError(f"Invalid secret type {kind.lower()}, currently only GcpSecret is supported")
        return GcpSecret.from_dict(parameters)

    # Neither transforms nor errors show the attributes.
    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cached_secret_bytes"}


class RawSecret(Secret):
    """A secret that the program has.  It is a part of what workers are sent.

    >>> RawSecret("abc"), RawSecret("abc").get_secret_bytes(), RawSecret("abc") == RawSecret(b"abc")
    (RawSecret(***), b'abc', True)
    """

    def __init__(self, secret: str | bytes) -> None:
        self._secret = secret.encode() if isinstance(secret, str) else secret

    def get_secret_bytes(self) -> bytes:
        return self._secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawSecret) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)


class GcpSecret(Secret):
    """A secret in Google Cloud's Secret Manager, fetched by the package `google-cloud-secret-manager`.

    Args:
      version_name: its name, as `projects/my-project/secrets/my-secret/versions/1`.
    """

    def __init__(self, version_name: str) -> None:
        self._version_name = version_name

    @classmethod
    def from_dict(cls, spec_dict: Mapping[str, str]) -> GcpSecret:
        """Return the secret with a `version_name`, or with a `name`, a `project` and by default the latest `version`.

        Raises `ValueError` for other parameters, and for a project that neither they nor GOOGLE_CLOUD_PROJECT name.
        """
        unknown = set(spec_dict) - {"version_name", "name", "project", "version"}
        if unknown:
            raise ValueError(f"Invalid secret parameter {', '.join(sorted(unknown))}")
        if "version_name" in spec_dict:
            return cls(spec_dict["version_name"])
        if not spec_dict.get("name"):
            raise ValueError("Secret name must be specified in secret spec.")
        project = spec_dict.get("project") or os.environ.get("GOOGLE_CLOUD_PROJECT") or os.environ.get("GCP_PROJECT")
        if not project:
            raise ValueError(
                f"Could not resolve GCP project ID for secret {spec_dict['name']!r}: give it by project, or by the "
                "environment variable GOOGLE_CLOUD_PROJECT"
            )
        return cls(f"projects/{project}/secrets/{spec_dict['name']}/versions/{spec_dict.get('version', 'latest')}")

    def get_secret_bytes(self) -> bytes:
        """Fetch the secret.  Raises `RuntimeError` if that fails, without the package, too."""
        try:
            client = import_module("google.cloud.secretmanager").SecretManagerServiceClient()
            found: bytes = client.access_secret_version(request={"name": self._version_name}).payload.data
        except Exception as error:  # what the client raises
            raise RuntimeError(
                f"Failed to retrieve secret bytes for secret {self._version_name} with exception {error}"
            ) from error
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GcpSecret) and self._version_name == other._version_name

    def __hash__(self) -> int:
        return hash(self._version_name)

    # The name of a secret isn't secret.
    def __repr__(self) -> str:
        return f"GcpSecret({self._version_name!r})"


def fernet(needed_for: str) -> Any:
    """Return the class `Fernet` of the package `cryptography`.  Raises `MissingExtraError` without it."""
    try:
        return import_module("cryptography.fernet").Fernet
    except ImportError as error:
        raise missing_extra("cryptography", "encryption", needed_for) from error
