"""Settings of a process that worker processes have, too: they are pickled with the work."""

from __future__ import annotations

from typing import Any

from ..frozen import frozen
from .coders import registry
from .impersonation import impersonate_accounts, impersonated_accounts


@frozen
class CarriedSettings:
    """The settings.

    Attributes:
      coders: the registered coders.
      impersonated: the service account of Google Cloud that clients act as.

    >>> CarriedSettings.of_this_process().apply()
    """

    coders: Any
    impersonated: tuple[str, ...]

    @classmethod
    def of_this_process(cls) -> CarriedSettings:
        """Return the present settings."""
        return cls(registry.registered(), impersonated_accounts())

    def apply(self) -> None:
        """Make them those of this process."""
        registry.register_all(self.coders)
        impersonate_accounts(self.impersonated)
