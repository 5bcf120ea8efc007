"""A server with the part of Pub/Sub's API that receives: each subscription has so many messages, as fast as they go.

Google's `pstest` sends a hundred messages a second.  `python pubsub_server.py` prints its address, and serves until its
input ends.  The number of the messages of a subscription is the end of its name, behind a hyphen; those that are sent
wait for acknowledgements, ten thousand of them at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

# The messages of an answer, and those without acknowledgements.
_TOGETHER = 100
_OUTSTANDING = 10_000


def serve() -> None:
    """Serve until the input ends."""
    import grpc
    from google.protobuf.empty_pb2 import Empty
    from google.pubsub_v1 import types

    acknowledged: dict[str, set[str]] = {}
    changed = threading.Condition()

    def acknowledge(subscription: str, ids: Any) -> None:
        with changed:
            acknowledged.setdefault(subscription, set()).update(ids)
            changed.notify_all()

    def pull(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        kind, answer = types.StreamingPullRequest.pb(), types.StreamingPullResponse.pb()
        path = kind.FromString(next(requests)).subscription

        def follow() -> None:
            # The client ends the stream.
            with suppress(grpc.RpcError):
                for each in requests:
                    acknowledge(path, kind.FromString(each).ack_ids)

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        count, done = int(path.rpartition("-")[2]), acknowledged.setdefault(path, set())
        for start in range(0, count, _TOGETHER):
            found = answer()
            for number in range(start, min(start + _TOGETHER, count)):
                received = found.received_messages.add(ack_id=f"{number:0180}")
                received.message.data = b"message %d" % number
                received.message.message_id = str(number)
                received.message.publish_time.seconds = 1_800_000_000
            with changed:
                changed.wait_for(lambda start=start: start - len(done) < _OUTSTANDING)
            yield found.SerializeToString()
        following.join()

    def answer_of(method: str) -> Any:
        if method == "StreamingPull":
            return grpc.stream_stream_rpc_method_handler(pull)

        def call(data: bytes, context: Any) -> bytes:
            if method == "Acknowledge":
                request = types.AcknowledgeRequest.pb().FromString(data)
                acknowledge(request.subscription, request.ack_ids)
            if method == "GetSubscription":
                return bytes(types.Subscription.pb()(name="it").SerializeToString())
            return bytes(Empty().SerializeToString())

        known = {"Acknowledge", "ModifyAckDeadline", "GetSubscription"}
        return grpc.unary_unary_rpc_method_handler(call) if method in known else None

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return answer_of(details.method.rpartition("/")[2])

    server = grpc.server(ThreadPoolExecutor(32), [Handler()])
    print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    server.start()
    sys.stdin.read()
    os._exit(0)


@contextmanager
def running() -> Iterator[str]:
    """Serve in another process within a block; the address."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)


if __name__ == "__main__":
    serve()
