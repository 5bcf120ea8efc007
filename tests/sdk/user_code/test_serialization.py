"""Copies of what users wrote, one for each worker."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import cloudpickle
import pytest

from penstock.sdk.dofn.dofn import FilterDoFn, MapDoFn
from penstock.sdk.errors import OptionsError
from penstock.sdk.graph import SideInputArgument
from penstock.sdk.user_code import serialization
from penstock.sdk.user_code.serialization import Serialized, local_modules_by_value, pickle_by_value


class Holding:
    """An object of the user's."""

    def __init__(self) -> None:
        self.seen: list[int] = []


def twice(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    "fn", [lambda x, y: x, lambda x, y: twice(x), lambda x, y, factor=2: x, lambda x, y, more=Holding(): x, str.join]
)
@pytest.mark.parametrize("arguments", [(), (1, "a", (None, b"b"), SideInputArgument(0)), ({},), (Holding(),)])
def test_each_copy_has_the_type_and_the_parts_of_the_object(fn: Any, arguments: tuple[Any, ...]) -> None:
    """With and without pickling."""
    copy, args, kwargs = Serialized((MapDoFn(fn), arguments, {}), "Map").frozen().load()

    assert MapDoFn is type(copy)
    assert fn.__name__ == copy.fn.__name__
    assert [type(argument) for argument in arguments] == [type(argument) for argument in args]
    assert {} == kwargs


def test_what_is_put_into_a_copy_is_in_no_other() -> None:
    """A dict that is empty at first may be a function's memory."""
    memory: dict[str, int] = {}
    frozen = Serialized((FilterDoFn(lambda x, memory: x), (memory,), {}), "Filter").frozen()
    first, second = frozen.load(), frozen.load()
    first[1][0]["a"] = 1
    first[0].label = "first"

    assert {} == memory
    assert ((frozen.object[1]), {}) == (second[1], second[2])
    assert ["fn"] == list(vars(second[0]))


def test_what_changes_after_the_run_has_begun_is_in_no_copy() -> None:
    """Earlier changes are in all copies."""
    dofn = MapDoFn(lambda x: 1)
    serialized: Serialized[Any] = Serialized(dofn, "Map")
    dofn.fn = lambda x: 2
    frozen = serialized.frozen()
    dofn.fn = lambda x: 3

    assert 2 == frozen.load().fn(0)


def test_a_function_that_comes_to_refer_to_something_is_copied_with_it() -> None:
    """Its module defined that after the transform was applied."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec("fn = lambda x: added_later + x", variables)
    serialized: Serialized[Any] = Serialized(MapDoFn(variables["fn"]), "Map")
    variables["added_later"] = 1
    frozen = serialized.frozen()
    variables["added_later"] = 2

    assert 11 == frozen.load().fn(10)


def test_a_function_that_refers_to_nothing_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long pipelines have mostly such functions, and pickling them takes ten times as long as copying."""
    pickled: list[Any] = []
    monkeypatch.setattr(serialization, "pickled", lambda obj: pickled.append(obj) or b"")

    for fn in (lambda x: x + 1, lambda x: [x]):
        Serialized((MapDoFn(fn), (1,), {}), "Map").frozen()
    assert [] == pickled
    Serialized((MapDoFn(lambda x: twice(x)), (1,), {}), "Map").frozen()
    assert 2 == len(pickled)


_PROGRAM = """
import sys
import cloudpickle
import beside, below.here, elsewhere, vendored, vendored.inner
from penstock.sdk.user_code.serialization import local_modules_by_value, pickle_by_value

pickle_by_value(sys.argv[1:])
with local_modules_by_value():
    print(*sorted(cloudpickle.list_registry_pickle_by_value()))
print(*sorted(cloudpickle.list_registry_pickle_by_value()))
"""


def _written(folder: pathlib.Path, *files: str) -> None:
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.mark.parametrize(
    ("named", "expected"),
    [([], "below below.here beside"), (["elsewhere", "vendored"], "below below.here beside elsewhere vendored")],
    ids=["none", "two"],
)
def test_modules_of_the_program_go_by_value_and_installed_ones_do_not(
    tmp_path: pathlib.Path, named: list[str], expected: str
) -> None:
    """Nor those that `pip install --target` or PYTHONPATH has beside the program, unless they are named."""
    program, libraries = tmp_path / "job", tmp_path / "libraries"
    _written(program, "beside.py", "below/__init__.py", "below/here.py")
    _written(program / "target", "vendored/__init__.py", "vendored/inner.py", "vendored-1.0.dist-info/METADATA")
    _written(libraries, "elsewhere.py")
    (program / "program.py").write_text(_PROGRAM)
    path = os.pathsep.join(map(str, [program / "target", libraries]))
    done = subprocess.run(
        [sys.executable, "program.py", *named],
        cwd=program,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (f"{expected}\n{' '.join(named)}\n", "") == (done.stdout, done.stderr)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of two modules of the program."""
    names = {"first", "second"}
    for name in names:
        module = types.ModuleType(name)
        module.__file__ = os.path.abspath(f"{name}.py")
        monkeypatch.setitem(sys.modules, name, module)
    return names


def test_the_modules_that_go_by_value_are_listed_once(own: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is a copy: one for each of a program's seven hundred modules took 30 ms in each job of Spark."""
    listed: list[None] = []
    of_cloudpickle = cloudpickle.list_registry_pickle_by_value

    def counted() -> Any:
        listed.append(None)
        return of_cloudpickle()

    monkeypatch.setattr(cloudpickle, "list_registry_pickle_by_value", counted)
    with local_modules_by_value():
        assert own <= of_cloudpickle()
    assert own.isdisjoint(of_cloudpickle())
    assert [None] == listed


def test_modules_go_by_value_until_the_last_thread_has_pickled(own: set[str]) -> None:
    """The drivers of two streams pickle their batches at the same time."""
    by_value = cloudpickle.list_registry_pickle_by_value
    first, second = local_modules_by_value(), local_modules_by_value()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert own <= by_value()
    second.__exit__(None, None, None)
    assert own.isdisjoint(by_value())


def test_a_module_that_is_imported_later_goes_by_value(own: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before is found again as long as the same modules are there."""
    with local_modules_by_value():
        assert "third" not in cloudpickle.list_registry_pickle_by_value()
    module = types.ModuleType("third")
    module.__file__ = os.path.abspath("third.py")
    monkeypatch.setitem(sys.modules, "third", module)
    with local_modules_by_value():
        assert {"third", *own} <= cloudpickle.list_registry_pickle_by_value()


def test_the_root_directory_is_not_the_programs(tmp_path: pathlib.Path) -> None:
    """Below it are all libraries; a program in a container may be started there."""
    program, libraries = tmp_path / "job", tmp_path / "libraries"
    _written(program, "beside.py")
    _written(libraries, "elsewhere.py")
    (program / "program.py").write_text(
        _PROGRAM.replace("below.here, elsewhere, vendored, vendored.inner", "elsewhere")
    )
    done = subprocess.run(
        [sys.executable, str(program / "program.py")],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(libraries)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("beside\n\n", "") == (done.stdout, done.stderr)


def test_a_module_that_can_not_be_imported_can_not_be_pickled_by_value() -> None:
    """The flag is named, and what it takes."""
    message = "--pickle_by_value: expected names of modules.*'no_such_module'"
    with pytest.raises(OptionsError, match=message):
        pickle_by_value(["no_such_module"])
