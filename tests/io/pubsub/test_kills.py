"""A stream from a subscription whose processes are killed, and whose server hangs, again and again."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from kills.killed_copy import RUNNER, KilledCopy, killed_again_and_again
from servers.pubsub_server import PubsubServer
from support.programs.running_program import wait_until

PROGRAM = Path(__file__).with_name("killed_copy.py")


def test_each_message_is_read_once(pubsub: PubsubServer, name: str, tmp_path: Path) -> None:
    """Into a table, whose readers never see one twice; and is written to a topic once, of those with the same id."""
    copies = pubsub.make(f"copies of {name}".replace(" ", "-"))
    copy = KilledCopy(tmp_path, PROGRAM, (RUNNER, pubsub.subscription(name), pubsub.topic(copies)))
    written_ids: dict[str, int] = {}

    def rows() -> list[int]:
        return [n for (n,) in copy.rows("SELECT n FROM numbers")]

    def doubled() -> list[int]:
        return [number for number, count in Counter(rows()).items() if count > 1]

    def write(numbers: range) -> None:
        pubsub.publish(name, [b"%d" % n for n in numbers])

    def hang_server(choose: random.Random) -> None:
        with pubsub.hanging():
            time.sleep(choose.uniform(0, 5))

    def has_copies(count: int) -> bool:
        for message in pubsub.pull(copies):
            written_ids[message.attributes["penstock-id"]] = int(message.data)
        return len(written_ids) >= count

    written = killed_again_and_again(copy, write, lambda: len(rows()), hang_server, doubled)
    wait_until(lambda: has_copies(written), "the messages came")

    assert list(range(written)) == sorted(rows())
    assert list(range(written)) == sorted(written_ids.values())
