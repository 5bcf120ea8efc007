"""The service account of Google Cloud that the clients of this process act as.

It is that of the last pipeline: `--impersonate_service_account`.  Workers have it from the process that starts the run.

>>> impersonate("first@shop.iam.gserviceaccount.com,reader@shop.iam.gserviceaccount.com")
>>> impersonated_accounts()
('first@shop.iam.gserviceaccount.com', 'reader@shop.iam.gserviceaccount.com')
>>> impersonate(None)
>>> impersonated_accounts()
()
"""

from __future__ import annotations

import re

from .errors import OptionsError

_ACCOUNT = re.compile(r"[^\s@,;]+@[^\s@,;]+")

_accounts: tuple[str, ...] = ()


def impersonate(given: str | None) -> None:
    """Choose the account: the last of a list separated by commas, by way of those before it; None for none.

    Raises `OptionsError` for another text.
    """
    accounts = () if given is None else tuple(each.strip() for each in str(given).split(","))
    if not all(map(_ACCOUNT.fullmatch, accounts)):
        raise OptionsError(
            "--impersonate_service_account: expected accounts such as NAME@PROJECT.iam.gserviceaccount.com, separated "
            f"by commas, got {given!r}"
        )
    impersonate_accounts(accounts)


def impersonate_accounts(accounts: tuple[str, ...]) -> None:
    """Choose what `impersonated_accounts` has returned in another process."""
    global _accounts
    _accounts = accounts


def impersonated_accounts() -> tuple[str, ...]:
    """Return the account, after those by way of which it is impersonated; () if there is none."""
    return _accounts
