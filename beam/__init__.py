"""Beam: its names, its own classes and formats, and the import hook by which its programs run on penstock.

`import penstock.beam` makes all of Beam's modules importable below `penstock`, and adds Beam's methods to the classes
of the core.  The core doesn't import this package: it is an extension (`sdk/names/extensions.py`), which registers
what it has.

modules.py             Beam's module paths, and the modules with their names
names.py               all names of Beam, from names.txt
absent.py              names of Beam that penstock doesn't have: importable, and an error when used
import_hook.py         Beam's modules below `penstock`, and `apache_beam` as penstock
as_apache_beam.py      installs the hook for `apache_beam`, in worker processes
registrations.py       what the core is given: constraints, schemas, names and methods
sdk/                   display data, resource hints, metrics' cells, coders' streams, matchers and others
typehints/             constraints, such as `KV[str, int]`, and schemas
io/                    sources that are read by ranges, sinks with writers, file systems, TFRecord files
runners/               runners that a program names, and elements in a notebook
dataframe_schemas.py   rows as frames of pandas, and the reverse
options.py             options that have no effect
options_validation.py  errors of options
portable_options.py    options by their URNs
overrides.py           replacements of transforms
applied_transforms.py  annotations and resource hints of transforms
template_metadata.py   metadata files of flex templates
check.py               what of Beam a program uses that penstock doesn't have
pytest_plugin.py       plugin for pytest that runs the tests of a program for Beam: `python -m pytest -p penstock.beam`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import registrations as registrations
from .import_hook import find_beams_modules_here
from .import_hook import install_import_hook as install_import_hook

if TYPE_CHECKING:
    from .pytest_plugin import pytest_load_initial_conftests as pytest_load_initial_conftests
    from .pytest_plugin import pytest_report_header as pytest_report_header

find_beams_modules_here()

# Of the plugin, whose module imports pytest.
_HOOKS = ("pytest_load_initial_conftests", "pytest_report_header")


def __getattr__(name: str) -> Any:
    if name not in _HOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # pytest takes those hooks only that a module has by now.
    hook = globals()[name] = getattr(import_module(f"{__name__}.pytest_plugin"), name)
    return hook


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOOKS})
