"""A real MQTT broker on the loopback interface: Mosquitto."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Iterable
from typing import Any

from servers.loopback_server import LoopbackServer, free_port

PASSWORD = "drawn-from-the-well"
USER = "ann"


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def why_there_is_no_mosquitto() -> str | None:
    """Return the missing prerequisite, or None."""
    if importlib.util.find_spec("paho") is None:
        return "paho-mqtt is not installed"
    if _program("mosquitto") is None:
        return "mosquitto is not installed (on Debian: sudo apt-get install mosquitto)"
    return None


class Mosquitto(LoopbackServer):
    """A broker that stores sessions when it stops.

    Attributes:
      port: for anyone.
      port_of_ann: for the user `USER` with `PASSWORD`.

    Args:
      certificate, key: files for encrypted connections of anyone.
    """

    name = "Mosquitto"
    port_of_ann = 0

    def __init__(
        self, directory: pathlib.Path, certificate: pathlib.Path | None = None, key: pathlib.Path | None = None
    ) -> None:
        super().__init__(directory)
        self._tls = [] if certificate is None else [f"certfile {certificate}", f"keyfile {key}"]

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def url_of_ann(self, password: str = PASSWORD) -> str:
        """With a user and a password."""
        return f"mqtt://{USER}:{password}@127.0.0.1:{self.port_of_ann}"

    def command(self) -> list[str]:
        self.port_of_ann = self.port_of_ann or free_port()
        passwords = self.directory / "passwords"
        if not passwords.exists():
            program = _program("mosquitto_passwd")
            assert program is not None
            subprocess.run([program, "-b", "-c", str(passwords), USER, PASSWORD], check=True, capture_output=True)
        settings = self.directory / "settings"
        settings.write_text(
            "\n".join(
                [
                    "per_listener_settings true",
                    "persistence true",
                    f"persistence_location {self.directory}/",
                    "max_queued_messages 100000",
                    f"listener {self.port} 127.0.0.1",
                    "allow_anonymous true",
                    *self._tls,
                    f"listener {self.port_of_ann} 127.0.0.1",
                    "allow_anonymous false",
                    f"password_file {passwords}",
                    # Otherwise it becomes a user that can't write here.
                    "user root",
                    "",
                ]
            )
        )
        program = _program("mosquitto")
        assert program is not None
        return [program, "-c", str(settings)]

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def publish(self, topic: str, payloads: Iterable[bytes], qos: int = 1, retain: bool = False) -> None:
        """Publish messages, and wait until the broker has them."""
        client = self.client()
        try:
            waiting = [client.publish(topic, payload, qos, retain) for payload in payloads]
            for each in waiting:
                each.wait_for_publish(60)
                assert each.is_published()
        finally:
            client.disconnect()
            client.loop_stop()

    def client(self, **settings: Any) -> Any:
        """A connection to it, with its thread."""
        import paho.mqtt.client as paho

        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, **settings)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        return client
