"""Declarations of memalchemy's own adapters: see `memalchemy.adapters`.

The declarations are here, and not in the adapters' packages, because those import their frameworks:
the command line forks, deletes, prunes and shows threads of frameworks that are not installed.
"""

from __future__ import annotations

from memalchemy.adapters import AdapterDeclaration
from memalchemy.integrations._declarations import (
    a2a,
    agent_framework,
    claude_agent_sdk,
    crewai,
    langgraph,
    lauren_ai,
    openai_agents,
    pydantic_ai_harness,
    strands,
)

BY_ADAPTER: dict[str, AdapterDeclaration] = {
    "a2a": a2a.DECLARATION,
    "agent_framework": agent_framework.DECLARATION,
    "claude_agent_sdk": claude_agent_sdk.DECLARATION,
    "langgraph": langgraph.DECLARATION,
    "lauren_ai": lauren_ai.DECLARATION,
    "openai_agents": openai_agents.DECLARATION,
    "pydantic_ai_harness": pydantic_ai_harness.DECLARATION,
    "strands": strands.DECLARATION,
    # Behind the others, since states of several frameworks have a context.
    "crewai": crewai.DECLARATION,
    # Each log is a thread, all items are shown, and so are the states as they are.
    "google_adk": AdapterDeclaration(root="google_adk", title="Google ADK"),
    "haystack": AdapterDeclaration(root="haystack", title="Haystack"),
    "langchain": AdapterDeclaration(root="langchain", title="LangChain"),
    "lazybridge": AdapterDeclaration(root="lazybridge", title="LazyBridge"),
    "llama_index": AdapterDeclaration(root="llama_index", title="LlamaIndex"),
    "llm_agents_from_scratch": AdapterDeclaration(
        root="llm-agents", title="llm-agents-from-scratch"
    ),
    "locus": AdapterDeclaration(root="locus"),
    "mem0": AdapterDeclaration(root="mem0"),
    "pydantic_ai": AdapterDeclaration(root="pydantic_ai", title="Pydantic AI"),
}
"""The declaration of each module of `memalchemy.integrations`."""

DECLARATIONS: dict[str, AdapterDeclaration] = {one.root: one for one in BY_ADAPTER.values()}
"""The declarations by root."""
