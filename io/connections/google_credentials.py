"""Credentials of Google's clients: the application default ones, or those of an impersonated service account.

And what to do about errors that all of the clients have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from ...sdk.process.impersonation import impersonated_accounts

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

QUOTA_ADVICE = "; a quota of the project is exhausted: ask for a larger one, or ask and write less often"

# What to do about errors of each client, by the names of their classes.
ADVICE = {
    "DefaultCredentialsError": "; set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    "RefreshError": "; are the credentials valid, and have they the role roles/iam.serviceAccountTokenCreator for the "
    "account that --impersonate_service_account names?",
    "ResourceExhausted": QUOTA_ADVICE,
    "TooManyRequests": QUOTA_ADVICE,
}


def advice_on(error: BaseException, advice: Mapping[str, str], otherwise: str = "") -> str:
    """Return what to do about an error, by the names of its class and its base classes.

    >>> advice_on(FileNotFoundError(), {"OSError": "; look at the disk"})
    '; look at the disk'
    """
    return next((advice[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in advice), otherwise)


def credentials() -> Any:
    """Return the application default credentials, or those of the account that `--impersonate_service_account` names.

    They have a token: a client of gRPC that finds none later says that the service isn't available.  Raises
    `google.auth.exceptions.DefaultCredentialsError` without credentials, and `RefreshError` for those that are refused.
    """
    return _credentials_of(impersonated_accounts())


@lru_cache(8)
def _credentials_of(accounts: tuple[str, ...]) -> Any:
    found, _ = import_module("google.auth").default(scopes=[_SCOPE])
    if accounts:
        *others, account = accounts
        delegates = [f"projects/-/serviceAccounts/{each}" for each in others]
        found = import_module("google.auth.impersonated_credentials").Credentials(
            found, target_principal=account, target_scopes=[_SCOPE], delegates=delegates
        )
    if not found.valid:
        found.refresh(import_module("google.auth.transport.requests").Request())
    return found
