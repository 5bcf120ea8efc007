"""A server with the API of Google Cloud Storage on loopback: gcp-storage-emulator's, in a process of its own.

Its requests can be made to fail.

`python -m servers.gcs_server PORT` serves until its input ends.  A line of its input is "stop", "start", "failed" to
print how many requests failed, or the shares of requests that fail as JSON.  What is stored survives a stop.
"""

from __future__ import annotations

import io
import json
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import HTTPServer
from typing import Any

from servers.commanded_server import CommandedServer

BUCKET = "lake"


def serve(port: int) -> None:
    """Serve, and follow the commands of the input."""
    from gcp_storage_emulator import server as emulator
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import buckets, objects
    from gcp_storage_emulator.storage import Storage

    chosen = random.Random(0)
    shares: dict[str, float] = {}
    failed = 0

    def move(request: Any, response: Any, storage: Any) -> None:
        """Objects: move, which the emulator lacks."""
        names = request.params
        bucket, source, target = names["bucket_name"], names["object_id"], names["dest_object_id"]
        try:
            moved = objects._copy(request.base_url, storage, bucket, source, bucket, target)
            storage.delete_file(bucket, source)
        except NotFound:
            response.status = HTTPStatus.NOT_FOUND
            return
        response.json(moved)

    path = r"^/storage/v1/b/(?P<bucket_name>[-.\w]+)/o/(?P<object_id>.*[^/]+)/moveTo/o/(?P<dest_object_id>.*[^/]+)$"
    emulator.HANDLERS = ((path, {emulator.POST: move}), *emulator.HANDLERS)

    class Router(emulator.Router):
        """The emulator's, of which a share fails: before a request takes effect, or after it ("lost")."""

        def handle(self, method: str) -> None:
            nonlocal failed
            drawn, total = chosen.random(), 0.0
            for kind, share in shares.items():
                total += share
                if drawn < total:
                    failed += 1
                    self.fail(kind, method)
                    return
            super().handle(method)

        def fail(self, kind: str, method: str) -> None:
            handler = self._request_handler
            if kind == "lost":
                # It takes effect, and its answer goes nowhere.
                answers, handler.wfile = handler.wfile, io.BytesIO()
                super().handle(method)
                handler.wfile = answers
            else:
                handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            handler.send_response(429 if kind == "throttled" else 503)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

    class Handler(emulator.RequestHandler):
        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                # The client has gone.
                self.close_connection = True

    emulator.Router = Router
    storage = Storage(use_memory_fs=True)
    buckets.create_bucket(BUCKET, storage)
    server: Any = None
    for line in sys.stdin:
        command = line.strip()
        if command == "start":
            server = HTTPServer(("127.0.0.1", port), lambda *given: Handler(storage, *given))
            threading.Thread(target=server.serve_forever, daemon=True).start()
        elif command == "stop":
            server.shutdown()
            server.server_close()
        elif command == "failed":
            print(failed)
        else:
            shares.clear()
            shares.update(json.loads(command))
        print("done", flush=True)


class GcsServer(CommandedServer):
    """The server, from a test.

    Attributes:
      environment: the environment variables of its clients.
    """

    def __init__(self) -> None:
        super().__init__("servers.gcs_server")
        self.environment = {
            "STORAGE_EMULATOR_HOST": self.url,
            # What gcsfs asks of a service that the emulator doesn't have.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }

    @staticmethod
    @contextmanager
    def running() -> Iterator[GcsServer]:
        """A server with an empty bucket."""
        server = GcsServer()
        try:
            server.command("start")
            yield server
        finally:
            server.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
