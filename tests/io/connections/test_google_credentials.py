"""Google's clients as a service account that is impersonated, against a server with the API of IAM's credentials."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io.bigquery.client import open_client
from penstock.io.connections.google_credentials import _credentials_of, credentials
from penstock.io.files.filesystem import filesystem_for
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import OptionsError, SinkError, SourceError
from penstock.sdk.options import CredentialsOptions
from penstock.testing.util import assert_that, equal_to

ACCOUNT, FIRST, SECOND = (f"{name}@shop.iam.gserviceaccount.com" for name in ("reader", "first", "second"))
TOKEN = "token-of-the-account-0123456789"


class Iam:
    """The server, which gives a token to whoever has the source's.

    Attributes:
      asked: the account, the delegates and the scopes of each request, in order.
      refuses: True if the source may not impersonate.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str], list[str]]] = []
        self.refuses = False
        iam = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                iam.asked.append((self.path.partition("?")[0], body["delegates"], body["scope"]))
                found: Any = {"accessToken": TOKEN, "expireTime": "2099-01-01T00:00:00Z"}
                if iam.refuses:
                    found = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "may not impersonate"}}
                self.send_response(403 if iam.refuses else 200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def iam(monkeypatch: pytest.MonkeyPatch) -> Iterator[Iam]:
    """A server with the API of IAM's credentials, and a source of credentials."""
    auth = pytest.importorskip("google.auth")
    from google.auth import iam as endpoints
    from google.oauth2.credentials import Credentials

    found = Iam()
    url = f"http://127.0.0.1:{found.server.server_port}/{{}}"
    monkeypatch.setattr(endpoints, "_IAM_ENDPOINT", url)
    monkeypatch.setattr(auth, "default", lambda scopes: (Credentials("token-of-the-source"), "shop"))
    for name in ("BIGQUERY_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "shop")
    _credentials_of.cache_clear()
    # Streams that other tests have left.
    monkeypatch.setattr("penstock.sdk.process.impersonation._running", [])
    yield found
    beam.Pipeline(options=PipelineOptions([]))
    found.server.shutdown()
    found.server.server_close()


def impersonating(*accounts: str) -> PipelineOptions:
    return PipelineOptions([f"--impersonate_service_account={','.join(accounts)}"])


def token_of(found: Any) -> str:
    """The token that a client sends."""
    from google.auth.transport.requests import Request

    found.refresh(Request())
    return str(found.token)


def clients() -> dict[str, Any]:
    """The credentials of each of Google's clients that the transforms open."""
    from penstock.io.bigquery.client import open_read_client, open_write_client
    from penstock.io.pubsub.client import open_publisher, open_subscriber

    fs: Any = filesystem_for("gs://lake/words")
    return {
        "bigquery": open_client("Read")._credentials,
        "read": open_read_client().transport._credentials,
        "write": open_write_client().transport._credentials,
        "publisher": open_publisher("Write").transport._credentials,
        "subscriber": open_subscriber("Read").transport._credentials,
        "gcs": fs.resolve("gs://lake/words")[0]._fs.credentials.credentials,
    }


def test_each_client_has_the_credentials_of_the_account(iam: Iam) -> None:
    """By way of the accounts before it in the list."""
    beam.Pipeline(options=impersonating(FIRST, SECOND, ACCOUNT))
    scope = "https://www.googleapis.com/auth/cloud-platform"
    for name, found in clients().items():
        assert TOKEN == token_of(found), name
        path, delegates, scopes = iam.asked.pop()
        assert (f"/{ACCOUNT}", [f"projects/-/serviceAccounts/{each}" for each in (FIRST, SECOND)]) == (path, delegates)
        assert scope in scopes, name


def test_a_pipeline_without_the_option_has_the_default_credentials(iam: Iam) -> None:
    beam.Pipeline(options=impersonating(ACCOUNT))
    beam.Pipeline(options=PipelineOptions([]))
    assert "token-of-the-source" == credentials().token


def test_the_option_may_be_set_while_the_pipeline_is_built(iam: Iam) -> None:
    """By a view of the pipeline's options."""
    options = PipelineOptions([])
    p = beam.Pipeline(options=options)
    options.view_as(CredentialsOptions).impersonate_service_account = ACCOUNT
    _ = p | beam.Create([1])
    p.run()
    assert TOKEN == token_of(credentials())


def test_a_pipeline_is_built_with_its_own_account(iam: Iam) -> None:
    """Another one may have been made since."""
    seen: list[tuple[str, ...]] = []

    class Look(beam.PTransform):
        def expand(self, pbegin: Any) -> Any:
            seen.append(_accounts(0))
            return pbegin | beam.Create([1])

    first, second = (beam.Pipeline(options=impersonating(each)) for each in (FIRST, SECOND))
    _ = first | Look()
    _ = second | Look()
    beam.Pipeline(options=PipelineOptions([]))
    _ = first | "Again" >> Look()
    assert [(FIRST,), (SECOND,), (FIRST,)] == seen


@pytest.mark.parametrize("other", [SECOND, None])
def test_a_pipeline_with_another_account_is_not_run_beside_one_that_runs(iam: Iam, other: str | None) -> None:
    """It may be built, and it may run after that one."""
    options = [] if other is None else [f"--impersonate_service_account={other}"]
    endless = beam.Pipeline(options=impersonating(FIRST))
    _ = endless | beam.io.GenerateSequence(0, elements_per_period=1, period=0.1)
    result = endless.run()
    second = beam.Pipeline(options=PipelineOptions(options))
    seen = second | beam.Create([1]) | beam.Map(_accounts)
    assert_that(seen, equal_to([() if other is None else (other,)]))
    assert (FIRST,) == _accounts(0)
    expected = "without an account" if other is None else f"as {other}"
    with pytest.raises(OptionsError, match=f"is to run {expected}.* another one runs in this process as {FIRST}"):
        second.run()
    third = beam.Pipeline(options=impersonating(FIRST))
    _ = third | beam.Create([1])
    third.run()
    result.cancel()
    second.run().wait_until_finish()


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_pipeline_within_another_one_has_the_same_account(iam: Iam, make_pipeline: Any) -> None:
    """A worker has the account of one pipeline."""
    with make_pipeline(options=impersonating(FIRST)) as p:
        refused = p | beam.Create([1]) | beam.Reshuffle() | beam.Map(_run_within)
        assert_that(refused, equal_to([[False, True, (FIRST,)]]))


def _run_within(_: int) -> list[Any]:
    refused: list[Any] = []
    for account in (FIRST, SECOND):
        inner = beam.Pipeline(options=impersonating(account))
        _ = inner | beam.Create([1])
        try:
            inner.run()
            refused.append(False)
        except OptionsError:
            refused.append(True)
    return [*refused, _accounts(0)]


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_workers_impersonate_too(iam: Iam, make_pipeline: Any) -> None:
    with make_pipeline(options=impersonating(FIRST, ACCOUNT)) as p:
        seen = p | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(_accounts)
        assert_that(seen | beam.Distinct(), equal_to([(FIRST, ACCOUNT)]))


def _accounts(_: int) -> tuple[str, ...]:
    from penstock.sdk.process.impersonation import impersonated_accounts

    return impersonated_accounts()


def test_an_account_that_may_not_be_impersonated_is_named(iam: Iam, caplog: pytest.LogCaptureFixture) -> None:
    """With what to do; no token is in a message."""
    iam.refuses = True
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(SourceError) as caught,
        beam.Pipeline(options=impersonating(ACCOUNT)) as p,
    ):
        _ = p | "Orders" >> beam.io.ReadFromBigQuery(table="sales.orders", output_type="BEAM_ROW")
    said = str(caught.value)
    assert said.startswith("Orders: BigQuery's sales.orders can't be read: ")
    assert "roles/iam.serviceAccountTokenCreator" in said
    assert not [text for text in (said, *caplog.messages) if "token-of" in text]


@pytest.mark.parametrize("transform", ["read", "write"])
def test_refused_credentials_are_an_error_at_once(iam: Iam, monkeypatch: pytest.MonkeyPatch, transform: str) -> None:
    """Also over gRPC, whose clients say that the service isn't available."""
    from google.auth.exceptions import RefreshError
    from google.oauth2.credentials import Credentials

    def refused(*_: Any) -> None:
        raise RefreshError("invalid_grant: Bad Request")

    monkeypatch.setattr(Credentials, "refresh", refused)
    monkeypatch.setattr("google.auth.default", lambda scopes: (Credentials(None), "shop"))
    began = time.monotonic()
    p = beam.Pipeline(options=PipelineOptions([]))
    if transform == "read":
        _ = p | beam.io.ReadFromPubSub(subscription="projects/shop/subscriptions/orders", max_num_records=1)
    else:
        _ = p | beam.Create([b"tea"]) | beam.io.WriteToPubSub("projects/shop/topics/orders")
    with pytest.raises((SourceError, SinkError), match="Pub/Sub's projects/shop/.*invalid_grant.*credentials valid"):
        p.run()
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("given", ["", "reader", f"{ACCOUNT},", f"{ACCOUNT};{FIRST}", "a b@c"])
def test_a_wrong_account_is_refused(given: str) -> None:
    with pytest.raises(OptionsError, match="--impersonate_service_account"):
        beam.Pipeline(options=PipelineOptions([f"--impersonate_service_account={given}"]))
