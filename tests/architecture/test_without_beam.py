"""The core without Beam's package, and what `import penstock` doesn't do."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest
from architecture.imports import modules
from support.programs import without_beam

import penstock

PACKAGE = pathlib.Path(penstock.__file__).parent
TESTS = pathlib.Path(__file__).parents[1]
PROGRAM = """
import sys
import penstock as beam
from penstock.transforms.userstate import BagStateSpec
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions(["--runner=local"])) as p:
    pairs = p | beam.Create([("a", 1), ("a", 2)]) | beam.WindowInto(beam.window.FixedWindows(60))
    _ = pairs | beam.CombinePerKey(sum) | beam.Map(print)
"""


# Those that use most of the core and take little time; `make without_beam` runs all tests of the core.
SUITES = ("sdk/test_options.py", "sdk/test_pipeline.py")


def run(copy: pathlib.Path, *command: str) -> str:
    """Run Python with a copy of the package, and return what it prints."""
    environment = without_beam.environment(copy)
    ran = subprocess.run([sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a copy of the checkout from which `beam/` was removed."""
    return without_beam.copy_to(tmp_path_factory.mktemp("without_beam"))


def test_a_pipeline_runs_without_the_package(core: pathlib.Path) -> None:
    """Its namespaces are those of the core."""
    shown = run(core, "-c", f"{PROGRAM}\nprint(beam.__file__)")

    assert f"('a', 3)\n{core}/__init__.py\n" == shown


def test_what_only_beam_has_is_refused_without_the_package(core: pathlib.Path) -> None:
    """The error says what is missing."""
    program = """
import penstock as beam
for use in (lambda: beam.typehints.KV, lambda: beam.io.iobase.RangeTracker, lambda: beam.Map(str).get_type_hints()):
    try:
        use()
    except (AttributeError, beam.error.UnsupportedError) as error:
        print(error)
"""
    missing = "is a part of penstock.beam, which wasn't found: import penstock.beam fails"
    expected = ["penstock.typehints.KV", "penstock.io.iobase.RangeTracker", "io_hints()"]

    assert [f"{name} {missing}" for name in expected] == run(core, "-c", program).splitlines()


def test_suites_of_the_core_pass_without_the_package(core: pathlib.Path) -> None:
    suites = [f"tests/{name}" for name in SUITES]
    shown = without_beam.run_tests(core, ["-m", "not spark", *suites], stdout=subprocess.PIPE).stdout

    assert " passed" in shown
    assert " failed" not in shown, shown
    assert " error" not in shown, shown


def test_import_penstock_installs_no_finder_and_imports_no_extension() -> None:
    """Nor does a pipeline import any."""
    check = "import sys\nbefore = list(sys.meta_path)\n"
    after = "\nprint(before == sys.meta_path, [name for name in sys.modules if name.startswith('penstock.beam')])"

    assert "('a', 3)\nTrue []\n" == run(PACKAGE, "-c", check + PROGRAM + after)


def test_few_imports_of_the_package_are_inside_functions() -> None:
    """Most are at the top of their module; one that is used by one feature only may be lazy."""
    lazy = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for name, path in modules().items()
        if name.partition(".")[0] != "examples"
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("penstock"))
    ]

    assert len(set(lazy)) < 150
