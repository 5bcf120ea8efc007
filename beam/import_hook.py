"""Import hook: Beam's modules below `penstock`, and `apache_beam` as penstock under Beam's names.

`import penstock.beam` installs the finder for `from penstock.io.gcp.bigquery import BigQueryDisposition`: Beam's
modules can be imported below `penstock`, unless a module of penstock has that name.  `install_import_hook` installs the
one for `import apache_beam`, which `penstock run --beam` and the plugin of pytest do.

`apache_beam.examples` is loaded from Beam's own distribution, if it is installed, and runs on penstock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ..sdk.names import foreign_programs
from ..sdk.names.extensions import import_in_workers
from ..sdk.names.namespaces import AT_ROOT, MODULES, Namespace, namespace
from ..sdk.options import pipeline_options
from .names import has_module

_PACKAGE = __name__.rsplit(".", 2)[0]


# A finder and loader without their base classes, whose import takes as long as fifty small modules.
class _Finder:
    """Finder of the table's modules below a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        root, _, rest = fullname.partition(".")
        if root != self.package or not (rest in MODULES or (rest in AT_ROOT and root == _PACKAGE) or has_module(rest)):
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        path = spec.name.partition(".")[2]
        return namespace(f"transforms.{path}" if path in AT_ROOT else path)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up on access."""


class _BeamFinder(_Finder):
    """Finder for `apache_beam`, which refuses modules that Beam doesn't have."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        found = _installed_example(fullname, path) or super().find_spec(fullname, path, target)
        if found is None and fullname.partition(".")[0] == self.package:
            # With `name=`, `from apache_beam.io import Nothing` would show another error, without penstock's name.
            raise ModuleNotFoundError(f"there is no {fullname}, neither in penstock nor among the names of Beam")
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Namespace(spec.name.partition(".")[2], spec.name)


def _installed_example(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the spec of a module of Beam's examples, whose imports of `apache_beam` import penstock.

    None if Beam isn't installed.  Beam itself isn't imported.  Raises `ModuleNotFoundError` for an example that the
    installed Beam doesn't have.
    """
    _, _, rest = fullname.partition(".")
    if rest.partition(".")[0] != "examples":
        return None
    if rest == "examples":
        path = folders_of_installed_beam()
    if not path:
        return None
    found = PathFinder.find_spec(fullname, path)
    if found is None and rest != "examples":
        raise ModuleNotFoundError(f"there is no {fullname} in the installed Beam", name=fullname)
    return found


def folders_of_installed_beam() -> list[str]:
    """Return where Beam's own distribution is, without importing it; nothing if it isn't installed."""
    beam = PathFinder.find_spec("apache_beam")
    return [] if beam is None else list(beam.submodule_search_locations or ())


def find_beams_modules_here() -> None:
    """Install the hook for `import penstock.utils.timestamp`.  Penstock's own modules take precedence."""
    if not any(isinstance(finder, _Finder) and finder.package == _PACKAGE for finder in sys.meta_path):
        sys.meta_path.append(_Finder(_PACKAGE))


def install_import_hook() -> None:
    """Install the hook by which `import apache_beam` imports penstock under Beam's names."""
    if not is_hook_installed():
        sys.meta_path.insert(0, _BeamFinder("apache_beam"))


def is_hook_installed() -> bool:
    """Return whether `import apache_beam` imports penstock."""
    return any(isinstance(finder, _BeamFinder) for finder in sys.meta_path)


# Programs for Beam have flags of Beam's runners, and their functions import Beam in workers.
pipeline_options.ignores_unknown_flags = is_hook_installed
import_in_workers(f"{__package__}.as_apache_beam", is_hook_installed)


def _is_example(module: ModuleType) -> bool:
    """Return True for an example of Beam's distribution."""
    return module.__name__.startswith("apache_beam.examples.") and type(module) is ModuleType and is_hook_installed()


foreign_programs.by_value.append(_is_example)
