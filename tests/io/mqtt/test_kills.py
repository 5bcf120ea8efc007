"""A stream from topic to topic whose processes are killed, and whose broker is stopped and started, again and again."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kills.killed_copy import RUNNER, KilledCopy, killed_again_and_again
from servers.mosquitto import Mosquitto, why_there_is_no_mosquitto
from support.programs.running_program import wait_until

PROGRAM = Path(__file__).with_name("killed_copy.py")


class Subscriber:
    """A client with a session.

    Attributes:
      numbers: what it gets, by the id of the message.
    """

    def __init__(self, broker: Mosquitto, client_id: str, topic: str) -> None:
        import paho.mqtt.client as paho
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        self.numbers: dict[str, int] = {}
        subscribed: list[int] = []
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        self._client.on_subscribe = lambda *_: subscribed.append(1)
        self._client.on_message = self._receive
        self._client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
        self._client.loop_start()
        wait_until(lambda: subscribed, "it has subscribed")

    def _receive(self, client: Any, userdata: Any, message: Any) -> None:
        self.numbers[dict(message.properties.UserProperty)["penstock-id"]] = int(message.payload)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_each_message_is_read_once(tmp_path: Path) -> None:
    """Into a table, whose readers never see one twice; and is written to a topic once, of those with the same id."""
    if reason := why_there_is_no_mosquitto():
        pytest.skip(reason)
    with Mosquitto.running() as broker:
        # The session is there before the first message.
        Subscriber(broker, "copy", "in").close()
        copies = Subscriber(broker, "observer", "out")
        copy = KilledCopy(tmp_path, PROGRAM, (RUNNER, broker.url, "in", "out"))

        def rows() -> list[int]:
            return [n for (n,) in copy.rows("SELECT n FROM numbers")]

        def doubled() -> list[int]:
            return [number for number, count in Counter(rows()).items() if count > 1]

        def write(numbers: range) -> None:
            broker.publish("in", [b"%d" % n for n in numbers])

        def stop_broker(choose: random.Random) -> None:
            port = broker.port
            broker.stop()
            time.sleep(choose.uniform(0, 2))
            broker.start(port)

        try:
            written = killed_again_and_again(copy, write, lambda: len(rows()), stop_broker, doubled)
            wait_until(lambda: len(set(copies.numbers.values())) >= written, "the messages came")
        finally:
            copies.close()

        assert list(range(written)) == sorted(rows())
        assert list(range(written)) == sorted(copies.numbers.values())
