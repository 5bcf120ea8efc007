"""A server with the API of S3 on loopback: moto's, in a process of its own, with faults.

`python -m servers.s3_server PORT` serves until its input ends.  A line of its input is "stop", "start", "lost" to print
the paths whose answers were lost on purpose, "failed" to print how many requests failed, or the faults as JSON.
What is stored survives a stop, as the disks of a store do.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from servers.commanded_server import CommandedServer

KEY, SECRET = "AKIAPENSTOCK", "drawn-from-the-bucket"
BUCKET = "lake"


class Faults:
    """A WSGI application that fails some of another one's requests.

    Attributes:
      shares: by kind of fault, the share of requests: "throttled", "failed", "lost" after the request took effect, and
        "slow".
      losing: the end of the path of an object; the answer to the next request that puts it is lost.
      lost: the paths of such objects.
      failed: how many requests failed or were slow.
    """

    def __init__(self, application: Any) -> None:
        self.application = application
        self.shares: dict[str, float] = {}
        self.losing: str | None = None
        self.lost: list[str] = []
        self.failed = 0
        self.chosen = random.Random(0)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        if authorization and f"Credential={KEY}/" not in authorization:
            return self.refuse(environ, start_response, "403 Forbidden", "InvalidAccessKeyId")
        path = environ["PATH_INFO"]
        if self.losing is not None and environ["REQUEST_METHOD"] == "PUT" and path.endswith(self.losing):
            self.losing = None
            self.lost.append(path)
            return self.fail("lost", environ, start_response)
        drawn, total = self.chosen.random(), 0.0
        for kind, share in self.shares.items():
            total += share
            if drawn < total:
                return self.fail(kind, environ, start_response)
        answer: Iterable[bytes] = self.application(environ, start_response)
        return answer

    def fail(self, kind: str, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request with a fault."""
        self.failed += 1
        if kind == "throttled":
            return self.refuse(environ, start_response, "503 Slow Down", "SlowDown")
        if kind == "failed":
            return self.refuse(environ, start_response, "500 Internal Server Error", "InternalError")
        if kind == "slow":
            time.sleep(0.2)
            answer: Iterable[bytes] = self.application(environ, start_response)
            return answer
        list(self.application(environ, lambda *_: None))
        return self.refuse(environ, start_response, "500 Internal Server Error", "InternalError", True)

    @staticmethod
    def refuse(
        environ: dict[str, Any], start_response: Callable[..., Any], status: str, code: str, has_read: bool = False
    ) -> Iterable[bytes]:
        """Answer with an error of S3."""
        if not has_read:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(status, [("Content-Type", "application/xml")])
        if environ["REQUEST_METHOD"] == "HEAD":
            return []
        return [f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]


def serve(port: int) -> None:
    """Serve, and follow the commands of the input."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server: Any = None
    for line in sys.stdin:
        command = line.strip()
        if command == "start":
            server = make_server("127.0.0.1", port, faults, threaded=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        elif command == "stop":
            server.shutdown()
            server.server_close()
        elif command == "failed":
            print(faults.failed)
        elif command == "lost":
            for path in faults.lost:
                print(path)
        else:
            shares = json.loads(command)
            faults.losing = shares.pop("losing", None)
            faults.shares = shares
        print("done", flush=True)


class S3Server(CommandedServer):
    """The server, from a test.

    Attributes:
      environment: the environment variables of its clients.
    """

    def __init__(self) -> None:
        super().__init__("servers.s3_server")
        self.environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            # For the tests' own use of Delta's client.
            "AWS_ALLOW_HTTP": "true",
        }

    @staticmethod
    @contextmanager
    def running() -> Iterator[S3Server]:
        """A server with an empty bucket."""
        server = S3Server()
        try:
            server.command("start")
            server.make_bucket()
            yield server
        finally:
            server.close()

    @contextmanager
    def losing(self, path: str) -> Iterator[None]:
        """Lose the answer to the request that puts an object, once; a block in which there is none fails."""
        before = len(self.command("lost"))
        with self.faults(losing=path):
            yield
        lost = self.command("lost")[before:]
        assert [path] == [path for each in lost if each.endswith(path)]

    def make_bucket(self) -> None:
        """Create the bucket."""
        import boto3

        boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        ).create_bucket(Bucket=BUCKET)


if __name__ == "__main__":
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "server")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "server")
    serve(int(sys.argv[1]))
