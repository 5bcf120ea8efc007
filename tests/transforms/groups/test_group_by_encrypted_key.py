"""GroupByEncryptedKey, and its secrets; tests/model/test_groupings.py has its groups on each runner."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import Any, Tuple  # noqa: UP035

import pytest
from cryptography.fernet import Fernet

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PenstockError, UnsupportedError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.groups import group_by_encrypted_key
from penstock.transforms.groups.secret import GcpSecret, RawSecret, Secret
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import FixedWindows

KEY = Secret.generate_secret_bytes()
PAIRS = [("alice@example.com", "liver"), ("bob@example.com", "heart"), ("alice@example.com", "lung")]


class Counted(Secret):
    """Counts how often it is fetched, in this process."""

    fetched = 0

    def get_secret_bytes(self) -> bytes:
        type(self).fetched += 1
        return KEY


def test_groups_have_the_type_of_a_grouping() -> None:
    groups = beam.Pipeline() | beam.Create(PAIRS) | beam.GroupByEncryptedKey(RawSecret(KEY))

    assert Tuple[str, Iterable[str]] == groups.hint  # noqa: UP006


def test_what_is_grouped_is_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are digests that tell equal ones, and equal values are different."""
    monkeypatch.setattr(group_by_encrypted_key._Decrypt, "process", lambda self, element: [element])
    groups = [*PAIRS, PAIRS[0]] | beam.GroupByEncryptedKey(RawSecret(KEY))

    digests, values = zip(*((digest, list(pairs)) for digest, pairs in groups), strict=True)
    stored = [part for pairs in values for pair in pairs for part in pair]
    assert ([3, 1], 2, 8) == (list(map(len, values)), len(set(digests)), len(set(stored)))
    assert {"alice@example.com", "liver"} == {pickle.loads(Fernet(KEY).decrypt(part)) for part in values[0][0]}
    assert all(len(digest) == 32 for digest in digests)
    assert not any(word in part for part in [*stored, *digests] for word in (b"alice", b"liver", b"heart"))


def test_a_secret_is_fetched_by_workers_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Neither by a transform, nor by an error, nor by a log."""
    with caplog.at_level(logging.DEBUG):
        transform = beam.GroupByEncryptedKey(Counted())
        assert 0 == Counted.fetched
        assert [("a", [1])] == [("a", 1)] | transform
        with pytest.raises(PenstockError) as raised:
            [("a", 1)] | "Groups" >> beam.GroupByEncryptedKey(RawSecret("too short"))
    assert 2 == Counted.fetched
    assert "Groups: expected a secret of 32 bytes in the URL-safe form of base 64" in str(raised.value)
    shown = [repr(RawSecret(KEY)), repr(transform), repr(vars(transform)), str(raised.value), caplog.text]
    assert not any(KEY.decode() in text or "too short" in text for text in shown)
    assert ("RawSecret(***)", "Counted(***)") == (repr(RawSecret(KEY)), repr(Counted()))


def test_only_a_secret_is_taken() -> None:
    """A string might be the secret; the error doesn't show it."""
    with pytest.raises(TypeError, match="expected a Secret, such as GcpSecret.version_name., got a str") as raised:
        beam.GroupByEncryptedKey("my key")  # type: ignore[arg-type]
    assert "my key" not in str(raised.value)


def test_an_input_that_may_be_retracted_is_refused() -> None:
    """Its elements would be encrypted in another way."""
    windows = beam.WindowInto(FixedWindows(10), AfterWatermark(early=AfterCount(1)), AccumulationMode.RETRACTING)
    counts = TestPipeline() | beam.Create(["a"]) | windows | beam.combiners.Count.PerElement()
    with pytest.raises(UnsupportedError, match=r"GroupByEncryptedKey: Count.PerElement.* may retract its input"):
        _ = counts | beam.GroupByEncryptedKey(RawSecret(KEY))


def test_panes_may_be_retracted() -> None:
    """They are decrypted to what was emitted."""
    stream = beam.testing.TestStream().add_elements([("a", 1)]).add_elements([("a", 2)])
    windows = beam.WindowInto(FixedWindows(10), AfterWatermark(early=AfterCount(1)), AccumulationMode.RETRACTING)
    with TestPipeline() as p:
        groups = p | stream | windows | beam.GroupByEncryptedKey(RawSecret(KEY))
        sums = groups | beam.MapTuple(lambda key, values: (key, sum(values))) | beam.CombinePerKey(max)
        assert_that(sums | beam.Filter(lambda pair: pair[1] > 2), equal_to([("a", 3)]))


@pytest.mark.parametrize("grouping", [beam.GroupByKey(), beam.CombinePerKey(sum)])
def test_the_option_that_encrypts_all_groupings_is_refused(grouping: beam.PTransform) -> None:
    """They would not be encrypted."""
    p = beam.Pipeline(options=PipelineOptions(["--gbek=type:GcpSecret;version_name:name"]))
    pairs = p | beam.Create([("a", 1)])
    with pytest.raises(UnsupportedError, match="Sum: --gbek, which encrypts all groupings, isn't supported"):
        _ = pairs | "Sum" >> grouping
    _ = pairs | beam.GroupByEncryptedKey(RawSecret(KEY))


def test_a_secret_may_be_cached_and_is_pickled_without_the_cache() -> None:
    """With `cacheSecret`, as in Beam."""
    before, secret = Counted.fetched, Counted()

    assert KEY == secret.get_bytes(cacheSecret=True) == secret.get_str(cacheSecret=True).encode()
    assert before + 1 == Counted.fetched
    assert KEY not in pickle.dumps(secret)
    assert before + 2 == (secret.get_bytes(), Counted.fetched)[1]


def test_a_secret_of_google_is_named_by_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its full name, or by the parts of it."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    named = Secret.parse_secret_option("type:GcpSecret;version_name:projects/p/secrets/s/versions/1")

    assert (
        GcpSecret("projects/p/secrets/s/versions/1")
        == named
        == GcpSecret.from_dict({"name": "s", "project": "p", "version": "1"})
    )
    assert "GcpSecret('projects/mine/secrets/s/versions/latest')" == repr(GcpSecret.from_dict({"name": "s"}))
    with pytest.raises(ValueError, match="must contain a valid type parameter"):
        Secret.parse_secret_option("version_name:s")
    with pytest.raises(ValueError, match="Invalid secret type other, currently only GcpSecret is supported"):
        Secret.parse_secret_option("type:Other;version_name:s")
    with pytest.raises(ValueError, match="Invalid secret parameter versions"):
        Secret.parse_secret_option("type:GcpSecret;versions:s")


def test_a_secret_of_google_is_fetched_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client raises says which secret it was."""

    class Client:
        def access_secret_version(self, request: dict[str, str]) -> Any:
            if request["name"] != "mine":
                raise PermissionError("denied")
            return SimpleNamespace(payload=SimpleNamespace(data=KEY))

    manager = ModuleType("google.cloud.secretmanager")
    manager.SecretManagerServiceClient = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "google.cloud.secretmanager", manager)

    assert KEY == GcpSecret("mine").get_secret_bytes()
    with pytest.raises(RuntimeError, match="Failed to retrieve secret bytes for secret other with exception denied"):
        GcpSecret("other").get_secret_bytes()
