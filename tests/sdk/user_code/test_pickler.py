"""Classes of users' programs in another process, which can't import them."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.sdk.user_code.pickler import pickled

PROGRAM = """
from __future__ import annotations
import dataclasses, datetime, pickle, sys, typing
import msgspec
from penstock.sdk.user_code.pickler import pickled

class Plain(msgspec.Struct):
    at: datetime.date
    tags: list[str] = []
    next: Plain | None = None

    def moved(self):
        return Plain(self.at.replace(year=2000), [*self.tags, "moved"], self)

class Frozen(Plain, frozen=True, kw_only=True, rename="camel", tag="f", order=True, omit_defaults=True):
    user_name: str
    is_old: bool = False
    by: str = msgspec.field(default="x", name="author")

    def __post_init__(self):
        if not self.user_name:
            raise ValueError("no name")

@dataclasses.dataclass
class Data:
    at: datetime.date
    next: Data | None = None

class Named(typing.NamedTuple):
    at: datetime.date

class Typed(typing.TypedDict):
    at: datetime.date

msgspec.json.decode(b'{"at": "2020-01-02"}', type=Data)
frozen = Frozen(at=datetime.date(2020, 1, 2), user_name="a")
sys.stdout.buffer.write(pickled((Plain, Frozen, Data, Named, Typed, frozen)))
"""

OTHER = """
import pickle, sys, msgspec
Plain, Frozen, Data, Named, Typed, frozen = pickle.load(sys.stdin.buffer)
plain = msgspec.json.decode(b'{"at": "2020-01-02", "tags": ["a"], "next": {"at": "2020-01-03"}}', type=Plain)
print(plain)
print(plain.moved())
print(frozen == Frozen(at=frozen.at, user_name="a"), msgspec.json.encode(frozen).decode(), Frozen.__mro__[1] is Plain)
print(msgspec.json.decode(msgspec.json.encode(frozen), type=Frozen) == frozen, Frozen.__struct_config__.order)
for wrong in (lambda: Frozen(at=frozen.at, user_name=""), lambda: Frozen(frozen.at), lambda: setattr(frozen, "by", 1)):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__, error)
print(msgspec.json.decode(b'{"at": "2020-01-02", "next": {"at": "2020-01-03"}}', type=Data))
print(msgspec.json.decode(b'["2020-01-02"]', type=Named), Typed.__annotations__["at"])
"""

EXPECTED = """\
Plain(at=datetime.date(2020, 1, 2), tags=['a'], next=Plain(at=datetime.date(2020, 1, 3), tags=[], next=None))
Plain(at=datetime.date(2000, 1, 2), tags=['a', 'moved'], next=Plain(at=datetime.date(2020, 1, 2), tags=['a'], \
next=Plain(at=datetime.date(2020, 1, 3), tags=[], next=None)))
True {"type":"f","at":"2020-01-02","userName":"a"} True
True True
ValueError no name
TypeError Missing required argument 'user_name'
AttributeError immutable type: 'Frozen'
Data(at=datetime.date(2020, 1, 2), next=Data(at=datetime.date(2020, 1, 3), next=None))
Named(at=datetime.date(2020, 1, 2)) <class 'datetime.date'>
"""


def test_classes_with_typed_fields_are_whole_in_another_process(tmp_path: Path) -> None:
    """Their fields, defaults, settings, methods, and the types in annotations that are text."""
    (tmp_path / "program.py").write_text(PROGRAM)
    pickle = subprocess.check_output([sys.executable, "program.py"], cwd=tmp_path)
    assert EXPECTED == subprocess.check_output([sys.executable, "-c", OTHER], input=pickle).decode()


@pytest.mark.parametrize("flags", [[], ["--start_method=spawn"]], ids=["forked", "spawned"])
def test_a_struct_of_the_program_is_an_element_in_workers(flags: list[str], tmp_path: Path) -> None:
    program = PROGRAM.rpartition("sys.stdout")[0] + (
        "import penstock as beam\n"
        "if __name__ == '__main__':\n"
        "    with beam.Pipeline(argv=sys.argv[1:]) as p:\n"
        "        plain = p | beam.Create([Plain(datetime.date(2020, 1, n)) for n in range(1, 29)])\n"
        "        pairs = plain | beam.Map(lambda plain: (plain.at.day % 2, plain.moved()))\n"
        "        totals = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, own: (key, own[0].tags, len(own)))\n"
        '        _ = totals | beam.io.WriteToText("out")\n'
    )
    (tmp_path / "program.py").write_text(program)
    subprocess.check_call([sys.executable, "program.py", "--parallelism=2", *flags], cwd=tmp_path)
    written = [line for path in tmp_path.glob("out-*") for line in path.read_text().splitlines()]
    assert ["(0, ['moved'], 14)", "(1, ['moved'], 14)"] == sorted(written)


SAME_PROCESS = """
from __future__ import annotations
import datetime, pickle, typing
from penstock.sdk.user_code.pickler import pickled

class Method:
    def call(self, at: datetime.date) -> datetime.date:
        return at

for _ in range(2):
    pickle.loads(pickled(Method()))
print(typing.get_type_hints(Method.call)["return"])
"""


def test_a_class_keeps_the_types_of_its_methods_in_its_own_process() -> None:
    """Where the copy of an object has the same class."""
    assert "<class 'datetime.date'>\n" == subprocess.check_output([sys.executable, "-c", SAME_PROCESS]).decode()


def test_code_keeps_the_name_of_its_file() -> None:
    """So that an error shows its lines, whatever cloudpickle's version; code within code, too."""

    def outer() -> Callable[[], int]:
        def inner() -> int:
            return 1

        return inner

    copy = pickle.loads(pickled(outer))

    assert [__file__] * 2 == [function.__code__.co_filename for function in (copy, copy())]
