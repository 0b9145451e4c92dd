"""What the tests of all adapters know of each framework: a module each.

Such a module has

- ``FRAMEWORK``, the framework's own module, and ``EXTRA``, which installs it;
- ``ADAPTERS``, each public adapter with a function that makes it: of a database, or of nothing;
- ``SUBJECTS``, a `memalchemy.conformance.Subject` for each kind of thing that is stored;
- maybe ``PARTS``, public classes that take an adapter and no database;
- maybe ``ARGUMENTS``, by the names of parameters: what methods take that no subject calls;
- maybe ``NO_SUITE``, the reason why no tests of the framework itself run on the adapters.

The modules of frameworks that are not installed are left out: CrewAI and the Pydantic AI harness
need environments of their own. The sessions ``frameworks``, ``crewai`` and ``pydantic-ai-harness``
of nox have all of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from memalchemy import NotFound
from memalchemy.conformance import Subject

FRAMEWORKS = {
    "a2a": "a2a",
    "agent_framework": "agent_framework",
    "claude_agent_sdk": "claude_agent_sdk",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "langchain": "langchain_core",
    "langgraph": "langgraph.checkpoint.base",
    "lauren_ai": "lauren_ai",
    "lazybridge": "lazybridge",
    "llama_index": "llama_index.core",
    "llm_agents_from_scratch": "llm_agents_from_scratch",
    "locus": "locus",
    "mem0": "mem0",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai.conversation_store",
    "pydantic_ai_harness": "pydantic_ai_harness",
    "strands": "strands",
}
"""The modules here, and of `memalchemy.integrations`, each with the framework's."""


def _is_installed(framework: str) -> bool:
    try:
        found = find_spec(framework)
    except ModuleNotFoundError:  # the package around it is missing
        return False
    # A folder of tests that is called after its framework is a package without an origin.
    return found is not None and found.origin is not None


INSTALLED: dict[str, ModuleType] = {
    name: importlib.import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
    if _is_installed(FRAMEWORKS[name])
}


async def delete_if_there(subject: Subject[Any], adapter: Any, id_: str) -> None:
    """Delete what is under an id. A framework may say in its own words that nothing is."""
    try:
        await subject.delete(adapter, id_)
    except Exception as error:
        if not isinstance(error.__cause__ or error, NotFound):
            raise
