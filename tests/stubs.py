"""Writes the stubs of the synchronous classes from the asynchronous ones, for type checkers."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_overloads

import memalchemy
from memalchemy import sync
from memalchemy.sync.face import Face, Root, plain_type

LINE = 100
HEAD = '"""Generated: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py."""\n'
_ENTERING = ("__init__", "__enter__", "__exit__")
_CONTAINER = ("__contains__", "__iter__", "__len__")
_ELSEWHERE = {"AbstractContextManager": "contextlib", "Self": "typing"}


class Stub:
    """The text of a module's stub, and what it must import for it."""

    def __init__(self, module: ModuleType = sync) -> None:
        self.module = module
        self.imports: dict[str, set[str]] = defaultdict(set)
        self.faces = {
            name: value
            for name in module.__all__
            if inspect.isclass(value := getattr(module, name)) and issubclass(value, Face)
        }

    def text(self) -> str:
        # Roots first: others name them in their arguments.
        ordered = sorted(self.faces.items(), key=lambda f: (not issubclass(f[1], Root), f[0]))
        classes = [self._class(name, of) for name, of in ordered]
        for name in self.module.__all__:
            if name not in self.faces:
                self.imports[_home(name)].add(f"{name} as {name}")
        exported = "".join(f'    "{name}",\n' for name in sorted(self.module.__all__, key=_isort))
        return "\n".join([HEAD, self._imports(), f"__all__ = [\n{exported}]\n", *classes])

    def _class(self, name: str, face: Any) -> str:
        lines = [f"class {name}{self._parameters(face._of)}:"]
        if face.__doc__:
            lines += [_docstring(face.__doc__, 4), ""]
        lines += sorted(self._attributes(face))
        for member in sorted(set(dir(face)), key=_place):
            if member in _ENTERING + _CONTAINER or not member.startswith("_"):
                lines += self._member(face, member)
        return "\n".join(lines).rstrip() + "\n"

    def _parameters(self, of: Any) -> str:
        """The base class that makes the face generic, as *of* is."""
        variables = [variable.__name__ for variable in getattr(of, "__parameters__", ())]
        if not variables:
            return ""
        for name in variables:
            self._import(name, of.__module__)
        self.imports["typing"].add("Generic")
        return f"(Generic[{', '.join(variables)}])"

    def _attributes(self, face: Any) -> Iterator[str]:
        annotated: set[str] = set()
        for cls in face._of.__mro__:
            for name, annotation in inspect.get_annotations(cls).items():
                if not name.startswith("_"):
                    annotated.add(name)
                    yield f"    {name}: {self._typed(annotation, cls.__module__)}"
        for name in dir(face):
            value = inspect.getattr_static(face, name)
            if name in annotated or name.startswith("_"):
                continue
            if not (inspect.isfunction(value) or _is_property(value)):
                kind = type(value)
                if kind.__module__ != "builtins":
                    self.imports[kind.__module__].add(kind.__name__)
                yield f"    {name}: {kind.__name__}"

    def _member(self, face: Any, name: str) -> list[str]:
        value = inspect.getattr_static(face, name)
        if _is_property(value):
            read = inspect.getattr_static(face._of, name).fget
            return ["    @property", *self._def(name, read, read.__module__, value.__doc__)]
        if not inspect.isfunction(value):
            return []
        original = inspect.getattr_static(face._of, name, None)
        own = any(name in vars(base) for base in (Root, Face)) and name != "__init__"
        # On Database close, __enter__ and __exit__ are written out; all else is derived.
        home = value.__module__ if original is None or own else original.__module__
        if name in _ENTERING and original is None and not own:
            home = inspect.getattr_static(face._of, name.replace("__e", "__ae")).__module__
        overloads = get_overloads(original) if original is not None else []
        if not overloads:
            return self._def(name, value, home, value.__doc__)
        self.imports["typing"].add("overload")
        lines: list[str] = []
        for number, one in enumerate(overloads):
            # Editors show the docstring of the first.
            doc = value.__doc__ if number == 0 else None
            lines += ["    @overload", *self._def(name, one, home, doc)]
        return lines

    def _def(self, name: str, function: Any, home: str, doc: str | None) -> list[str]:
        signature = inspect.signature(function)
        written: list[str] = []
        starred = False
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                written.append("*")
            starred = starred or parameter.kind in (
                parameter.KEYWORD_ONLY,
                parameter.VAR_POSITIONAL,
            )
            stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
            text = stars.get(parameter.kind, "") + parameter.name
            if parameter.annotation is not parameter.empty:
                text += f": {self._typed(plain_type(parameter.annotation), home)}"
            if parameter.default is not parameter.empty:
                text += f" = {_default(parameter.default)}"
            written.append(text)
        returned = self._typed(plain_type(signature.return_annotation), home)
        # Editors show the docstring, so it is the body.
        body = [_docstring(doc, 8), ""] if doc else []
        end = f") -> {returned}:" if doc else f") -> {returned}: ..."
        line = f"    def {name}({', '.join(written)}{end}"
        if len(line) <= LINE:
            return [line, *body]
        return [f"    def {name}(", *(f"        {text}," for text in written), f"    {end}", *body]

    def _typed(self, annotation: Any, home: str) -> str:
        """The annotation as text; imports what it names, from where *home* has it."""
        text = annotation.replace("'", '"')
        for node in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(node, ast.Name):
                self._import(node.id, home)
        return text

    def _import(self, name: str, home: str) -> None:
        if name in self.faces or name in self.module.__all__ or hasattr(builtins, name):
            return
        if name in sync.__all__ and getattr(sync, name) is not getattr(memalchemy, name, None):
            self.imports[sync.__name__].add(name)
            return
        if name in _ELSEWHERE:
            self.imports[_ELSEWHERE[name]].add(name)
            return
        module = sys.modules[home]
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ImportFrom) and name in {
                a.asname or a.name for a in node.names
            }:
                assert node.module is not None
                self.imports[node.module].add(name)
                return
        if not hasattr(module, name):
            raise AssertionError(f"{home} does not have {name!r}, which an annotation names")
        self.imports[home].add(name)

    def _imports(self) -> str:
        groups: dict[int, list[str]] = defaultdict(list)
        for module, names in sorted(self.imports.items()):
            root = module.split(".")[0]
            group = 0 if root in sys.stdlib_module_names else 2 if root == "memalchemy" else 1
            plain = sorted((n for n in names if " as " not in n), key=_natural)
            lines = [
                (_isort(name)[0] > 0, f"from {module} import {name}")
                for name in sorted(names, key=_isort)
                if " as " in name
            ]
            groups[group] += [line for is_late, line in lines if not is_late]  # constants first
            if plain:
                groups[group].append(_import_line(module, plain))
            groups[group] += [line for is_late, line in lines if is_late]
        return "\n\n".join("\n".join(groups[g]) for g in sorted(groups)) + "\n"


def _import_line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _home(name: str) -> str:
    """The module below `memalchemy.sync` that *name* is imported from there."""
    for node in ast.parse(inspect.getsource(sync)).body:
        if isinstance(node, ast.ImportFrom) and name in {a.name for a in node.names}:
            assert node.module is not None
            return node.module
    for package, names in sync._SHARED_LATER.items():
        if name in names:
            return f"memalchemy.{package}"
    raise AssertionError(f"memalchemy.sync does not import {name}")


def _docstring(text: str, indent: int) -> str:
    # Python keeps the indentation of the source up to 3.12, and none from 3.13 on.
    text = inspect.cleandoc(text)
    written = f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
    return textwrap.indent(written, " " * indent)


def _default(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        items = ", ".join(map(_default, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value) if value is None or isinstance(value, int | float) else "..."


def _is_property(value: Any) -> bool:
    return isinstance(value, property)


def _natural(name: str) -> tuple[int, str]:
    return _isort(name)[0], name.lower()


def _isort(name: str) -> tuple[int, str]:
    first = name.split(" ")[0]  # of "name as name"
    return (0 if first.isupper() and len(first) > 1 else 1 if name[0].isupper() else 2, name)


def _place(name: str) -> tuple[int, str]:
    return (_ENTERING.index(name) if name in _ENTERING else len(_ENTERING), name)
