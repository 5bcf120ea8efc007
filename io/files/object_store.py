"""Object stores: file systems of fsspec that wait for a store that doesn't answer.

An object is put whole, and listed from then on.  A rename copies the object and then removes it, so a crash in between
leaves both.  A file that is created is written to the local disk first: its object is put when the file is closed, and
not after an error.
"""

from __future__ import annotations

import io
import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ...sdk.process.impersonation import impersonated_accounts
from ...sdk.redaction import redacted, without_environment
from ..connections.google_credentials import ADVICE, credentials
from ..connections.google_credentials import advice_on as advice_of_google
from ..connections.lost_connections import is_lost
from ..connections.waiting import patiently


class Store(NamedTuple):
    """A kind of object store.

    Attributes:
      protocols: of its URLs.
      package: fsspec's for it.
      extra: ours that installs the package.
      options: settings of fsspec's file system.
      credentials: what to set, after credentials that are missing or wrong.
    """

    protocols: tuple[str, ...]
    package: str
    extra: str
    options: Mapping[str, Any]
    credentials: str


# Listings that are kept hide the objects of other processes.  A client's own tries are few where they can be chosen,
# since they are silent.
_STORES = (
    Store(
        ("s3://", "s3a://"),
        "s3fs",
        "s3",
        {"use_listings_cache": False, "config_kwargs": {"retries": {"mode": "standard", "max_attempts": 2}}},
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what else the client looks for",
    ),
    Store(
        ("gs://", "gcs://"),
        "gcsfs",
        "gcs",
        {"use_listings_cache": False},
        "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    ),
)


def store_of(path: str) -> Store | None:
    """Return the kind of object store of a path; None for other file systems.

    >>> store_of("gs://lake/words").extra, store_of("memory://words")
    ('gcs', None)
    """
    return next((store for store in _STORES if path.startswith(store.protocols)), None)


# How long gcsfs waits for bytes of an answer, in seconds; five minutes otherwise.
_READ_TIMEOUT = 60.0


def options_of(store: Store) -> dict[str, Any]:
    """Return the settings of fsspec's file system in this process, with the credentials of an impersonated account."""
    if store.package != "gcsfs":
        return dict(store.options)
    timeout = import_module("aiohttp").ClientTimeout(sock_connect=30.0, sock_read=_READ_TIMEOUT)
    options = {**store.options, "requests_timeout": timeout}
    # An emulator has no credentials.
    if impersonated_accounts() and not os.environ.get("STORAGE_EMULATOR_HOST"):
        options["token"] = patiently("object store", "Google's IAM", credentials)
    return options


class _Raised(logging.Filter):
    """Drops the errors of a client that it logs with their tracebacks before it raises them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None


logging.getLogger("gcsfs").addFilter(_Raised())

# The status of an answer to someone unknown, which gcsfs has as a number.
_UNAUTHORIZED = 401

# Errors of credentials that are missing or wrong, by the module that defines them and their names.
_CREDENTIALS_CLASSES = frozenset(
    {
        "botocore.exceptions.CredentialRetrievalError",
        "botocore.exceptions.NoCredentialsError",
        "botocore.exceptions.PartialCredentialsError",
        "google.auth.exceptions.GoogleAuthError",
    }
)


def is_of_credentials(error: BaseException) -> bool:
    """Return True for an error of credentials that are missing or wrong."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return not names.isdisjoint(_CREDENTIALS_CLASSES) or getattr(error, "code", None) == _UNAUTHORIZED


def advice_on(error: BaseException, store: Store) -> str:
    """Return what to do about an error of credentials."""
    return advice_of_google(error, ADVICE, f"; {store.credentials}")


_OF_GCSFS = re.compile(r"(?:^|/)b/[^/]+/o\b")

# The bytes that are read at once.
_BUFFER = 1 << 20

# How long a call waits before that is logged, in seconds: a client tries for minutes, silently.  Calls of many requests
# have longer, and an object that is put a second more for each million bytes.
_SILENT = 30.0
_SILENT_IN_MANY = 300.0
_OF_MANY = frozenset({"copy", "find", "glob", "ls", "rm"})
_SLOWEST = 1_000_000


class ObjectStore:
    """fsspec's file system of an object store; its calls wait for a store that doesn't answer.

    Errors of the client that aren't `OSError`s become such.
    """

    def __init__(self, fs: Any, url: str, store: Store) -> None:
        self._fs = fs
        self._store = store
        self._name = redacted("/".join(url.split("/")[:3]))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        if not callable(found):
            return found

        silent = _SILENT_IN_MANY if name in _OF_MANY else _SILENT

        def call(*arguments: Any, **options: Any) -> Any:
            return self._reached(lambda: found(*arguments, **options), silent)

        return call

    def put_file(self, local: str, path: str) -> None:
        """Put the content of a local file as an object."""
        silent = _SILENT + os.path.getsize(local) / _SLOWEST
        self._reached(lambda: self._fs.put_file(local, path), silent)

    def open(self, path: str, mode: str) -> Any:
        """Open an object to read, or create one."""
        if mode == "wb":
            # An object that can't be put is reported before its content is made.
            return _Upload(self, path)
        return io.BufferedReader(_Download(self._reached(lambda: self._fs.open(path, mode)), self._reached), _BUFFER)

    def _reached(self, call: Callable[[], Any], silent: float | None = None) -> Any:
        try:
            return patiently("object store", self._name, call, silent=_SILENT if silent is None else silent)
        except OSError as error:
            text = without_environment(str(error))
            if isinstance(error, FileNotFoundError) and _OF_GCSFS.search(text):
                # Of a missing bucket, it has the address of a request.
                raise FileNotFoundError(f"{text} isn't found; is there a bucket {self._name}?") from None
            if text == str(error):
                raise
            raise (ConnectionError if is_lost(error) else type(error))(text) from None
        except Exception as error:
            text = without_environment(str(error))
            if is_lost(error):
                raise ConnectionError(f"{self._name} doesn't answer: {text}") from None
            if is_of_credentials(error):
                raise PermissionError(f"{self._name}: {text}{advice_on(error, self._store)}") from None
            raise OSError(f"{self._name}: {type(error).__name__}: {text}") from None


class _Download(io.RawIOBase):
    """An object that is read; a read waits for a store that doesn't answer."""

    def __init__(self, file: Any, reached: Callable[[Callable[[], Any]], Any]) -> None:
        self._file = file
        self._reached = reached

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        position = self._file.tell()

        def read() -> bytes:
            self._file.seek(position)
            data: bytes = self._file.read(-1 if size is None else size)
            return data

        found: bytes = self._reached(read)
        return found

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Upload(io.BufferedWriter):
    """A file on the local disk, which becomes an object when it is closed."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._is_abandoned = False
        descriptor, self._local = tempfile.mkstemp()
        super().__init__(io.FileIO(descriptor, "wb"))

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            if not self._is_abandoned:
                self._store.put_file(self._local, self._path)
        finally:
            os.unlink(self._local)

    def __exit__(self, kind: Any, *details: Any) -> None:
        self._is_abandoned = self._is_abandoned or kind is not None
        self.close()

    def __del__(self) -> None:
        # It wasn't closed, so its content isn't complete.
        self._is_abandoned = True
        self.close()
