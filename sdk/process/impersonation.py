"""The service account of Google Cloud that clients act as: `--impersonate_service_account`.

In a thread that builds or runs a pipeline it is that pipeline's, and in other threads of the process that of the last
pipeline.  So while a pipeline runs, another one with another account can be built, and not be run.  Workers have the
account from the process that starts the run.

>>> impersonate("first@shop.iam.gserviceaccount.com,reader@shop.iam.gserviceaccount.com")
>>> impersonated_accounts()
('first@shop.iam.gserviceaccount.com', 'reader@shop.iam.gserviceaccount.com')
>>> impersonate(None)
>>> impersonated_accounts()
()
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import OptionsError
from ..options import CredentialsOptions
from ..options.context import is_inside_a_run, options_in_scope
from ..runner import PipelineState

_ACCOUNT = re.compile(r"[^\s@,;]+@[^\s@,;]+")

# Of threads that neither build nor run a pipeline.
_accounts: tuple[str, ...] = ()

# Whether this process works for a pipeline of another one.
_is_worker = False

# The results of the runs of this process that may not have ended, with their accounts.
_running: list[tuple[Any, tuple[str, ...]]] = []


def impersonate(given: str | None) -> None:
    """Choose the account: the last of a list separated by commas, by way of those before it; None for none.

    The account stays as it is while a pipeline runs with another one.  Raises `OptionsError` for another text.
    """
    accounts = _parsed(given)
    if _in_use(accounts) is None:
        _choose(accounts)


def impersonate_in_run(given: str | None) -> None:
    """Choose the account, as `impersonate`, of a pipeline that is to run.

    Raises `OptionsError` if another pipeline runs in this process, with another account.
    """
    accounts = _parsed(given)
    other = _in_use(accounts)
    if other is not None:
        raise OptionsError(
            f"--impersonate_service_account: this pipeline is to run {_named(accounts)}, and another one runs in this "
            f"process {_named(other)}; run each in a process of its own, or one after the other"
        )
    _choose(accounts)


def note_run(result: Any, given: str | None) -> None:
    """Note the result of a pipeline that runs: its account is used until it has ended."""
    if _goes_on(result):
        _running.append((result, _parsed(given)))


def _goes_on(result: Any) -> bool:
    return result.state in (PipelineState.RUNNING, PipelineState.DRAINING, PipelineState.CANCELLING)


def _in_use(accounts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the accounts of a pipeline that runs in this process, if they differ from these."""
    if _is_worker or is_inside_a_run():
        return None if _accounts == accounts else _accounts
    _running[:] = [each for each in _running if _goes_on(each[0])]
    return next((each for _, each in _running if each != accounts), None)


def _named(accounts: tuple[str, ...]) -> str:
    return f"as {accounts[-1]}" if accounts else "without an account"


def _parsed(given: str | None) -> tuple[str, ...]:
    accounts = () if given is None else tuple(each.strip() for each in str(given).split(","))
    if not all(map(_ACCOUNT.fullmatch, accounts)):
        raise OptionsError(
            "--impersonate_service_account: expected accounts such as NAME@PROJECT.iam.gserviceaccount.com, separated "
            f"by commas, got {given!r}"
        )
    return accounts


def impersonate_in_worker(accounts: tuple[str, ...]) -> None:
    """Choose what `impersonated_accounts` has returned in the process that this one works for."""
    global _is_worker
    _is_worker = True
    _choose(accounts)


def _choose(accounts: tuple[str, ...]) -> None:
    global _accounts
    _accounts = accounts


def impersonated_accounts() -> tuple[str, ...]:
    """Return the account, after those by way of which it is impersonated; () if there is none."""
    options = options_in_scope()
    return _accounts if options is None else _parsed(options.view_as(CredentialsOptions).impersonate_service_account)
