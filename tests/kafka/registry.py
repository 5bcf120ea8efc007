"""A real schema registry on the loopback interface: Apicurio's, which speaks Confluent's protocol."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kafka.packages import CACHE
from servers.loopback_server import LoopbackServer
from support.programs.archives import unpack

VERSION = "2.6.13.Final"
NAME = f"apicurio-registry-app-{VERSION}"
URL = f"https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/{VERSION}/{NAME}-all.tar.gz"
SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
PROGRAM = CACHE / NAME / f"{NAME}-runner.jar"

USER, PASSWORD = "bob", "hidden-in-the-barn"


def why_there_is_no_registry() -> str | None:
    """Return the missing prerequisite of a registry, or None.  Fetches it."""
    if shutil.which("java") is None:
        return "there is no java on the PATH"
    if PROGRAM.exists():
        return None
    archive = CACHE / f"{NAME}.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(URL, timeout=60) as answer, archive.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as error:
        return f"{URL} can't be had: {error}"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert SHA256 == found, f"{URL} is another file"
    part = CACHE / f"{NAME}.part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as packed:
        unpack(packed, part)
    part.rename(PROGRAM.parent)
    archive.unlink()
    return None


class Registry(LoopbackServer):
    """A registry that keeps its schemas in memory."""

    name = "Apicurio"
    startup_seconds = 180.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def command(self) -> list[str]:
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        address = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1"]
        return [*java, *address, "-jar", str(PROGRAM)]

    def answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
            return True
        return False

    @property
    def client(self) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        return SchemaRegistryClient({"url": self.url})

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema, and return its id."""
        from confluent_kafka.schema_registry import Schema

        return int(self.client.register_schema(subject, Schema(schema, kind)))

    @contextlib.contextmanager
    def behind_a_login(self) -> Iterator[LoginServer]:
        """The registry behind a server that asks for a user and a password, and that can be told not to answer."""
        server = LoginServer(self.url)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class LoginServer(ThreadingHTTPServer):
    """Passes requests on if they have the right user and password.

    Attributes:
      refuses: whether it answers each request that it is out of service.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = url
        self.refuses = False
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: LoginServer

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests += 1
        known = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.server.refuses:
            self._answer(503, b'{"error_code": 50301, "message": "out of service"}')
        elif self.headers.get("Authorization") != known:
            self._answer(401, b'{"error_code": 40101, "message": "who is there?"}')
        else:
            request = urllib.request.Request(
                self.server.target + self.path, body or None, {"Content-Type": "application/json"}, method=self.command
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
