"""GroupByEncryptedKey: a grouping whose shuffle and state hold encrypted keys and values only."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.coders.key_encoding import encode_key
from ...sdk.coders.pickled import PickleCoder
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import PenstockError, UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ..group_by_key import GroupByKey, pair_types
from ..par_do.pardo import ParDo
from .secret import Secret, fernet

if TYPE_CHECKING:
    from ...sdk.static_results import MakesListsPerKey

    K = TypeVar("K")
    V = TypeVar("V")


class InvalidSecretError(PenstockError, ValueError):
    """A secret is no key of an encryption."""


class GroupByEncryptedKey(PTransform):
    """(key, value) pairs to (key, list of values), for each key and window, encrypted while they are grouped.

    Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

    Files of the shuffle, checkpoints and memory of the grouping have a digest of the key, by HMAC with SHA-256, and the
    key and the value encrypted by Fernet.  Which elements have the same key, and the sizes of values, can be seen.
    Other steps of the pipeline may store elements as they are.

    Args:
      hmac_key: a `Secret`, such as `GcpSecret(version_name)`, that workers fetch when they start: 32 bytes in the
        URL-safe form of base 64, which `Secret.generate_secret_bytes()` makes.  It is needed to restore checkpoints.

    Needs the extra `encryption`.  Raises `TypeError` for another key, `InvalidSecretError` in the workers for a secret
    of another form, and `UnsupportedError` for an input that may be retracted: an element is encrypted differently each
    time.

    Source: Beam's transform of this name.

    >>> import penstock as beam
    >>> from penstock.utils.secret import RawSecret, Secret
    >>> secret = RawSecret(Secret.generate_secret_bytes())
    >>> with beam.Pipeline() as p:
    ...     pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)])
    ...     _ = pairs | beam.GroupByEncryptedKey(secret) | beam.Map(print)
    ('a', [1, 3])
    ('b', [2])
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: MakesListsPerKey  # type: ignore[assignment]

    def __init__(self, hmac_key: Secret) -> None:
        super().__init__()
        given: Any = hmac_key
        if not isinstance(given, Secret):
            # A string may be the secret itself.
            kind = type(given).__name__
            raise TypeError(f"GroupByEncryptedKey: expected a Secret, such as GcpSecret(version_name), got a {kind}")
        fernet("GroupByEncryptedKey")
        self._hmac_key = hmac_key

    def default_label(self) -> str:
        return "GroupByEncryptedKey"

    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, list[V]]]:
        label = pcoll.pipeline.full_label
        pair_types(pcoll)
        if pcoll.retracted_by:
            raise UnsupportedError(
                f"{label}: {pcoll.retracted_by} may retract its input, but an element is encrypted differently each "
                "time; use GroupByKey, or another accumulation mode before it"
            )
        grouping = GroupByKey()
        grouping.is_encrypted = True
        encrypted = pcoll | "Encrypt" >> ParDo(_Encrypt(self._hmac_key, label))
        decrypted = encrypted | grouping | "Decrypt" >> ParDo(_Decrypt(self._hmac_key, label))
        decrypted.hint = grouping.infer_output_type(pcoll.hint)
        return decrypted


class _WithKey(DoFn):
    def __init__(self, secret: Secret, label: str) -> None:
        self._secret = secret
        self._label = label
        self._coder = PickleCoder()

    def setup(self) -> None:
        self._key = self._secret.get_secret_bytes()
        try:
            self._fernet = fernet("GroupByEncryptedKey")(self._key)
        except ValueError:
            # The cause would tell about the key.
            raise InvalidSecretError(
                f"{self._label}: expected a secret of 32 bytes in the URL-safe form of base 64; make one by "
                "Secret.generate_secret_bytes()"
            ) from None


class _Encrypt(_WithKey):
    def process(self, element: tuple[Any, Any]) -> Iterable[tuple[bytes, tuple[bytes, bytes]]]:
        key, value = element
        encrypt, encode = self._fernet.encrypt, self._coder.encode
        digest = hmac.digest(self._key, encode_key(key), "sha256")
        yield digest, (encrypt(encode(key)), encrypt(encode(value)))


class _Decrypt(_WithKey):
    def process(self, element: tuple[bytes, Iterable[tuple[bytes, bytes]]]) -> Iterable[tuple[Any, list[Any]]]:
        pairs = list(element[1])
        decrypt, decode = self._fernet.decrypt, self._coder.decode
        yield decode(decrypt(pairs[0][0])), [decode(decrypt(value)) for _, value in pairs]
