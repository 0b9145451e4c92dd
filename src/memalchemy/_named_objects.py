"""Objects that a text names, for programs that are given one on their command line."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_NAME = re.compile(r"(?P<module>[\w.]+|.+\.py):(?P<path>\w+(\.\w+)*)(\[(?P<key>.+)\])?", re.DOTALL)


def load_object(name: str) -> Any:
    """Return the object that a text names: ``module:ATTRIBUTE``, or ``module:MAPPING[key]``.

    An attribute may have attributes, as in ``module:object.method``, and in place of a module there
    may be the path of a file: ``tools/embed.py:function``.

    Raises:
        ValueError: the text is not of this form, or names nothing.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"an object is named as module:ATTRIBUTE or module:NAME[key], not {name!r}"
        )
    try:
        found: Any = _load_module(match["module"])
        for part in match["path"].split("."):
            found = getattr(found, part)
        if match["key"] is not None:
            found = found[match["key"]]
    except (ImportError, AttributeError, LookupError, TypeError, OSError) as error:
        raise ValueError(f"there is no object {name}: {error}") from error
    return found


def _load_module(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return import_module(name)
    spec = spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not a file of Python")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
