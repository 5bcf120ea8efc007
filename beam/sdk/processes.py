"""Beam's `utils.processes`: `subprocess`, with errors that show what the process has printed."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from typing import Any

# On Windows the shell finds programs by their names.
force_shell = platform.system() == "Windows"

PIPE = subprocess.PIPE
STDOUT = subprocess.STDOUT
CalledProcessError = subprocess.CalledProcessError


def call(*args: Any, **kwargs: Any) -> Any:
    """Run a program, and return its status, as `subprocess.call`.

    Raises `RuntimeError` if there is no such program.

    >>> call(["true"])
    0
    """
    return _run(lambda: subprocess.call(*args, **_with_shell(kwargs)), args)


def check_call(*args: Any, **kwargs: Any) -> Any:
    """Run a program, as `subprocess.check_call`.

    Raises `RuntimeError` if there is no such program, or if it fails.
    """
    return _run(lambda: subprocess.check_call(*args, **_with_shell(kwargs)), args)


def check_output(*args: Any, **kwargs: Any) -> Any:
    """Run a program, and return what it prints, as `subprocess.check_output`.

    Raises `RuntimeError` if there is no such program, or if it fails.
    """
    return _run(lambda: subprocess.check_output(*args, **_with_shell(kwargs)), args)


def Popen(*args: Any, **kwargs: Any) -> Any:
    """Start a program, as `subprocess.Popen`."""
    return subprocess.Popen(*args, **_with_shell(kwargs))


def _with_shell(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "shell": True} if force_shell else kwargs


def _run(run: Callable[[], Any], args: tuple[Any, ...]) -> Any:
    try:
        return run()
    except OSError as error:
        raise RuntimeError(f"Executable {args[0]} not found") from error
    except CalledProcessError as error:
        is_pip = list(args[0][1:3]) == ["-m", "pip"]
        of = f"Pip install failed for package: {args[0][6]}" if is_pip and len(args[0]) > 6 else f"{args[0]} failed"
        raise RuntimeError(f"{error}\n {of} \n Output from execution of subprocess: {error.output}") from error
