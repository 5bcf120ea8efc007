"""`penstock check --beam`: what programs need of Beam that penstock doesn't have, without running them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeAlias

import attrs

from ..sdk.errors import RunnerError
from ..sdk.names.namespaces import namespace
from ..sdk.options.pipeline_options import PipelineOptions, flags_without_effect
from ..sdk.runner import create_runner
from .absent import AbsentMeta, described
from .import_hook import folders_of_installed_beam
from .io import managed

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@attrs.frozen(order=True)
class Missing:
    """Something that a program needs and penstock lacks, or that penstock accepts without effect.

    Attributes:
      line: the line of the program.
      reason: what is missing, and what to use instead.
      is_note: whether the program runs all the same.
    """

    line: int
    reason: str
    is_note: bool = False


def missing_of_beam(source: bytes | str) -> list[Missing]:
    """Return what a program needs and penstock lacks, and what has no effect, by lines.

    >>> missing_of_beam("import apache_beam as beam\\nbeam.io.jdbc.ReadFromJdbc()")
    [Missing(line=2, reason="apache_beam.io.jdbc.ReadFromJdbc: penstock doesn't have it; use beam.io.ReadFromSQL and \
beam.io.WriteToSQL", is_note=False)]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [Missing(error.lineno or 1, f"the file can't be parsed: {error.msg}")]
    names = _Imports()
    names.visit(tree)
    uses = _Uses(names.things)
    uses.visit(_without_annotations(tree) if _has_unread_annotations(tree) else tree)
    return sorted({*names.missing, *uses.missing})


def _has_unread_annotations(tree: ast.Module) -> bool:
    """Return True for a module whose annotations are texts: `from __future__ import annotations`."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )


def _without_annotations(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return tree


class _Imports(ast.NodeVisitor):
    """Names that a program binds to things of Beam by imports."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}
        self.missing: list[Missing] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root, _, path = alias.name.partition(".")
            if root != "apache_beam" or _is_installed_example(path):
                continue
            module = self._resolved(alias.name, path.split(".") if path else [], node.lineno)
            self.things[alias.asname or root] = module if alias.asname else namespace("")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        root, _, path = (node.module or "").partition(".")
        if root != "apache_beam" or node.level or _is_installed_example(path):
            return
        module = self._resolved(node.module or "", path.split(".") if path else [], node.lineno)
        for alias in node.names if isinstance(module, ModuleType) else ():
            if alias.name == "*":
                self.things.update((name, getattr(module, name)) for name in module.__all__)
            else:
                name = f"{node.module}.{alias.name}"
                self.things[alias.asname or alias.name] = self._resolved(name, [alias.name], node.lineno, module)

    def _resolved(self, name: str, path: list[str], line: int, thing: Any = None) -> Any:
        thing = namespace("") if thing is None else thing
        for part in path:
            try:
                thing = getattr(thing, part)
            except AttributeError as error:
                self.missing.append(Missing(line, str(error)))
                return None
        if isinstance(thing, AbsentMeta):
            self.missing.append(Missing(line, described(thing)))
        return thing


def _is_installed_example(path: str) -> bool:
    return path.partition(".")[0] == "examples" and bool(folders_of_installed_beam())


class _Uses(ast.NodeVisitor):
    """Uses of things of Beam: attributes, parameters, and names of runners."""

    def __init__(self, things: dict[str, Any]) -> None:
        self._things = things
        # Variables that have options.
        self._options: set[str] = set()
        self.missing: list[Missing] = []

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, _SCOPES):
            super().generic_visit(node)
            return
        # Parameters and variables of a function hide what is imported: `window=beam.DoFn.WindowParam`.
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for default in (*node.args.defaults, *node.args.kw_defaults, *getattr(node, "decorator_list", ())):
                if default is not None:
                    self.visit(default)
        around, hidden = self._things, {*_bound(node)}
        self._things = {name: thing for name, thing in around.items() if name not in hidden}
        super().generic_visit(node)
        self._things = around

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # An attribute that is set needn't be there.
        self._thing(node.value if isinstance(node.ctx, ast.Store) else node, reports=True)
        if not isinstance(node.value, (ast.Attribute, ast.Name)):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        thing = self._thing(node.func, reports=False)
        accepted = _parameters(thing)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "with_resource_hints":
            self._note(node, "with_resource_hints")
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg in _without_effect(thing):
                self._note(keyword.value, f"{ast.unparse(node.func)}({keyword.arg}=...)")
            if keyword.arg in _described_as(thing, _NOT_SUPPORTED) and not _is_none(keyword.value):
                self._report(keyword.value, f"{ast.unparse(node.func)}({keyword.arg}=...) isn't supported by penstock")
            if accepted is not None and keyword.arg is not None and keyword.arg not in accepted:
                self._report(keyword.value, f"{ast.unparse(node.func)} has no parameter {keyword.arg!r} in penstock")
            if keyword.arg == "runner" and (accepted is None or keyword.arg in accepted):
                self._check_runner(keyword.value)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "from_dictionary":
            self._check_dictionary(node)
        if thing in (managed.Read, managed.Write):
            self._check_system(node, thing)
        self.generic_visit(node)

    def _check_dictionary(self, node: ast.Call) -> None:
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            for key in given.keys if isinstance(given, ast.Dict) else ():
                name = key.value if isinstance(key, ast.Constant) else None
                if isinstance(name, str) and f"--{name}" in flags_without_effect():
                    self._note(given, f"{ast.unparse(node.func)}({{{name!r}: ...}})")

    def _check_system(self, node: ast.Call, thing: Any) -> None:
        """Report a system of managed transforms that penstock doesn't have."""
        given = next((each.value for each in node.keywords if each.arg in ("source", "sink")), *node.args[:1])
        system = given.value if isinstance(given, ast.Constant) else self._thing(given, reports=False)
        if isinstance(system, str) and not thing.has(system):
            self._report(node, f"{ast.unparse(node.func)}({system!r}): penstock has {', '.join(thing.systems())}")

    def visit_List(self, node: ast.List) -> None:
        texts = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
        for each, text, following in zip(node.elts, texts, [*node.elts[1:], None]):
            if text == "--runner" and following is not None:
                self._check_runner(following)
            elif isinstance(text, str) and text.startswith("--runner="):
                self._check_runner(each, text.partition("=")[2])
            elif isinstance(text, str) and text.partition("=")[0] in flags_without_effect():
                self._note(each, text.partition("=")[0])
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and self._are_options(node.value):
                self._options.add(target.id)
            if not isinstance(target, ast.Attribute) or f"--{target.attr}" not in flags_without_effect():
                continue
            if self._are_options(target.value) or getattr(target.value, "id", None) in self._options:
                self._note(target, ast.unparse(target))
        if any(isinstance(target, ast.Attribute) and target.attr == "runner" for target in node.targets):
            self._check_runner(node.value)
        self.generic_visit(node)

    def _are_options(self, node: ast.AST) -> bool:
        """Return True for a call that gives options: of a class of options, or of `view_as`."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view_as":
            return True
        thing = self._thing(node.func, reports=False)
        return isinstance(thing, type) and issubclass(thing, PipelineOptions)

    def _thing(self, node: ast.AST, reports: bool) -> Any:
        """Return what a name or a chain of attributes stands for; None if unknown."""
        if isinstance(node, ast.Name):
            return self._things.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        of = self._thing(node.value, reports)
        if not isinstance(of, (ModuleType, type)) or isinstance(of, AbsentMeta):
            return None
        try:
            thing = getattr(of, node.attr)
        except AttributeError as error:
            # A class of the program may be assigned attributes, a class of penstock has all of its own.
            if reports:
                self._report(node, f"{ast.unparse(node)}: {error}")
            return None
        if reports and isinstance(thing, AbsentMeta):
            self._report(node, described(thing))
        return thing

    def _check_runner(self, node: ast.AST, name: str | None = None) -> None:
        given = node.value if name is None and isinstance(node, ast.Constant) else name
        if isinstance(given, str):
            try:
                create_runner(given)
            except RunnerError as error:
                self._report(node, str(error))

    def _note(self, node: ast.AST, what: str) -> None:
        self.missing.append(Missing(getattr(node, "lineno", 1), f"{what} has no effect in penstock", is_note=True))

    def _report(self, node: ast.AST, reason: str) -> None:
        self.missing.append(Missing(getattr(node, "lineno", 1), reason))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names of a function's or a comprehension's parameters and variables."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        yield from (each.arg for each in every if each is not None)
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


# An entry of the arguments in a docstring: names, and what they mean.
_ENTRY = re.compile(r"^ {6}(\w+(?:,\s+\w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


_NO_EFFECT = re.compile(r"(?:Beam's[;,] )?(?:ha(?:s|ve) no|accepted, without|without) effect")
_NOT_SUPPORTED = re.compile(r"(?:Beam's[;,] )?not supported")


def _without_effect(thing: Any) -> frozenset[str]:
    """Return the parameters that have no effect, as the docstring says."""
    if isinstance(thing, type) and issubclass(thing, PipelineOptions) and _is_of_penstock(thing):
        return frozenset(name.removeprefix("--") for name in flags_without_effect())
    return _described_as(thing, _NO_EFFECT)


def _described_as(thing: Any, text: re.Pattern[str]) -> frozenset[str]:
    """Return the parameters whose description in the docstring begins with a text."""
    if not _is_of_penstock(thing):
        return frozenset()
    found: set[str] = set()
    for each in thing.__mro__ if isinstance(thing, type) else (thing,):
        for names, entry in _ENTRY.findall(each.__doc__ or ""):
            if text.match(entry):
                found.update(re.split(r",\s+", names))
    return frozenset(found)


def _is_of_penstock(thing: Any) -> bool:
    if isinstance(thing, AbsentMeta) or not (isinstance(thing, type) or inspect.isfunction(thing)):
        return False
    return thing.__module__.startswith(__name__.partition(".")[0])


def _parameters(thing: Any) -> set[str] | None:
    """Return the names that can be given in a call; None if unknown or any."""
    if thing is None or isinstance(thing, (AbsentMeta, ModuleType)):
        return None
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return None if any(each.kind is each.VAR_KEYWORD for each in parameters) else {each.name for each in parameters}
