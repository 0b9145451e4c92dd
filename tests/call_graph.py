"""Which functions of the package use which, read from its source: for tests of what must happen.

A use is a name that leads to a function, a method or a constant, called or passed on. Of a method
the class is looked up where the source says it: in a class itself, in an annotation, or where an
attribute is set to a new object. A method of any other object is the one of this name, if there is
but one. So a use may be missing here; one that is here is in the source.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import memalchemy
from source_trees import parsed

ROOT = Path(memalchemy.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unit(NamedTuple):
    """A function, a method, a class without its methods, or a name of a module that is assigned."""

    module: str
    owner: str | None
    """The full name of the class of a method."""
    node: ast.AST
    parts: tuple[ast.AST, ...]
    """The nodes whose uses are its own."""

    @property
    def returns_a_statement(self) -> bool:
        """Whether it builds a statement or chooses one, rather than sends it."""
        returns = getattr(self.node, "returns", None)
        return returns is not None and "Executable" in ast.unparse(returns)

    @property
    def decorators(self) -> set[str]:
        """The names of the functions that decorate it."""
        given = getattr(self.node, "decorator_list", ())
        called = (one.func if isinstance(one, ast.Call) else one for one in given)
        return {one.id for one in called if isinstance(one, ast.Name)}


class CallGraph:
    """Units of the package by their names without ``memalchemy.``, and which use which.

    Args:
        changes: changes of the text of modules, as if somebody had made them.
    """

    def __init__(self, changes: Mapping[str, Callable[[str], str]] | None = None) -> None:
        self.units: dict[str, Unit] = {}
        self._imports: dict[str, dict[str, str]] = {}
        self._methods: dict[str, set[str]] = defaultdict(set)
        self._attributes: dict[str, dict[str, ast.AST]] = defaultdict(dict)
        """Annotations and values of the attributes of classes, by the names of both."""
        trees: dict[str, ast.Module] = {}
        for path in sorted(ROOT.rglob("*.py")):
            module, text = _name_of(path), path.read_text()
            trees[module] = parsed((changes or {}).get(module, str)(text))
        for module, tree in trees.items():
            self._define(module, tree)
            self._imports[module] = dict(_imported(tree))
        self._modules = frozenset(trees)

    def _define(self, module: str, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, Function):
                self.units[f"{module}.{node.name}"] = Unit(module, None, node, (node,))
            elif isinstance(node, ast.ClassDef):
                self._define_class(module, node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.units[f"{module}.{target.id}"] = Unit(module, None, node, (node,))

    def _define_class(self, module: str, node: ast.ClassDef) -> None:
        owner = f"{module}.{node.name}"
        others: list[ast.AST] = [*node.bases]
        for part in node.body:
            if not isinstance(part, Function):
                others.append(part)
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    self._attributes[owner][part.target.id] = part.annotation
                continue
            self.units[f"{owner}.{part.name}"] = Unit(module, owner, part, (part,))
            self._methods[part.name].add(f"{owner}.{part.name}")
            if any(isinstance(one, ast.Name) and "property" in one.id
                   for one in part.decorator_list) and part.returns:  # fmt: skip
                self._attributes[owner][part.name] = part.returns
            for inner in _nodes(part):
                target = inner.targets[0] if isinstance(inner, ast.Assign) else None
                if isinstance(inner, ast.AnnAssign):
                    target = inner.target
                if isinstance(target, ast.Attribute) and _is_self(target.value):
                    value = inner.annotation if isinstance(inner, ast.AnnAssign) else inner.value
                    self._attributes[owner].setdefault(target.attr, value)
        self.units[owner] = Unit(module, None, node, tuple(others))

    # --- What a name is --------------------------------------------------------------------------

    def _found(self, name: str, depth: int = 0) -> str | None:
        """Return the unit or module that a full name means, through what packages import."""
        if name in self.units or name in self._modules:
            return name
        module, _, last = name.rpartition(".")
        further = self._imports.get(module, {}).get(last)
        return None if further is None or depth > 5 else self._found(further, depth + 1)

    def _named(self, module: str, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            own = f"{module}.{node.id}"
            if own in self.units:
                return own
            imported = self._imports[module].get(node.id)
            return None if imported is None else self._found(imported)
        if isinstance(node, ast.Attribute):
            before = self._named(module, node.value)
            return None if before is None else self._found(f"{before}.{node.attr}")
        return None

    def _class_of(self, unit: Unit, node: ast.AST | None, depth: int = 0) -> str | None:
        """Return the class of what an expression, or the annotation of something, says."""
        if node is None or depth > 6:
            return None
        if isinstance(node, ast.Constant):
            is_name = isinstance(node.value, str) and node.value.isidentifier()
            return self._class_of(unit, ast.Name(node.value), depth + 1) if is_name else None
        if isinstance(node, ast.BinOp):  # X | None
            return self._class_of(unit, node.left, depth + 1)
        if isinstance(node, ast.BoolOp):
            return self._class_of(unit, node.values[0], depth + 1)
        if isinstance(node, ast.Call):
            return self._class_of(unit, node.func, depth + 1)
        if isinstance(node, ast.Name):
            if _is_self(node):
                return unit.owner
            said = _names_within(unit.node).get(node.id)
            if said is not None:
                return self._class_of(unit, said, depth + 1)
            found = self._named(unit.module, node)
            is_class = found in self.units and isinstance(self.units[found].node, ast.ClassDef)
            return found if is_class else None
        if isinstance(node, ast.Attribute):
            owner = self._class_of(unit, node.value, depth + 1)
            if owner is None or node.attr not in self._attributes[owner]:
                return None
            there = Unit(self.units[owner].module, owner, _method_that_sets(self, owner, node.attr),
                         ())  # fmt: skip
            return self._class_of(there, self._attributes[owner][node.attr], depth + 1)
        return None

    # --- Uses ------------------------------------------------------------------------------------

    @cached_property
    def uses(self) -> dict[str, set[str]]:
        """The units that each unit uses."""
        found: dict[str, set[str]] = defaultdict(set)
        for name, unit in self.units.items():
            for replaced in self._replaced_on_variants(unit):
                found[replaced].add(name)
            found[name] |= set(self._used_by(unit)) - {name}
            if isinstance(unit.node, ast.ClassDef):
                found[name] |= {f"{name}.__init__"} & self.units.keys()
        return found

    @cached_property
    def users(self) -> dict[str, set[str]]:
        """The units by which each unit is used."""
        found: dict[str, set[str]] = defaultdict(set)
        for name, used in self.uses.items():
            for one in used:
                found[one].add(name)
        return found

    def _replaced_on_variants(self, unit: Unit) -> Iterator[str]:
        for given in getattr(unit.node, "decorator_list", ()):
            called = given.func if isinstance(given, ast.Call) else given
            if isinstance(called, ast.Attribute) and called.attr == "on":
                replaced = self._named(unit.module, called.value)
                if replaced is not None:
                    yield replaced

    def _used_by(self, unit: Unit) -> Iterator[str]:
        for part in unit.parts:
            for node in _nodes(part):
                if not isinstance(node, ast.Name | ast.Attribute):
                    continue
                named = self._named(unit.module, node)
                if named in self.units:
                    yield named
                elif named is None and isinstance(node, ast.Attribute):
                    yield from self._methods_called(unit, node)

    def _methods_called(self, unit: Unit, node: ast.Attribute) -> Iterator[str]:
        owner = self._class_of(unit, node.value)
        while owner is not None:
            if f"{owner}.{node.attr}" in self.units:
                yield f"{owner}.{node.attr}"
                return
            there = self.units[owner]
            bases = there.node.bases if isinstance(there.node, ast.ClassDef) else []
            owner = next(filter(None, (self._named(there.module, base) for base in bases)), None)
            if owner not in self.units:
                owner = None
        same = self._methods[node.attr]
        if len(same) == 1:
            (only,) = same
            if not node.attr.startswith("_") or self.units[only].module == unit.module:
                yield only

    def reach(self, goal: frozenset[str]) -> frozenset[str]:
        """Return the units that use one of *goal*, or what uses one in turn, with themselves."""
        seen, left = set(goal), [*goal]
        while left:
            new = self.users.get(left.pop(), set()) - seen
            seen |= new
            left += new
        return frozenset(seen)

    def ways_without(self, name: str, goal: frozenset[str], most: int) -> Iterator[tuple[str, ...]]:
        """Yield ways of calls to a unit, its own name first, on which nothing reaches *goal*.

        Neither the unit itself nor what uses it does, up to *most* calls away, or to where a call
        comes from outside. Of the ways from one place outside it is one.
        """
        reaching = self.reach(goal)
        ways, left = {name: (name,)}, [] if name in reaching else [name]
        while left:
            at = left.pop()
            users = self.users.get(at, set())
            if not users or len(ways[at]) > most:
                yield ways[at]
                continue
            for user in sorted(users - ways.keys() - reaching):
                ways[user] = (*ways[at], user)
                left.append(user)


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(node for node in ast.walk(tree) if not isinstance(node, ast.expr_context))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in _nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memalchemy"):
            within = str(node.module).removeprefix("memalchemy").lstrip(".")
            for name in node.names:
                yield name.asname or name.name, f"{within}.{name.name}".lstrip(".")


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def _names_within(function: ast.AST) -> dict[str, ast.AST]:
    """Return the annotations of the arguments of a function, and what its names are set to."""
    found: dict[str, ast.AST] = {}
    if not isinstance(function, Function):
        return found
    for node in _nodes(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                found[target.id] = node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                found |= {one.id: value for one, value in pairs if isinstance(one, ast.Name)}
    given = function.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if argument.annotation is not None:
            found[argument.arg] = argument.annotation
    return found


def _method_that_sets(graph: CallGraph, owner: str, attribute: str) -> ast.AST:
    """Return the constructor of a class, whose arguments an attribute may be set to."""
    there = graph.units.get(f"{owner}.__init__")
    return graph.units[owner].node if there is None else there.node
