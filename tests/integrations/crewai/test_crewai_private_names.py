"""What memalchemy expects of names of CrewAI that are no interface."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from crewai.flow.persistence import base
from crewai.state import runtime
from crewai.state.provider import utils

from memalchemy.integrations import crewai as package
from private_names import private_overrides


def test_adapters_replace_no_private_method() -> None:
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    modules = [importlib.import_module(one.name) for one in found]
    assert {name for module in modules for name in private_overrides(module)} == set()


def test_crewai_asks_for_a_provider_where_install_answers() -> None:
    for restore in (runtime.RuntimeState.from_checkpoint, runtime.RuntimeState.afrom_checkpoint):
        assert "from crewai.state.provider.utils import detect_provider" in inspect.getsource(
            restore
        ), "the function is looked up at each call"
    assert [*inspect.signature(utils.detect_provider).parameters] == ["path"]


def test_crewai_makes_a_persistence_anew_by_the_name_of_its_class() -> None:
    cls = package.MemalchemyFlowPersistence
    assert base._persistence_registry[cls.__name__] is cls
    assert cls.model_fields["persistence_type"].default == cls.__name__
