"""Settings of a process that worker processes have, too: they are pickled with the work."""

from __future__ import annotations

import os
from typing import Any

from ...frozen import frozen
from ..coders import registry
from .impersonation import impersonate_in_worker, impersonated_accounts


@frozen
class CarriedSettings:
    """The settings.

    Attributes:
      coders: the registered coders.
      impersonated: the service account of Google Cloud that clients act as.
      process: the process that has them.

    >>> CarriedSettings.of_this_process().apply()
    """

    coders: Any
    impersonated: tuple[str, ...]
    process: int

    @classmethod
    def of_this_process(cls) -> CarriedSettings:
        """Return the present settings."""
        return cls(registry.registered(), impersonated_accounts(), os.getpid())

    def apply(self) -> None:
        """Make them those of this process."""
        registry.register_all(self.coders)
        if self.process != os.getpid():
            impersonate_in_worker(self.impersonated)
