"""Helpers of tests: temporary directories and files, hashes, and retries without delays."""

from __future__ import annotations

import glob
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import mock


class TempDir:
    """A temporary directory, removed at the end of a `with` block.

    >>> with TempDir() as directory:
    ...     path = directory.create_temp_file(".txt", [b"a\\n", b"b\\n"])
    ...     open(path).read()
    'a\\nb\\n'
    >>> from pathlib import Path
    >>> Path(path).exists()
    False
    """

    __test__ = False

    def __init__(self) -> None:
        self._path = tempfile.mkdtemp()

    def __enter__(self) -> TempDir:
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def get_path(self) -> str:
        """Return the path."""
        return self._path

    def create_temp_file(self, suffix: str = "", lines: Iterable[bytes] | None = None) -> str:
        """Create a file with these lines, and return its path."""
        with tempfile.NamedTemporaryFile(delete=False, dir=self._path, suffix=suffix) as file:
            file.writelines(lines or [])
        return file.name


def compute_hash(content: Sequence[Any], hashing_alg: str = "sha1") -> str:
    """Return the hexadecimal hash of a list of texts, or bytes in UTF-8, independent of their order.

    >>> compute_hash(["b", "a"]) == compute_hash(["a", "b"])
    True
    """
    digest = hashlib.new(hashing_alg)
    for line in sorted(line.decode() if isinstance(line, bytes) else str(line) for line in content):
        digest.update(line.encode())
    return digest.hexdigest()


def patch_retry(testcase: Any, module: Any) -> None:
    """Let the calls of a module that `retry.with_exponential_backoff` decorates wait for no time in a `TestCase`.

    The module is decorated anew, by importing it again, and once more after the test.
    """
    from importlib import reload

    from ...io.connections import retry

    original = retry.with_exponential_backoff

    def without_delays(**arguments: Any) -> Any:
        return original(**{**arguments, "clock": mock.Mock(), "fuzz": False, "logger": mock.Mock()})

    def restore() -> None:
        patched.stop()
        reload(module)

    patched = mock.patch.object(retry, "with_exponential_backoff", without_delays)
    patched.start()
    reload(module)
    testcase.addCleanup(restore)


def create_file(path: str, contents: str) -> str:
    """Write a file, and return its path."""
    with open(path, "w") as file:
        file.write(contents)
    return path


def read_files_from_pattern(file_pattern: str) -> str:
    """Return the concatenated content of the files that match a pattern, in the order of their names."""
    texts = []
    for path in sorted(glob.glob(file_pattern)):
        with open(path) as file:
            texts.append(file.read())
    return "".join(texts)


def delete_files(file_paths: Sequence[str]) -> None:
    """Delete files.  Raises `RuntimeError` for an empty list, and `BeamIOError` for paths without a file."""
    if not file_paths:
        raise RuntimeError("delete_files: expected at least one path, got none")
    from .file_systems import FileSystems

    FileSystems.delete(file_paths)


def cleanup_subscriptions(sub_client: Any, subs: Iterable[Any]) -> None:
    """Delete subscriptions of Pub/Sub by their client."""
    for sub in subs:
        sub_client.delete_subscription(subscription=sub.name)


def cleanup_topics(pub_client: Any, topics: Iterable[Any]) -> None:
    """Delete topics of Pub/Sub by their client."""
    for topic in topics:
        pub_client.delete_topic(topic=topic.name)


class LCGenerator:
    """Generator of pseudo-random numbers by a linear congruence, by default that of `java.util.Random`.

    >>> generator = LCGenerator()
    >>> generator.seed_jdk(42)
    >>> generator.next_int()
    -1170105035
    """

    def __init__(self, a: int = 0x5DEECE66D, c: int = 0xB, bits: int = 48) -> None:
        self._multiplier, self._increment, self._bits = a, c, bits
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Begin with the state that follows `seed`: near seeds have different first numbers."""
        self._state = (seed * self._multiplier + self._increment) % (1 << self._bits)

    def seed_jdk(self, seed: int) -> None:
        """Begin as `java.util.Random` does."""
        self._state = (seed ^ self._multiplier) % (1 << self._bits)

    def next_uint(self) -> int:
        """Return a number of 32 bits."""
        self.seed(self._state)
        return self._state >> (self._bits - 32)

    def next_int(self) -> int:
        """Return a number of 32 bits with a sign, as Java's `nextInt`."""
        number = self.next_uint()
        return number - (number >> 31 << 32)

    def random_sample(self) -> float:
        """Return a number from 0 to below 1, as Java's `nextFloat`."""
        return (self.next_uint() >> 8) / (1 << 24)

    def randbytes(self, length: int) -> bytes:
        """Return bytes."""
        words = [self.next_uint().to_bytes(4, "little") for _ in range((length + 3) // 4)]
        return b"".join(words)[:length]
