"""Proxies in front of Google's servers that refuse chosen requests, as for missing rights and exhausted quotas."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive"}


class Refusals:
    """Which requests are refused.

    Attributes:
      refused: the requests that were refused.
    """

    def __init__(self) -> None:
        self._rule: tuple[re.Pattern[str], Any, float] | None = None
        self._lock = threading.Lock()
        self.refused: list[str] = []

    @contextmanager
    def refusing(self, requests: str, answer: Any, times: float = float("inf")) -> Iterator[None]:
        """Refuse requests within a block, at most so many.

        Args:
          requests: an expression of the method's name, or of "VERB PATH".
          answer: the name of gRPC's status, or the status and the reason of HTTP.
        """
        self.refused.clear()
        self._rule = re.compile(requests), answer, times
        try:
            yield
        finally:
            self._rule = None

    def answer_to(self, request: str) -> Any:
        """Return the answer of a refused request; None for others."""
        with self._lock:
            if self._rule is None:
                return None
            requests, answer, times = self._rule
            if len(self.refused) >= times or requests.search(request) is None:
                return None
            self.refused.append(request)
            return answer


class HttpProxy(Refusals):
    """A proxy of a server's HTTP.

    Attributes:
      url: where it listens.
      permissions: those of the account; None for a server that can't tell.
      forwarded: the requests that the server got, with their bodies.
    """

    permissions: list[str] | None = None

    def __init__(self, target: str) -> None:
        super().__init__()
        self.forwarded: list[tuple[str, bytes]] = []
        host = urlsplit(target).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self._body()
                refused = proxy.answer_to(f"{self.command} {self.path}")
                if refused is not None:
                    status, reason = refused
                    message = f"{reason}: of the test"
                    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
                    self._reply(status, {"content-type": "application/json"}, json.dumps({"error": error}).encode())
                    return
                if proxy.permissions is not None and self.path.partition("?")[0].endswith(":testIamPermissions"):
                    found = [each for each in json.loads(body)["permissions"] if each in proxy.permissions]
                    self._reply(200, {"content-type": "application/json"}, json.dumps({"permissions": found}).encode())
                    return
                proxy.forwarded.append((f"{self.command} {self.path.partition('?')[0]}", body))
                connection = http.client.HTTPConnection(host, timeout=60)
                sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                connection.request(self.command, self.path, body, sent)
                answer = connection.getresponse()
                self._reply(answer.status, dict(answer.getheaders()), answer.read())
                connection.close()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = b""
                while size := int(self.rfile.readline(), 16):
                    found += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return found

            def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in _HOP:
                        # Sessions of uploads, at the server's address.
                        self.send_header(name, value.replace(host, urlsplit(proxy.url).netloc))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End the proxy."""
        self._server.shutdown()
        self._server.server_close()


class GrpcProxy(Refusals):
    """A proxy of a server's gRPC.

    Attributes:
      address: where it listens.
      permissions: those of the account; None for a server that can't tell.
    """

    permissions: list[str] | None = None

    def __init__(self, target: str) -> None:
        super().__init__()
        import grpc
        from google.iam.v1.iam_policy_pb2 import TestIamPermissionsRequest, TestIamPermissionsResponse

        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        channel = grpc.insecure_channel(target, options)
        proxy = self

        class Handler(grpc.GenericRpcHandler):
            def service(self, details: Any) -> Any:
                def call(requests: Any, context: Any) -> Iterator[bytes]:
                    refused = proxy.answer_to(details.method)
                    if refused is not None:
                        context.abort(grpc.StatusCode[refused], f"{refused.lower()} of the test")
                    if proxy.permissions is not None and details.method.endswith("/TestIamPermissions"):
                        asked = TestIamPermissionsRequest.FromString(next(requests)).permissions
                        found = [each for each in asked if each in proxy.permissions]
                        yield TestIamPermissionsResponse(permissions=found).SerializeToString()
                        return
                    metadata = [each for each in details.invocation_metadata if not each.key.startswith("grpc-")]
                    answers = channel.stream_stream(details.method)(requests, metadata=metadata)
                    context.add_callback(answers.cancel)
                    try:
                        yield from answers
                    except grpc.RpcError as error:
                        context.set_trailing_metadata(error.trailing_metadata() or ())
                        context.abort(error.code(), error.details())

                return grpc.stream_stream_rpc_method_handler(call)

        from concurrent.futures import ThreadPoolExecutor

        self._server = grpc.server(ThreadPoolExecutor(32), [Handler()], options=options)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        """End the proxy."""
        self._server.stop(0)
