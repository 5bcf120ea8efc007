"""A server with the API of Google Cloud Storage on loopback: gcp-storage-emulator's, in a process of its own.

Its requests can be made to fail.

`python -m servers.gcs_server PORT` serves until its input ends.  A line of its input is "stop", "start", "failed" to
print how many requests failed, or the shares of requests that fail as JSON.  What is stored survives a stop.
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import HTTPServer
from typing import Any

from servers.commanded_server import CommandedServer

BUCKET = "lake"


def parts_of(kind: str, data: bytes) -> dict[str, Any]:
    """Return the object and its content from the body of an upload, as the emulator has them."""
    found = re.search(r'boundary="?([^";]+)"?', kind)
    assert found is not None, kind
    mark = b"--" + found[1].encode()
    newline = b"\r\n" if data.startswith(mark + b"\r\n") else b"\n"
    _, meta, content = data[: data.rindex(newline + mark + b"--")].split(mark, 2)
    header, _, content = content.partition(2 * newline)
    type_of = re.search(rb"content-type:\s*([^\r\n;]+)", header, re.IGNORECASE)
    return {
        "meta": json.loads(meta.partition(2 * newline)[2]),
        "content": content,
        "content-type": "application/octet-stream" if type_of is None else type_of[1].decode(),
    }


def _read_data(emulator: Any, read: Any, handler: Any, query: Any) -> Any:
    """Read a request; the parts of an upload as they are: the emulator converts line breaks in them."""
    kind = handler.headers.get("Content-Type") or ""
    if not kind.startswith("multipart/related"):
        return read(handler, query)
    return parts_of(kind, emulator._decode_raw_data(emulator._read_raw_data(handler), handler))


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

    emulator._read_data = partial(_read_data, emulator, emulator._read_data)
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
