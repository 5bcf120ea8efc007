"""Fixtures and hooks of all tests: Spark, the choice of a runner, and the order of the run."""

from __future__ import annotations

import gc
import importlib.util
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import hypothesis
import pytest
from servers import archived_java
from servers.fixtures import bigquery_server as bigquery_server
from servers.fixtures import broker as broker
from servers.fixtures import gcs_server as gcs_server
from servers.fixtures import mosquitto as mosquitto
from servers.fixtures import nats_server as nats_server
from servers.fixtures import postgresql as postgresql
from servers.fixtures import pubsub_server as pubsub_server
from servers.fixtures import redis_server as redis_server
from servers.spark_connect import running_connect_server
from servers.spark_standalone import running_cluster
from support.programs import spark_programs
from support.runners.local_variants import runner_of
from support.suite import spark_beside, time_limits, worker_template
from support.suite.capabilities import Capabilities
from support.suite.each_choice import each_choice
from support.suite.examples import fewer_examples

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# What a shell starts in the background ignores Ctrl-C, and so would all programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# gcsfs looks at it once in a process: otherwise it asks for what the server of tests doesn't have, again and again.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# Times depend on the machine: no example fails for being slow.  CI tries the same examples on every run.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if IN_CI else "local")


@pytest.fixture(scope="session", autouse=True)
def template_of_workers() -> Iterator[None]:
    """Let workers be forked from a process with modules that they would import again and again."""
    with pytest.MonkeyPatch.context() as patch:
        worker_template.use_for_workers(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def records_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let runs look for what killed runs of these tests have left only: each reads all records that there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def without_coders_of_other_tests() -> Iterator[None]:
    """Unregister the coders of a test: they change the grouping of keys in the whole process."""
    from penstock.sdk.coders import registry

    before = registry.registered()
    yield
    registry.register_all(before)


# --- Runners: what is true of every runner is written once, and run on each.

# `RUNNERS=spark-connect pytest ...` runs the shared tests over Spark Connect.
RUNNERS = os.environ.get("RUNNERS", "local,spark-batch").split(",")


@pytest.fixture(params=RUNNERS)
def runner_name(request: pytest.FixtureRequest) -> str:
    """The name of each runner in turn."""
    if request.param.startswith("spark"):
        request.getfixturevalue("connect_session" if request.param == "spark-connect" else "spark")
    return str(request.param)


@pytest.fixture
def runner(runner_name: str, request: pytest.FixtureRequest) -> Any:
    """Each runner in turn; those on Spark all use the one session."""
    from penstock.sdk.runner import create_runner

    if not runner_name.startswith("spark"):
        return create_runner(runner_of(runner_name))
    from penstock.runners import spark

    if runner_name == "spark-connect":
        return spark.SparkBatchRunner(spark_session=request.getfixturevalue("connect_session"))
    kind = {"spark-batch": spark.SparkBatchRunner, "spark-microbatch": spark.SparkMicroBatchRunner}[runner_name]
    return kind(spark_session=request.getfixturevalue("spark"))


@pytest.fixture
def make_pipeline(runner: Any) -> Callable[..., Any]:
    """`make_pipeline(**options)` is a `TestPipeline` of each runner in turn."""

    def make(**options: Any) -> Any:
        from penstock.testing import TestPipeline

        return TestPipeline(runner=runner, **options)

    return make


@pytest.fixture
def pipeline(make_pipeline: Callable[..., Any]) -> Any:
    """One `TestPipeline` of each runner in turn, for a test's `with` block."""
    return make_pipeline()


# --- Spark

SPARK_FIXTURES = {"spark", "spark_connect", "connect_session", "standalone_cluster"}

os.environ.update(archived_java.settings())


def why_there_is_no_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    if shutil.which("java") is None and not pathlib.Path(os.environ.get("JAVA_HOME", ""), "bin", "java").is_file():
        return "there is no java on the PATH"
    return None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The only SparkSession of this process, `local[2]`, started by the first test that uses it."""
    if reason := why_there_is_no_spark():
        pytest.skip(reason)
    import pyspark.cloudpickle
    from pyspark.sql import SparkSession

    pickle_tests_by_value(pyspark.cloudpickle)
    # The setting `spark.pyspark.python` is heeded by spark-submit only; a context started here reads the variable.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("penstock-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.pyspark.python", sys.executable)
        .config("spark.python.daemon.module", "preloading_daemon")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    with pytest.MonkeyPatch.context() as patch:
        # Workers have the path of their JVM.
        patch.setenv("PYTHONPATH", str(spark_programs.WORKERS), prepend=os.pathsep)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with pytest.MonkeyPatch.context() as patch:
        look_up_classes_once(patch)
        yield session
    session.stop()


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The `spark://` address of a real cluster: a master and two workers of 1 core and 1 GB, each a process.

    A process has one SparkContext, and this one's may be taken by `spark`:
    connect from a subprocess.
    """
    if reason := why_there_is_no_spark():
        pytest.skip(reason)
    with running_cluster(tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The `sc://` address of a real Spark Connect server, `local[2]`, started by the first test that uses it."""
    if reason := why_there_is_no_spark():
        pytest.skip(reason)
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("grpcio is not installed")
    with running_connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="module")
def connect_session(spark_connect: str) -> Iterator[Any]:
    """A session of the Spark Connect server, the active one until it ends."""
    import pyspark.cloudpickle
    from pyspark.sql.connect.session import SparkSession

    pickle_tests_by_value(pyspark.cloudpickle)
    session = SparkSession.builder.remote(spark_connect).create()
    yield session
    session.stop()


def look_up_classes_once(patch: pytest.MonkeyPatch) -> None:
    """Let py4j look up each class and package once: otherwise the JVM searches all jars again and again."""
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    found: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def once(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def class_or_package(owner: Any, name: str) -> Any:
            # Two packages of one name are one.
            known = (owner.__dict__.get("_fqn") or id(owner), id(owner._gateway_client), name)
            if known not in found:
                one = look_up(owner, name)
                # What isn't a class passes for a package.
                if not isinstance(one, JavaClass) and not (isinstance(one, JavaPackage) and name.islower()):
                    return one
                # With the owner, so that its id remains its own.
                found[known] = owner, one
            return found[known][1]

        return class_or_package

    for kind in (JVMView, JavaPackage):
        patch.setattr(kind, "__getattr__", once(kind.__getattr__))


def pickle_tests_by_value(pickler: Any) -> None:
    """Pickle functions of test files by value: workers can't import a test file by its name."""
    here = str(pathlib.Path(__file__).parent) + os.sep
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(here) and module.__name__ == name:
            pickler.register_pickle_by_value(module)


# --- The run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--capabilities",
        type=pathlib.Path,
        metavar="FILE",
        help="of a run of all tests: write down what runners can do, and check README.md's table",
    )
    parser.addoption("--deployments", action="store_true", help="collect tests/deployments, as `make deployments` does")
    spark_beside.add_options(parser)
    time_limits.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    spark_beside.register(config)
    time_limits.register(config, lambda: spark_beside.processes(config))
    file = config.getoption("--capabilities")
    if file is not None:
        config.pluginmanager.register(Capabilities(file), "capabilities")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    # What is collected stays: to look for garbage in it takes a fifth of the time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def needs_spark(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    runners = [params.get("runner_name", ""), params.get("streaming_runner", "")]
    is_named = any(str(runner).startswith("spark") for runner in runners)
    return is_named or not SPARK_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if needs_spark(item):
            item.add_marker("spark")
    # Last, so that no test forks a process that already talks to a JVM, and quick failures come quickly.
    items.sort(key=spark_beside.is_on_spark)
    items[:] = each_choice(items)
    pickle_tests_by_value(cloudpickle)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> None:
    # Otherwise this process would fork beside a JVM's threads, and have Spark's handlers of signals.
    if fixturedef.argname in SPARK_FIXTURES and not spark_beside.is_on_spark(request._pyfuncitem):
        pytest.fail(f"{request._pyfuncitem.nodeid} uses Spark; expected the marker `spark` on it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    # A Spark context that a test starts by the name of a runner stays, and interrupts the tests at the next SIGINT.
    before = signal.getsignal(signal.SIGINT)
    with fewer_examples(item):
        result = yield
    if signal.getsignal(signal.SIGINT) != before and not spark_beside.is_on_spark(item):
        pytest.fail(f"{item.nodeid} leaves another handler of SIGINT; if it uses Spark, it needs the marker `spark`")
    return result


# In CI nothing may be skipped: a test that doesn't run there runs nowhere.


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"Skipped in CI, where every test must run. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    report = yield
    fail_if_skipped(report)
    return report
