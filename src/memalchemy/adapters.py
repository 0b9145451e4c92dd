"""Declarations of adapters: what an adapter keeps, for those who copy, remove and show it.

An adapter stores the threads and items of a framework in a form of its own. Whatever forks,
deletes, exports, prunes or shows them goes by the adapter's `AdapterDeclaration`, and knows no
framework. A declaration needs none, either: the command line deletes and shows threads of
frameworks that are not installed.

An adapter of a third party is declared by an entry point of its package in the group
``memalchemy.adapters``, called as the first part of its namespaces:

    [project.entry-points."memalchemy.adapters"]
    toy = "toy_memalchemy.declaration:DECLARATION"

or, by an application, with `register_adapter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import EllipsisType
from typing import Any

from memalchemy._entry_points import entry_points, load_entry_point
from memalchemy._wiring import wired
from memalchemy.errors import MemalchemyError
from memalchemy.keys import encode_namespace

GROUP = "memalchemy.adapters"
"""The group of entry points; each is called as the adapter's `AdapterDeclaration.root`."""

Namespace = tuple[str, ...]
NamespacePattern = tuple[str | EllipsisType, ...]
"""A namespace in which ``...`` stands for any number of parts: ``("toy", ..., "index")``."""

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value in a state."""

ObjectForms = Mapping[str, Callable[[Mapping[str, Any]], Any]]
"""See `View.objects`."""

MOST_PATTERNS = 64
"""The most patterns of LIKE that the internal namespaces of all adapters may come to."""


@dataclass(frozen=True, slots=True)
class ThreadParts:
    """Declaration of the logs that a framework's thread consists of.

    Args:
        is_part: returns whether the thread of the log in the first namespace also has the log in
            the second.
        origin: returns the checkpoint of the log in a given namespace in whose step a checkpoint of
            another part was made, from the metadata of that; ``None`` if it does not say. The ids
            of the framework's checkpoints are in the order of time then, and the main log is in the
            topmost namespace of the framework. Without *origin*, a part belongs to the newest
            checkpoint of the given log.
        is_of_one_step: returns whether the log in a namespace is used in one step alone.
    """

    is_part: Callable[[Namespace, Namespace], bool]
    origin: Callable[[Namespace, Mapping[str, Any]], str | None] | None = None
    is_of_one_step: Callable[[Namespace], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Declaration of the form in which a framework's states are stored, for those who show them.

    Args:
        bookkeeping: beginnings of the keys under which a state holds what is the framework's own.
        silent_channels: beginnings of the channels whose pending writes say nothing to people.
        objects: keys that mark a mapping as a stored object, each with a function that returns the
            object's content, or the mapping itself if it is no object. The marks of all adapters
            are looked for in all states.
        messages: returns the messages of a state and the path to them, if they are not simply in a
            list; ``None`` of other states.
        interrupts: returns what a state waits for, each with its id or ``None``; ``None`` of a
            state that is not of the framework's form.
        nodes: returns the names of the graph's nodes that ran in a step, from what *bookkeeping*
            begins in its state and in its parent's, without the forms of stored objects.
        inputs: keys under which a state holds what a run was given, for the states that follow to
            hold it in the framework's own form.
        channels_of_writes: returns the keys whose values are not in a state but in the pending
            writes of the steps before it, from the metadata of its checkpoint.
    """

    bookkeeping: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    silent_channels: tuple[str, ...] = ()
    objects: ObjectForms = field(default_factory=dict)
    messages: Callable[[Mapping[str, Any]], tuple[Path, list[Any]] | None] = lambda _: None
    interrupts: Callable[[Mapping[str, Any]], list[tuple[Any, Any]] | None] = lambda _: None
    nodes: Callable[[Mapping[str, Any], Mapping[str, Any]], Sequence[str]] = lambda _, __: ()
    channels_of_writes: Callable[[Mapping[str, Any]], Iterable[str]] = lambda _: ()
    usage: Callable[[Namespace, str], Namespace | None] = lambda _namespace, _thread: None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterDeclaration:
    """Declaration of what one adapter keeps in a database.

    What a checkpoint rests on is not declared here but stored with it: see
    ``Checkpointer.save(…, rests_on_parent=True)``.

    Args:
        root: the first part of all its namespaces.
        title: the framework's name as people write it; by default *root*.
        internal: namespaces of items that are indexes or notes of the adapter's own. They are not
            shown, and not counted among the items, unless somebody asks for them.
        parts: the logs that make up a thread; without it each log is a thread.
        view: how its states are shown.
        agent_marks: attributes of the classes that the framework's runner drives as agents.
    """

    root: str
    title: str = ""
    internal: tuple[NamespacePattern, ...] = ()
    parts: ThreadParts | None = None
    view: View = View()
    agent_marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        encode_namespace((self.root,))
        if not self.root:
            raise ValueError("root is the first part of the adapter's namespaces, and not empty")
        if not self.title:
            object.__setattr__(self, "title", self.root)
        for pattern in self.internal:
            _check_pattern(pattern)


def _check_pattern(pattern: NamespacePattern) -> None:
    if not isinstance(pattern, tuple):
        raise TypeError(f"a pattern of namespaces is a tuple, not {type(pattern).__name__}")
    for part in pattern:
        if part is not ... and not isinstance(part, str):
            raise TypeError(f"a part of a pattern is a str or ..., not {type(part).__name__}")
    if not any(isinstance(part, str) for part in pattern):
        raise ValueError("a pattern of internal namespaces names one part at least")
    encode_namespace(part for part in pattern if isinstance(part, str))


def like_patterns(namespace: NamespacePattern) -> list[str]:
    r"""Return patterns of LIKE, with the escape ``\``, for the encoded namespaces of a pattern."""
    rest = namespace[1:] if namespace[:1] == (...,) else namespace
    choices = [["/" if rest is namespace else "%/"]]
    for at, part in enumerate(rest, 1):
        if isinstance(part, str):
            choices.append([_escape_for_like(part)])
        else:
            choices.append(["%"] if at == len(rest) else ["", "%/"])
    return ["".join(chosen) for chosen in product(*choices)]


def _escape_for_like(part: str) -> str:
    encoded = encode_namespace((part,))[1:]
    for sign in ("\\", "%", "_"):
        encoded = encoded.replace(sign, "\\" + sign)
    return encoded


class Adapters:
    """The declarations by root: memalchemy's own, those of installed packages, and others."""

    def __init__(self) -> None:
        self._registered: dict[str, AdapterDeclaration] = {}
        self._objects: tuple[object, ObjectForms] | None = None

    def get(self, root: str) -> AdapterDeclaration | None:
        """Return the declaration of the adapter whose namespaces begin with *root*.

        Raises:
            MemalchemyError: the package that has it cannot be used; the message names it.
        """
        found = self._registered.get(root) or _built_in_declarations().get(root)
        if found is None and root in entry_points(GROUP):
            found = load_entry_point(GROUP, root, "adapter", _problem_of_declaration)
            self.add(found)
        return found

    def of(self, namespace: Sequence[str]) -> AdapterDeclaration | None:
        """Return the declaration of the adapter to which a namespace belongs."""
        return self.get(namespace[0]) if namespace else None

    def all(self) -> list[AdapterDeclaration]:
        """Return all declarations, memalchemy's own first."""
        roots = dict.fromkeys([*_built_in_declarations(), *self._registered, *entry_points(GROUP)])
        return [found for root in roots if (found := self.get(root)) is not None]

    def add(self, declaration: AdapterDeclaration) -> None:
        """Add a declaration, in place of any other of its root."""
        self._registered[declaration.root] = declaration
        self._objects = None

    def remove(self, root: str) -> None:
        """Remove the registered declaration of that root."""
        del self._registered[root]
        self._objects = None

    def objects(self) -> ObjectForms:
        """Return the `View.objects` of all declarations."""
        installed = entry_points(GROUP)
        known = self._objects  # looked at once: another thread may register an adapter meanwhile
        if known is None or known[0] is not installed:
            forms = {mark: read for one in self.all() for mark, read in one.view.objects.items()}
            self._objects = known = installed, forms
        return known[1]


ADAPTERS = Adapters()


def register_adapter(declaration: AdapterDeclaration, *, replace: bool = False) -> None:
    """Declare an adapter, for tests and for applications without a package.

    Raises:
        ValueError: another one has the same root, and *replace* is not set.
    """
    if problem := _problem_of_declaration(declaration, getattr(declaration, "root", "")):
        raise TypeError(f"{declaration!r} {problem}")
    known = ADAPTERS.get(declaration.root)
    if not replace and known is not None and known != declaration:
        raise ValueError(f"there is an adapter {declaration.root!r} already")
    ADAPTERS.add(declaration)


def views_of(namespace: Sequence[str]) -> list[View]:
    """Return the views that may show the states in a namespace.

    In a namespace of an adapter it is the adapter's view. In any other, states may be of any
    framework: somebody may have saved them by hand.
    """
    declared = ADAPTERS.of(namespace)
    return [declared.view] if declared is not None else [one.view for one in ADAPTERS.all()]


def internal_patterns() -> list[str]:
    r"""Return patterns of LIKE, with the escape ``\``, for adapters' internal namespaces.

    Raises:
        MemalchemyError: there are more than `MOST_PATTERNS`, or a package cannot be used.
    """
    declared = [pattern for one in ADAPTERS.all() for pattern in one.internal]
    found = [like for pattern in declared for like in like_patterns(pattern)]
    if len(found) > MOST_PATTERNS:
        raise MemalchemyError(
            f"the adapters declare internal namespaces with {len(found)} patterns, of which there "
            f"may be {MOST_PATTERNS}: put them below one namespace of each adapter"
        )
    return found


def _built_in_declarations() -> Mapping[str, AdapterDeclaration]:
    found: Mapping[str, AdapterDeclaration] = wired("adapters")
    return found


def _problem_of_declaration(declaration: Any, root: str) -> str | None:
    """Return why *declaration* cannot be that of the adapter of *root*; ``None`` if it can."""
    if not isinstance(declaration, AdapterDeclaration):
        return "is no memalchemy.adapters.AdapterDeclaration"
    return None if declaration.root == root else f"declares the root {declaration.root!r}"
