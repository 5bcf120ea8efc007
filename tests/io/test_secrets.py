"""A planted secret shows nowhere: not in errors, logs, `repr`s, drawings, metrics or checkpoints, of any connector."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import fileio
from penstock.io.cdc import postgres_source
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkBatchRunner
from penstock.sdk.drawing.drawing import mime_bundle
from penstock.sdk.errors import OptionsError, PenstockError, SinkError
from penstock.sdk.redaction import logger_of
from penstock.testing import TestPipeline

# Distinct from all that is said, with what a URL has to quote in the second.
SECRET = "drawn-from-the-well"
QUOTED = "drawn%3Afrom%2Fthe%40well"
REDIS = [
    f"redis://:{SECRET}@127.0.0.1:1/0",
    f"redis://ann:{SECRET}@127.0.0.1:1/0",
    f"redis://127.0.0.1:1/0?username=ann&password={SECRET}",
    f"redis://127.0.0.1:1/0?password={QUOTED}",
    f"redis://:a/{SECRET}@127.0.0.1:1/0",
    f"redis://:{SECRET}#a@127.0.0.1:1/0",
    f"rediss://127.0.0.1:1/0?ssl_certfile=none&ssl_password={SECRET}",
    f"2redis://ann:{SECRET}@127.0.0.1:1/0",
    f"rédis://ann:{SECRET}@127.0.0.1:1/0",
]
SQL = [
    f"postgresql://ann:{SECRET}@127.0.0.1:1/db",
    f"postgresql://ann:{QUOTED}@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?user=ann&password={SECRET}",
    f"postgresql://127.0.0.1:1/db?user=ann&sslpassword={SECRET}",
    f"postgresql://ann:{SECRET}@127.0.0.1:port/db",
    f"nosuch://ann:{SECRET}@127.0.0.1/db",
    f"oracle+cx_oracle://ann:{SECRET}@127.0.0.1/db",
    f"my_sql://ann:a {SECRET}@127.0.0.1/db",
    f"host=127.0.0.1 port=1 user=ann password={SECRET}",
    f"host=127.0.0.1 password='{SECRET}'",
    f"Driver=PostgreSQL;Server=127.0.0.1;Uid=ann;Pwd={{{SECRET}}};",
]
FILES = [
    f"vault://ann:{SECRET}@nowhere/in.txt",
    f"vault://nowhere/in.txt?sig={SECRET}",
    f"nosuch://a:{SECRET}@h/in.txt",
    f"no_such://a:{SECRET}@h/in.txt",
]


class Vault(MemoryFileSystem):
    """A file system whose URLs have a password, and whose errors repeat what was asked for."""

    protocol = "vault"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]

    def __init__(self, asked: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.asked = asked

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"asked": path}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).rpartition("@")[2].partition("://")[2].partition("?")[0].lstrip("/")

    def _refuse(self, *_args: Any, **_options: Any) -> Any:
        raise OSError(f"403 Forbidden: {self.asked}")

    isfile = glob = makedirs = _open = _refuse


fsspec.register_implementation("vault", Vault, clobber=True)


def redis_connectors(url: str) -> list[Callable[[], Any]]:
    """All that take a URL of Redis."""
    return [
        lambda: beam.io.WriteToRedis(url, "p:"),
        lambda: beam.io.WriteToRedisStream(url, "p:"),
        lambda: beam.io.ReadFromRedisStream(url, "s"),
    ]


def sql_connectors(url: str) -> list[Callable[[], Any]]:
    """All that take a database's URL or path, a path where a URL is meant included."""
    return [
        lambda: beam.io.WriteToSQL(url, "t", "a", {"a": str}),
        lambda: beam.io.WriteToSQLite(url, "t", "a", {"a": str}),
        lambda: beam.io.ReadFromSQL(url, "t", increasing_column="a"),
        lambda: beam.io.ReadFromPostgresChanges(url, "t", "s"),
    ]


def file_connectors(url: str) -> list[Callable[[], Any]]:
    """All that take a path."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    return [
        lambda: beam.io.ReadFromText(url),
        lambda: beam.io.ReadFromText(f"{url}*.zst"),
        lambda: beam.io.ReadFromCsv(url),
        lambda: beam.io.ReadFromJson(url),
        lambda: beam.io.ReadFromAvro(url),
        lambda: beam.io.ReadFromParquet(url),
        lambda: beam.io.ReadContinuouslyFromText(url),
        lambda: fileio.MatchFiles(url, fileio.EmptyMatchTreatment.DISALLOW),
        lambda: fileio.MatchContinuously(url, interval=0.1),
        lambda: beam.io.WriteToText(url),
        lambda: beam.io.WriteToText(f"{url}/", shard_name_template=""),
        lambda: beam.io.WriteToJson(url),
        lambda: beam.io.WriteToCsv(url),
        lambda: beam.io.WriteToAvro(url, schema),
        lambda: beam.io.WriteToChangelog(url),
        lambda: fileio.WriteToFiles(url),
        lambda: beam.io.ReadFromDelta(url),
        lambda: beam.io.ReadFromDeltaChanges(url),
        lambda: beam.io.WriteToDelta(url),
        lambda: beam.io.ReadFromIceberg("a.b", catalog_properties={"type": "sql", "uri": url}),
        lambda: beam.io.ReadFromIcebergChanges("a.b", catalog_properties={"type": "sql", "uri": url}),
        lambda: beam.io.WriteToIceberg("a.b", catalog_properties={"type": "rest", "uri": url, "token": SECRET}),
    ]


CASES = [
    *((url, i, redis_connectors) for url in REDIS for i in range(3)),
    *((url, i, sql_connectors) for url in SQL for i in range(4)),
    *((url, i, file_connectors) for url in FILES for i in range(22)),
]


def shown_of(error: BaseException) -> list[str]:
    """An error as Python prints it, with its causes, and as it is represented; without lines of this test."""
    lines = [line for line in traceback.format_exception(error) if __file__ not in line]
    return [*lines, repr(error), str(error.args)]


@pytest.mark.parametrize(("url", "which", "connectors"), CASES, ids=map(str, range(len(CASES))))
def test_a_secret_is_shown_nowhere(
    url: str,
    which: int,
    connectors: Callable[[str], list[Callable[[], Any]]],
    caplog: pytest.LogCaptureFixture,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither when the connector is made, nor by what it says of itself, nor when the run fails: as it has to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(postgres_source, "REACHED_WITHIN", 0)
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    is_refused = False
    try:
        transform = connectors(url)[which]()
        p = beam.Pipeline(options=PipelineOptions(max_restarts=0))
        reads = type(transform).__name__.startswith(("Read", "Match"))
        elements = [{"a": "b"}] if "Redis" not in type(transform).__name__ else [("a", "b")]
        _ = p | transform if reads else p | beam.Create(elements) | transform
        owned = [transform, *(vars(transform).get(name) for name in ("source", "sink"))]
        shown += [f"{one!r} {one}" for one in owned] + [str(transform.display_data())]
        shown += [repr(p), str(p.graph()), *mime_bundle(p.graph()).values()]
        p.run().wait_until_finish()
    except Exception as error:
        shown += shown_of(error)
        # By the connector, and not for a flag.
        is_refused = isinstance(error, (PenstockError, ValueError)) and not isinstance(error, OptionsError)
    assert is_refused
    text = "".join([*shown, caplog.text, *(str(path) for path in tmp_path.rglob("*"))])
    assert [] == [part for part in (SECRET, QUOTED, "from/the@well", "drawn-", "-well") if part in text]


def test_a_secret_is_in_no_checkpoint_and_no_metric(
    redis_server: Any, postgresql: Any, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    """Of a stream from and to servers that ask for passwords; nor in what it logs or shows of its state."""
    caplog.set_level(logging.DEBUG)
    with redis_server.client() as client:
        client.acl_setuser("ann", enabled=True, passwords=[f"+{SECRET}"], keys=["*"], commands=["+@all"], reset=True)
        client.xadd("of-ann", {"word": "a"})
    url = f"redis://127.0.0.1:{redis_server.port}/0?username=ann&password={SECRET}"
    kept = tmp_path / "kept"
    flags = {"checkpoint_dir": str(kept), "checkpoint_interval": 0.1, "metrics_port": 0, "parallelism": 2}
    p = beam.Pipeline(options=PipelineOptions(**flags))
    words = p | beam.io.ReadFromRedisStream(url, "of-ann") | beam.Map(lambda entry: entry.fields["word"])
    _ = words | beam.Map(lambda word: (word, 1)) | beam.io.WriteToRedis(url, "ann:")
    _ = words | beam.Map(lambda word: {"word": word}) | beam.io.WriteToSQL(postgresql.url, "ann", "word", {"word": str})
    result = p.run()
    try:
        with redis_server.client() as client:
            wait_until(lambda: client.get("ann:a"), "the word was committed")
        with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
            page = answer.read().decode()
        shown = [page, repr(result), str(result.metrics().query())]
    finally:
        result.cancel()
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert files
    text = "".join([*shown, caplog.text, *(f"{path}{path.read_bytes()!r}" for path in files)])
    assert [] == [part for part in (SECRET, "from/the@well", QUOTED) if part in text]


@contextlib.contextmanager
def logs_of_spark(session: Any, directory: pathlib.Path) -> Iterator[Callable[[], str]]:
    """Have Spark write its event log, and what driver and executor log; yields a function that returns both."""
    jvm, context = session._jvm, session.sparkContext._jsc.sc()
    conf = context.conf().clone().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false")
    log4j = jvm.org.apache.logging.log4j
    written, root = jvm.java.io.StringWriter(), log4j.LogManager.getRootLogger()
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, written, "for a test", False, False)
    appender.start()
    events = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "secrets", jvm.scala.Option.empty(), jvm.java.net.URI(directory.as_uri()), conf
    )
    events.start()
    root.addAppender(appender)
    session.sparkContext.setLogLevel("INFO")
    context.addSparkListener(events)

    def read() -> str:
        context.listenerBus().waitUntilEmpty()
        return "".join([written.toString(), *(path.read_text() for path in directory.iterdir() if path.is_file())])

    try:
        yield read
    finally:
        context.removeSparkListener(events)
        session.sparkContext.setLogLevel("ERROR")
        root.removeAppender(appender)
        events.stop()


@pytest.mark.parametrize(
    "sink",
    [
        # The server knows no such user.
        lambda redis: beam.io.WriteToRedis(f"redis://127.0.0.1:{redis.port}/0?username=ann&password={SECRET}", "p:"),
        lambda _: fileio.WriteToFiles(f"vault://ann:{SECRET}@nowhere/out"),
    ],
    ids=["redis", "files"],
)
def test_a_secret_is_in_no_log_of_spark(
    spark: Any, sink: Callable[[Any], Any], redis_server: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in its event log nor in those of driver and executors, of a run that fails in an executor."""
    p = beam.Pipeline(runner=SparkBatchRunner(spark_session=spark))
    transform = sink(redis_server)
    # The driver may use the target, and the executors may not.
    monkeypatch.setattr(type(transform.sink), "prepare", lambda *_: None)
    _ = p | beam.Create([("a", "b")]) | transform
    with logs_of_spark(spark, tmp_path) as read:
        with pytest.raises(SinkError) as e:
            p.run()
        text = read()
    # The logs have the error, without the secret.
    expected = ["SparkListenerTaskEnd", "Exception in task", "***"]
    assert expected == [part for part in expected if part in text]
    assert [] == [part for part in (SECRET, QUOTED, "drawn-", "-well") if part in text + "".join(shown_of(e.value))]


def test_flags_with_secrets_are_hidden_where_options_are_shown() -> None:
    """By the name of the flag, by that of a setting, and within URLs; an error about one doesn't repeat it either."""

    class VaultOptions(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parser.add_argument("--vault_pwd")
            parser.add_argument("--vault_code_token", type=int)
            parser.add_argument("--vault_url")

    conf = [
        f"spark.hadoop.fs.s3a.secret.key={SECRET}",
        f"spark.jdbc.url=jdbc:postgresql://h/db?user=a&password={SECRET}",
        f'spark.kafka.sasl.jaas.config=ScramLoginModule required username="a" password="{SECRET}";',
        f"spark.redis.url=redis://:{SECRET}@h/0",
        "spark.executor.memory=1g",
    ]
    flags = [f"--spark_conf={one}" for one in conf]
    options = PipelineOptions([*flags, f"--vault_pwd={SECRET}", f"--vault_url=redis://h/0?password={SECRET}"])
    text = f"{options!r} {options.display_data()} {options.view_as(VaultOptions)!r}"
    assert SECRET not in text
    assert "spark.executor.memory=1g" in text
    with pytest.raises(OptionsError, match=r"--vault_code_token: expected an int, got \*\*\*") as e:
        PipelineOptions([f"--vault_code_token={SECRET}"]).view_as(VaultOptions)
    assert SECRET not in "".join(shown_of(e.value))


def test_an_element_and_a_users_error_show_no_url_with_a_password() -> None:
    """Where penstock repeats them."""

    def connect(url: str) -> None:
        raise ConnectionError(f"can't connect to {url}")

    with pytest.raises(ConnectionError) as e, TestPipeline() as p:
        _ = p | beam.Create([f"redis://:{SECRET}@h/0"]) | beam.Map(connect)
    assert SECRET not in str(e.value)
    assert "can't connect to redis://***@h/0" in str(e.value)


def test_what_is_logged_about_a_checkpoint_directory_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Its URL may have a password, as any other."""
    logger_of("penstock.runners.local.job.job").warning("%s: checkpoint %d failed", f"vault://ann:{SECRET}@h/kept", 3)
    assert ["vault://***@h/kept: checkpoint 3 failed"] == caplog.messages
