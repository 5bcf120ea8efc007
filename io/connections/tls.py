"""Tls: the files of an encrypted connection, picklable, for clients that take an `ssl.SSLContext`.

>>> Tls.of(True, "ReadFromMqtt")
Tls(ca_file=None, cert_file=None, key_file=None)
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import attrs

from ...frozen import frozen


@frozen
class Tls:
    """An encrypted connection.

    Attributes:
      ca_file: certificates that sign the server's; None for those of the system.
      cert_file, key_file: the client's certificate and its key, if the server asks for one.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    @staticmethod
    def of(given: Any, transform: str) -> Tls | None:
        """Return what `tls=` says: True, or a dict of the attributes' names.

        Raises `TypeError` and `ValueError`, naming the transform.
        """
        if given is None or given is False:
            return None
        if given is True:
            return Tls()
        if not isinstance(given, Mapping):
            raise TypeError(f"{transform}: tls must be True or a dict of files, got {type(given).__name__}")
        known = [field.name for field in attrs.fields(Tls)]
        if unknown := sorted(set(given) - set(known), key=str):
            raise ValueError(f"{transform}: tls has {', '.join(known)}; got {', '.join(map(repr, unknown))}")
        tls = Tls(**given)
        try:
            tls.context()
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"{transform}: the files of tls can't be read: {error}") from error
        return tls

    def context(self) -> ssl.SSLContext:
        """Return the settings for a connection."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context
