"""Runs Hadoop's MiniYARNCluster, a resource manager and a node manager in one JVM, until SIGTERM.

    python mini_yarn.py JARS DIRECTORY

Writes the settings of clients to DIRECTORY/conf/yarn-site.xml, and then prints "ready".  The JVM is driven through
PySpark's gateway, so no compiler is needed.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

# Megabytes: for two drivers and four executors of half a gigabyte each.
MEMORY = 6144

SETTINGS = {
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": str(MEMORY),
    "yarn.nodemanager.resource.memory-mb": str(MEMORY),
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.maximum-allocation-mb": str(MEMORY),
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.root.default.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.default.user-limit-factor": "1",
    "yarn.scheduler.capacity.root.default.state": "RUNNING",
    "yarn.scheduler.capacity.root.default.acl_submit_applications": "*",
    "yarn.scheduler.capacity.root.default.acl_administer_queue": "*",
    # A driver in a container is an application master.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    # The disk of a developer's machine is fuller than that of a node.
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100.0",
    # A JVM reserves much more than it uses.
    "yarn.nodemanager.vmem-check-enabled": "false",
    # What containers get of the node manager's environment.
    "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,HOME,JAVA_TOOL_OPTIONS,SPARK_LOCAL_IP",
    # Logs of containers stay for a test that fails.
    "yarn.nodemanager.delete.debug-delay-sec": "3600",
}

# What Hadoop needs of Java 17.
OPENED = ("java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent")


def main() -> None:
    """Start the cluster, and wait."""
    own, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    jars = pathlib.Path(pyspark.__file__).parent / "jars"
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    # In a group of its own: SIGTERM is for this process, which stops the cluster in order.
    port, token, java = launch_gateway(
        classpath=f"{own}{os.pathsep}{jars}/*",
        javaopts=[*options, "-Xmx512m", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=sys.stdout,
        redirect_stderr=sys.stdout,
        create_new_process_group=True,
        cwd=str(directory),
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = started(gateway.jvm, directory)
    try:
        print("ready", flush=True)
        while True:
            signal.pause()
    finally:
        cluster.stop()
        gateway.shutdown()
        java.stdin.close()
        java.wait(30)


def started(jvm: Any, directory: pathlib.Path) -> Any:
    """Start a cluster of one node, and write the settings of its clients."""
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in SETTINGS.items():
        settings.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("penstock", 1, 1, 1)
    cluster.init(settings)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(60_000), "the node manager did not connect"
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    file = jvm.java.io.FileOutputStream(str(conf / "yarn-site.xml"))
    cluster.getConfig().writeXml(file)
    file.close()
    return cluster


if __name__ == "__main__":
    main()
