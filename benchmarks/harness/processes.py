"""Other processes: started, and what they and their children have used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# The folder from which the modules of benchmarks import each other.
_BENCHMARKS = Path(__file__).parent.parent


def output_of(*arguments: str) -> str:
    """Run Python in a process of its own and return its output; raise if it fails."""
    return subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def output_of_program(file: str, *arguments: str) -> str:
    """Run a module of the benchmarks as a program in a process of its own and return its output; raise if it fails."""
    command = [sys.executable, file, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment()).stdout


def environment() -> dict[str, str]:
    """Return an environment in which modules of the benchmarks are programs."""
    paths = [str(_BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def cpu_of(*arguments: str) -> float:
    """The CPU seconds of a Python process."""
    process = subprocess.Popen([sys.executable, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{arguments} failed")
    return usage.ru_utime + usage.ru_stime


def peak_memory() -> float:
    """The most memory that this process has held so far, in MB.

    From /proc, since a new process is charged in `ru_maxrss` with what its parent held.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("/proc/self/status has no VmHWM")


def cpu_of_this_and_children() -> float:
    """CPU seconds of this process and all processes below it: Spark's JVM, and its Python workers."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name, in parentheses, may hold anything.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            # Own time, and that of children that have ended.
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    todo, total = [os.getpid()], 0
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo.extend(children.get(pid, ()))
    return total / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, and that are there yet."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, children.read_text().split())
    return found


def resident(pid: int) -> float:
    """The memory that a process holds just now, in MB; nothing if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
    except OSError:
        pass
    return 0.0


def open_files(pid: int) -> int:
    """How many files and pipes a process has open; none if it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0
