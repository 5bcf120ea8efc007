"""Pipeline: a graph of transforms under construction."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs

from . import applied, graph
from .applied.declared_types import check_inputs, check_strictness, with_declared_type
from .applied.retractions import with_retractions
from .claims import check_claims
from .errors import DuplicateLabelError, PipelineError, UserCodeError
from .names.extensions import added_attribute
from .options import CredentialsOptions, PipelineOptions, StandardOptions, TypeOptions
from .options.context import inside_a_run, options_of_new_pipeline, scoped_pipeline_options
from .process.impersonation import impersonate, impersonate_in_run, note_run
from .ptransform import PTransform, unnamed
from .pvalue import PBegin, PCollection, PValue
from .runner import DEFAULT_RUNNER, PipelineResult, Runner, create_runner
from .typehints.simplified import simplified
from .windowing_strategy import WindowingStrategy

if TYPE_CHECKING:
    from ..windowing.timestamped_value import TimestampedValue
    from .drawing.drawing import MimeBundle
    from .static_types import Applicable, Elementwise, Unannotated

    OutputT = TypeVar("OutputT")

# Depth of nested composites, each of three calls or more, from which on Python's stack may be exhausted by them.
NESTED_COMPOSITES = 50


class Pipeline:
    """A graph of transforms under construction.

    As a context manager it runs on exit, and waits until it has finished.

    Attributes:
      options: the given `PipelineOptions`; without these and `argv`, the options in scope (`scoped_pipeline_options`).
      runner: the runner of the pipeline.
      type_options: its view of options about types, which each transform needs.

    Raises `OptionsError` for an unknown flag.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2]) | beam.Map(lambda x: x + 1) | beam.Map(print)
    2
    3
    """

    def __init__(
        self,
        runner: Runner | str | type[Runner] | None = None,
        options: PipelineOptions | None = None,
        argv: Sequence[str] | None = None,
        display_data: dict[str, Any] | None = None,
    ) -> None:
        if options is not None and not isinstance(options, PipelineOptions):
            raise TypeError(f"Pipeline: options must be PipelineOptions, got {options!r}")
        if options is None and argv is None:
            # `penstock run` puts the flags of its command line in scope.
            options = options_of_new_pipeline()
        if options is None:
            options = PipelineOptions(list(argv or []))
        options.check_known()
        self.options = options
        impersonate(self._account)
        if runner is None:
            runner = options.view_as(StandardOptions).runner or DEFAULT_RUNNER
        self.runner = create_runner(runner).for_options(options)
        self.display_data = dict(display_data or {})
        # A `PipelineResult`, once it runs.
        self.result: Any = None
        # Views, since the program may change options while it builds the pipeline.
        self.type_options = options.view_as(TypeOptions)
        self._standard_options = options.view_as(StandardOptions)
        # Labels in the order of application.
        self._labels: dict[str, None] = {}
        self._scope: list[str] = []
        # The scope in which Python's stack was exhausted, until the outermost transform raises the error.
        self._too_deep: list[str] = []
        # The delivery, by `with_delivery`, of the transforms that are being expanded.
        self._delivery: str | None = None
        # The innermost transform that is being expanded, or the pipeline itself.
        self._applying = applied.AppliedPTransform(None, None, "")
        self._transforms: list[graph.Transform] = []
        # By PCollection, the index in `_transforms` of its producer.
        self._producers: dict[int, int] = {}
        self._pcollections: dict[int, PCollection[Any]] = {}
        self._checks: list[Callable[[], None]] = []

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Methods of extensions.
            return added_attribute(self, name)

    # Construction

    @overload
    def __or__(
        self, transform: Elementwise[PBegin, PCollection[TimestampedValue[OutputT]]]
    ) -> PCollection[OutputT]: ...
    @overload
    def __or__(self, transform: Unannotated[PBegin, OutputT]) -> OutputT: ...
    @overload
    def __or__(self, transform: Applicable[PBegin, OutputT]) -> OutputT: ...
    @overload
    def __or__(self, transform: Applicable[Pipeline, OutputT]) -> OutputT: ...
    def __or__(self, transform: Any) -> Any:
        return self.apply(transform, PBegin(self))

    def apply(self, transform: Any, pvalue: Any = None, label: str | None = None) -> Any:
        """Apply a transform to a PCollection, to several, or to the pipeline itself.

        In a notebook, where cells are run again, and with `--auto_unique_labels`, a label in use gets a number:
        "Map(len) (2)".

        Raises `DuplicateLabelError` and `TypeHintError`.
        """
        if inspect.isclass(transform):
            raise TypeError(f"got the class {transform.__name__}; did you forget to call it: {transform.__name__}()?")
        if not isinstance(transform, PTransform):
            raise TypeError(f"expected a PTransform, got {transform!r}; did you forget to wrap it in Map or ParDo?")
        pvalue = PBegin(self) if pvalue is None or pvalue is self else pvalue
        transform, own_label = unnamed(transform)
        with self._scoped(label or own_label) as full_label:
            check_inputs(self, transform, pvalue, full_label)
            around, self._delivery = self._delivery, transform.delivery or self._delivery
            parent, inputs = self._applying, tuple(applied.values_in(pvalue).values())
            node = applied.AppliedPTransform(parent, transform, full_label, inputs)
            self._applying, primitives = node, len(self._transforms)
            try:
                with scoped_pipeline_options(self.options):
                    result = transform.expand(pvalue)
            except RecursionError:
                self._refuse_deep_nesting(full_label)
                raise
            finally:
                self._delivery, self._applying = around, parent
            node.outputs = applied.values_in(result)
            node.is_primitive = not node.parts and len(self._transforms) > primitives
            parent.parts.append(node)
            check_strictness(self.type_options, transform, full_label, around=parent.transform)
            return with_declared_type(self.type_options, transform, result, full_label)

    def add(
        self,
        primitive: graph.Primitive,
        inputs: Sequence[PCollection[Any]],
        windowing: WindowingStrategy,
        element_type: Any = Any,
        tags: Sequence[str | None] = (None,),
        is_bounded: bool | None = None,
    ) -> dict[str | None, PCollection[Any]]:
        """Add one primitive under the label of the transform that is being expanded, and return its outputs by tag.

        For primitive transforms of the library, of which users compose their own.
        """
        label = self.full_label
        side_inputs = primitive.side_inputs if isinstance(primitive, graph.ParDo) else ()
        if any(pcoll.id < 0 for pcoll in inputs) or any(side.pcollection < 0 for side in side_inputs):
            raise PipelineError(
                f"{label}: its input is a PCollection that the program has made and no transform produces; return the "
                "output of a transform, such as Create, in its place"
            )
        check_claims(label, primitive, self._transforms)
        if is_bounded is None:
            is_bounded = all(pcoll.is_bounded for pcoll in inputs)
        primitive, retracted_by, retractable_for = with_retractions(primitive, inputs, is_bounded, label)
        outputs: dict[str | None, PCollection[Any]] = {}
        for tag in tags:
            pcoll: PCollection[Any] = PCollection(
                self,
                tag,
                element_type,
                windowing,
                is_bounded,
                id=self._next_id(),
                producer=label,
                retracted_by=retracted_by,
                retractable_for=retractable_for,
            )
            pcoll.producer = self._applying
            self._pcollections[pcoll.id] = pcoll
            outputs[tag] = pcoll
            self._producers[pcoll.id] = len(self._transforms)
        ids = {tag: pcoll.id for tag, pcoll in outputs.items()}
        inputs_ids = tuple(pcoll.id for pcoll in inputs)
        self._transforms.append(graph.Transform(label, primitive, inputs_ids, ids, self._delivery))
        return outputs

    def add_output(self, main: PCollection[Any], tag: str | None) -> PCollection[Any]:
        """Add a tagged output to the transform whose main output is `main`."""
        index = self._producers[main.id]
        transform = self._transforms[index]
        pcoll: PCollection[Any] = PCollection(
            self,
            tag,
            Any,
            main.windowing,
            main.is_bounded,
            id=self._next_id(),
            producer=main.producer_label,
            retracted_by=main.retracted_by,
            retractable_for=main.retractable_for,
        )
        pcoll.producer = main.producer
        self._pcollections[pcoll.id] = pcoll
        self._producers[pcoll.id] = index
        self._transforms[index] = attrs.evolve(transform, outputs={**transform.outputs, tag: pcoll.id})
        return pcoll

    def producer(self, pcoll: PCollection[Any]) -> graph.Transform:
        """Return the primitive that produces a PCollection."""
        return self._transforms[self._producers[pcoll.id]]

    def pcollection(self, id: int) -> PCollection[Any]:
        """Return the PCollection with this number."""
        return self._pcollections[id]

    def add_check(self, check: Callable[[], None]) -> None:
        """Call `check` before the pipeline is run; it raises if the pipeline isn't complete."""
        if check not in self._checks:
            self._checks.append(check)

    def in_place_of_this(self, build: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that replaces what the present transform is composed of by what `build` applies."""
        scope, node, delivery = self._scope[:], self._applying, self._delivery

        def rebuilt() -> Any:
            self._remove_below("/".join(scope))
            node.parts.clear()
            around = self._scope, self._applying, self._delivery
            self._scope, self._applying, self._delivery = scope[:], node, delivery
            try:
                with scoped_pipeline_options(self.options):
                    return build()
            finally:
                self._scope, self._applying, self._delivery = around

        return rebuilt

    def replace(self, node: applied.AppliedPTransform, replacement: PTransform, inputs: tuple[PValue, ...]) -> None:
        """Replace a transform that was applied, and what it is composed of.

        Args:
          replacement: the transform in its place, with outputs of the same tags.
          inputs: the inputs of the replacement.

        Raises `PipelineError` if the replacement lacks an output that another transform consumes.
        """
        # Its outputs keep their numbers, by which others consume them.
        label = node.full_label
        index = next(i for i, t in enumerate(self._transforms) if f"{t.label}/".startswith(f"{label}/"))
        old = {tag: i for t in self._transforms if t.label == label for tag, i in t.outputs.items()}
        old |= {tag: pcoll.id for tag, pcoll in node.outputs.items() if isinstance(pcoll, PCollection)}
        self._remove_below(label, kept=set(old.values()))
        behind, self._transforms = self._transforms[index:], self._transforms[:index]
        node.transform, node.inputs, node.parts = replacement, inputs, []
        around = self._scope, self._applying
        self._scope, self._applying = [label], node
        try:
            with scoped_pipeline_options(self.options):
                result = replacement.expand(inputs[0] if len(inputs) == 1 else inputs or PBegin(self))
        finally:
            self._scope, self._applying = around
        new = applied.values_in(with_declared_type(self.type_options, replacement, result, label))
        node.outputs, node.is_primitive = new, not node.parts
        pairs = [(old[tag], new[tag]) for tag in old if tag in new]
        if len(old) == len(new) == 1:
            pairs = list(zip(old.values(), new.values()))
        if any(isinstance(pcoll, PCollection) and self._producers[pcoll.id] < index for _, pcoll in pairs):
            raise PipelineError(f"{label}: its replacement returns an input; let it apply a transform to that")
        renamed = {pcoll.id: self._takes_over(i, pcoll) for i, pcoll in pairs if isinstance(pcoll, PCollection)}
        added = [t.with_ids(renamed) for t in self._transforms[index:]]
        self._transforms = [*self._transforms[:index], *added, *behind]
        self._producers = {i: index for index, t in enumerate(self._transforms) for i in t.outputs.values()}
        lost = [t.label for t in self._transforms for i in t.inputs if i not in self._producers]
        for unused in old.values() - self._producers.keys():
            del self._pcollections[unused]
        if lost:
            raise PipelineError(f"{label}: its replacement lacks an output that {', '.join(lost)} consumes")

    def _takes_over(self, old: int, new: PCollection[Any]) -> int:
        """Give the output `new` of a replacement the number `old`, and describe the PCollection with it by `new`."""
        pcoll = self._pcollections[old]
        if simplified(new.hint) is Any:
            new.hint = pcoll.hint
        kept = ("producer_label", "producer", "windowing", "hint", "is_bounded", "retracted_by", "retractable_for")
        for name in kept:
            setattr(pcoll, name, getattr(new, name))
        del self._pcollections[new.id]
        new.id, self._pcollections[old] = old, new
        return old

    def _remove_below(self, label: str, kept: Container[int] = ()) -> None:
        """Remove the parts of a composite, on which no other transform depends, or only on the PCollections `kept`."""
        removed = [t for t in self._transforms if t.label.startswith(f"{label}/") or (kept and t.label == label)]
        for transform in removed:
            for pcollection in transform.outputs.values():
                if pcollection not in kept:
                    del self._pcollections[pcollection]
        self._transforms = [t for t in self._transforms if t not in removed]
        self._producers = {i: index for index, t in enumerate(self._transforms) for i in t.outputs.values()}
        self._labels = {one: None for one in self._labels if not one.startswith(f"{label}/")}

    def _next_id(self) -> int:
        return next(reversed(self._pcollections), -1) + 1

    @property
    def applied_labels(self) -> set[str]:
        """The full labels of the transforms that were applied."""
        return set(self._labels)

    @property
    def full_label(self) -> str:
        """The full label of the transform that is being expanded."""
        return "/".join(self._scope)

    def _refuse_deep_nesting(self, label: str) -> None:
        """Raise `PipelineError` for the outermost transform if its nested composites have exhausted Python's stack.

        With few composites, the recursion is within an `expand`, and the traceback shows it.
        """
        self._too_deep = self._too_deep or self._scope[:]
        if len(self._scope) > 1:
            return
        (*outer, innermost), self._too_deep = self._too_deep, []
        if len(outer) < NESTED_COMPOSITES:
            return
        raise PipelineError(
            f"{label}: it has {len(outer)} composites nested in each other, down to {innermost!r}, and Python's stack "
            f"holds no more (sys.getrecursionlimit() is {sys.getrecursionlimit()}). An expand that applies its own "
            "transform has to end; apply transforms that follow each other in a loop, or, if they have to be nested so "
            "deeply, raise the limit by sys.setrecursionlimit"
        ) from None

    @contextmanager
    def _scoped(self, label: str) -> Iterator[str]:
        full_label = "/".join([*self._scope, label])
        if full_label in self._labels and (self._standard_options.auto_unique_labels or in_notebook()):
            # A cell that runs again applies its transforms again.
            around = full_label[: len(full_label) - len(label)]
            label = next(f"{label} ({i})" for i in count(2) if f"{around}{label} ({i})" not in self._labels)
            full_label = around + label
        if full_label in self._labels:
            raise DuplicateLabelError(
                f'A transform with label "{full_label}" already exists in the pipeline. '
                'Give this one a label of its own: "some label" >> ...'
            )
        depth = len(self._scope)
        before = len(self._labels), len(self._transforms), len(self._pcollections), len(self._checks)
        self._labels[full_label] = None
        self._scope.append(label)
        try:
            yield full_label
        except BaseException:
            self._take_back(*before)
            raise
        finally:
            # After a RecursionError inner scopes may not have been left.
            del self._scope[depth:]

    def _take_back(self, labels: int, transforms: int, pcollections: int, checks: int) -> None:
        """Remove everything that a failed application of a transform has added.

        The transform may be applied again, as in a corrected cell of a notebook.
        """
        for kept, of in ((labels, self._labels), (pcollections, self._pcollections)):
            while len(of) > kept:
                of.popitem()
        for pcollection in [i for i, index in self._producers.items() if index >= transforms]:
            del self._producers[pcollection]
        del self._transforms[transforms:]
        del self._checks[checks:]

    # Execution

    def outline(self, with_settings: bool = False) -> graph.Graph:
        """Return the graph without pickling the user's functions, for inspection.

        Args:
          with_settings: adds the display data of the user's transforms, for a drawing.
        """
        nodes = {
            p.id: graph.PCollectionNode(p.id, p.producer_label, p.tag, p.windowing, p.hint, p.is_bounded)
            for p in self._pcollections.values()
        }
        settings = applied.settings_in(self._applying) if with_settings else {}
        return graph.Graph(tuple(self._transforms), nodes, settings)

    def graph(self) -> graph.Graph:
        """Return the graph as frozen data for a run, the user's functions included.

        Raises `SerializationError` for a function that can't be pickled any more.
        """
        outline = self.outline()
        transforms = tuple(attrs.evolve(t, primitive=graph.for_run(t.primitive)) for t in outline.transforms)
        return graph.Graph(transforms, outline.pcollections)

    @property
    def _options(self) -> PipelineOptions:
        """The options by the name that tests of programs for Beam set them by, before a transform is applied."""
        return self.options

    def run(self) -> PipelineResult:
        """Start the pipeline, and return its result, which tells the state and can be waited for.

        Raises `PipelineError` if the pipeline is incomplete: an error handler that was not closed would lose its dead
        letters.
        """
        # The program may have set it while it built the pipeline.
        impersonate_in_run(self._account)
        for check in self._checks:
            check()
        from .options.value_provider import RuntimeValueProvider

        RuntimeValueProvider.set_runtime_options(self.options.given())
        try:
            with scoped_pipeline_options(self.options), inside_a_run():
                self.result = self.runner.run_pipeline(self.graph(), self.options)
        except UserCodeError as error:
            # The cause has the frames of the user's code, which the runner's frames would hide.
            raise error.with_traceback(None) from error.__cause__
        note_run(self.result, self._account)
        return self.result  # type: ignore[no-any-return]

    @property
    def _account(self) -> str | None:
        account: str | None = self.options.view_as(CredentialsOptions).impersonate_service_account
        return account

    def __reduce__(self) -> Any:
        # A user's function may mention the pipeline, or an object that has one.
        return str, ("a pipeline, which workers don't have",)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.result = self.run()
            if not self.options.view_as(StandardOptions).no_wait_until_finish:
                self.result.wait_until_finish()

    def visit(self, visitor: applied.PipelineVisitor) -> None:
        """Call the visitor's methods with the pipeline, its transforms and their outputs, inputs first."""
        applied.visit(self._applying, visitor)

    # Notebooks

    def show(self, *pcolls: PCollection[Any], n: int = 20) -> None:
        """Display the first elements of PCollections, by running what they depend on.

        In a notebook each is a table, otherwise text.  Retracted elements are left out.

        Args:
          pcolls: PCollections of this pipeline: bounded, or of a `TestStream`.
          n: the number of elements to display of each.

        Raises `UnsupportedError` as `penstock.collect` does.

        >>> import penstock as beam
        >>> p = beam.Pipeline()
        >>> p.show(p | beam.Create(["to", "be"]))
        PCollection[Create/Values]: 2 elements
        'to'
        'be'
        """
        for pcoll in pcolls:
            if not isinstance(pcoll, PCollection) or pcoll.pipeline is not self:
                raise PipelineError(f"show: expected PCollections of this pipeline, got {pcoll!r}")
            pcoll.show(n)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> MimeBundle:
        from .drawing.drawing import mime_bundle

        return mime_bundle(self.outline(with_settings=True))

    def _repr_html_(self) -> str:
        from .drawing.drawing import to_html

        return to_html(self.outline(with_settings=True))


def in_notebook() -> bool:
    """Return whether the program runs in a notebook, where IPython's shell has a kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
