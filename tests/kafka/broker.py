"""A real Kafka broker on the loopback interface, and what is written to its topics."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from kafka.packages import BROKER, jars
from servers.loopback_server import LoopbackServer, lasting_port
from servers.severed import SeverableProxy

# Of a cluster of one; any will do.
CLUSTER = "cGVuc3RvY2stdGVzdHMtMQ"

# Whatever is a week old by its own timestamp would be deleted, if it weren't said otherwise.
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},BEHIND://127.0.0.1:{behind},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},BEHIND://127.0.0.1:{proxy}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,BEHIND:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\\
org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{password}";
log.dirs={directory}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.ms=-1
"""


# Of the user ann, who has to log in.
PASSWORD = "drawn-from-the-well"


@attrs.frozen
class Record:
    """A record for a topic; `timestamp` is in milliseconds since 1970."""

    partition: int
    key: bytes | None
    value: bytes
    timestamp: int


class KafkaBroker(LoopbackServer):
    """A broker that is its own controller (KRaft)."""

    name = "Kafka"
    startup_seconds = 180.0
    _controller: int | None = None
    _sasl: int | None = None
    _behind: int | None = None
    _proxy: int | None = None

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    def of_ann(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of a client that logs in as ann."""
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": password}
        return {"bootstrap.servers": f"127.0.0.1:{self._sasl}", "security.protocol": "SASL_PLAINTEXT"} | login

    @contextlib.contextmanager
    def behind_a_proxy(self) -> Iterator[tuple[str, SeverableProxy]]:
        """Yield another address of the broker, and what can sever it."""
        assert self._behind is not None
        assert self._proxy is not None
        with SeverableProxy.running(self._behind, self._proxy) as proxy:
            yield f"127.0.0.1:{proxy.port}", proxy

    def command(self) -> list[str]:
        # Those that Spark fetches lack Scala's library, because Spark has it.
        import pyspark

        scala = (pathlib.Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
        path = os.pathsep.join(map(str, [*jars(BROKER), *scala]))
        properties = self.directory / "server.properties"
        # The cluster keeps the address of its controller.
        self._controller = self._controller or lasting_port()
        self._sasl = self._sasl or lasting_port()
        self._behind = self._behind or lasting_port()
        self._proxy = self._proxy or lasting_port()
        ports = {"port": self.port, "controller": self._controller, "sasl": self._sasl}
        ports |= {"behind": self._behind, "proxy": self._proxy}
        said = PROPERTIES.format(directory=self.directory, password=PASSWORD, **ports)
        properties.write_text(said)
        # As in archived_java.py: brokers live for seconds.
        java = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path]
        broker = [*java, "kafka.Kafka", str(properties)]
        if (self.directory / "data" / "meta.properties").exists():
            return broker
        form = [*java, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        form += ["--cluster-id", CLUSTER, "--config", str(properties)]
        subprocess.run(form, check=True, capture_output=True)
        return broker

    def answers(self) -> bool:
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):
            self._admin().list_topics(timeout=1)
            return True
        return False

    def create_topic(self, topic: str, partitions: int, **config: str) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        # Without a name it would be gone before it has done it.
        admin = self._admin()
        for made in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
            made.result()

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """Write records, and wait until they are there."""
        from confluent_kafka import Producer

        failed: list[Any] = []
        # An idempotent producer asks for its id after half a second.  One request at a time keeps the order, too.
        settings = {"acks": "all", "max.in.flight": 1, "linger.ms": 0, "queue.buffering.max.messages": 2_000_000}
        producer = Producer({"bootstrap.servers": self.address} | settings)
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
                timestamp=record.timestamp,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert failed == []

    def read(self, topic: str, partitions: int, isolation: str = "read_committed") -> list[Any]:
        """Return all messages of a topic, partition by partition: those up to the first end of each that is seen."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        if isolation == "read_committed":
            self._wait_for_commits([TopicPartition(topic, number) for number in range(partitions)])

        settings = {"bootstrap.servers": self.address, "group.id": "tests", "isolation.level": isolation}
        # Ends are reported at once, and partitions whose leader is known are read at once.
        settings |= {"enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": "10"}
        consumer = Consumer(settings)
        found: list[Any] = []
        ended: set[int] = set()
        try:
            consumer.list_topics(topic, timeout=30)
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
            while len(ended) < partitions:
                for message in consumer.consume(1, 30):
                    if message.error() is None:
                        # What is written afterwards is followed by another end.
                        if message.partition() not in ended:
                            found.append(message)
                    else:
                        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                        ended.add(message.partition())
        finally:
            consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def _wait_for_commits(self, partitions: list[Any]) -> None:
        """Wait until no transaction is open: a commit is answered before its partitions know; an open one is left."""
        from confluent_kafka import KafkaException

        admin, until = self._admin(), time.monotonic() + 2.0
        while time.monotonic() < until:
            # The broker may be killed, or be starting; then the client may never answer.
            with contextlib.suppress(KafkaException, TimeoutError):
                if _ends(admin, partitions, committed=True) == _ends(admin, partitions, committed=False):
                    return
            time.sleep(0.01)

    def ends(self, partitions: list[Any], committed: bool) -> list[int]:
        """Return the offsets after the last records of partitions, or before the first open transaction."""
        return _ends(self._admin(), partitions, committed)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self._admin()
        for made in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            made.result()

    def delete_all(self, topic: str, partitions: int) -> None:
        """Delete all records that there are, as happens to old ones."""
        from confluent_kafka import OFFSET_END, TopicPartition

        ends = [TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)]
        admin = self._admin()
        for deleted in admin.delete_records(ends).values():
            deleted.result()

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        # The client would log to standard error that the broker doesn't answer yet.
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})


def _ends(admin: Any, partitions: list[Any], committed: bool) -> list[int]:
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    # A client that doesn't know the leaders yet may wait for three seconds.
    admin.list_topics(timeout=5)
    wanted = {partition: OffsetSpec.latest() for partition in partitions}
    found = admin.list_offsets(wanted, isolation_level=level, request_timeout=5)
    return [future.result(10).offset for future in found.values()]
