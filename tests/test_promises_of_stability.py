"""docs/stability.md promises nothing that no test holds.

`TESTS` names them for each row of its table and for each of its sentences; a sentence that no test
can hold has the reason.
"""

from __future__ import annotations

import ast
import re

import pytest

from pages import ROOT

PAGE = (ROOT / "docs" / "stability.md").read_text()
API = "test_public_api.py::test_every_name_and_parameter_of_the_last_release_is_still_there"
DATABASES = "migrations/test_stored_databases.py::"
COMMANDS = "cli/test_commands_of_releases.py::"
WIRE = "http/test_wire_format_of_releases.py::"

TESTS: dict[str, tuple[str, ...] | str] = {
    # The table.
    "stored rows": (
        DATABASES + "test_all_that_a_release_stored_is_there_and_sound_after_an_upgrade",
        DATABASES + "test_this_release_writes_on_what_another_one_stored",
        DATABASES + "test_what_an_adapter_stored_is_decoded_and_sound_without_its_framework",
        "integrations/test_stored_adapters.py"
        "::test_an_adapter_reads_what_an_earlier_release_stored_and_goes_on",
    ),
    "the schema": (
        DATABASES
        + "test_every_revision_has_a_stored_database_and_those_before_the_head_their_code",
        "migrations/test_schema_drift.py",
        "migrations/test_rolling_upgrade.py"
        "::test_pods_live_on_through_the_upgrade_of_the_next_release",
        "migrations/test_revisions.py::test_the_oldest_release_never_goes_back",
    ),
    "Python names in the reference": (
        API,
        "test_deprecated_names.py::test_a_deprecated_method_warns_and_does_what_it_did",
        "test_deprecated_names.py"
        "::test_a_renamed_class_is_found_by_its_old_name_with_a_warning_and_is_not_listed",
    ),
    "everything else in Python (names that begin with _, or are not in the reference)": (
        "test_public_api.py::test_the_public_api_is_the_one_that_was_reviewed",
    ),
    "codes of errors, exit codes, --json, the lines of export": (
        COMMANDS + "test_every_code_is_still_there_and_means_what_it_meant",
        COMMANDS + "test_what_commands_print_as_json_has_every_field_that_it_had",
        WIRE + "test_the_lines_of_an_export_lose_no_field",
    ),
    "options and commands": (COMMANDS + "test_every_command_and_option_is_still_there",),
    "HTTP below /v1": (
        WIRE + "test_clients_understand_the_answers_of_an_earlier_server",
        WIRE + "test_the_server_answers_the_requests_of_earlier_clients",
        WIRE + "test_nothing_is_gone_from_the_document_of_an_earlier_release",
    ),
    "the lines of store export, and anchors": (
        WIRE + "test_items_that_an_earlier_release_exported_are_imported",
        DATABASES + "test_a_stored_anchor_proves_its_database_and_tells_of_what_is_removed",
    ),
    # The sentences around it.
    "memalchemy is version 0.1, an alpha: the design is settled and tested, but names may still "
    "change": ("test_packaging.py::test_the_version_is_the_one_that_the_page_of_stability_names",),
    "A patch release (0.1.1) fixes bugs, and changes none of these": (API,),
    "Each promise has tests, which open what releases have stored, and compare what they said": (
        "test_promises_of_stability.py::test_every_promise_names_tests_that_there_are",
    ),
    "Python from 3.11 on, as long as the Python project supports the version, and the databases of "
    "this table": ("test_workflows.py::test_every_supported_python_and_server_is_tested",),
    "pyproject.toml has the lowest versions of the packages, with which the tests run": (
        "test_packaging.py::test_the_lowest_versions_are_those_that_a_session_installs",
    ),
    "An adapter works with the versions in the matrix": (
        "test_framework_matrix_page.py",
        "integrations/test_adapters.py",
    ),
    "The next release of memalchemy supports a framework's new release, and earlier ones as long "
    "as one class can serve both": "what releases to come will do",
    "Parts that the framework itself calls beta may change": "it promises nothing",
    "There is no release on PyPI yet: install from a clone": "it is the state of a registry",
    "The changelog lists the changes": (
        "test_packaging.py::test_a_release_collects_the_fragments_above_the_earlier_entries",
    ),
    "Only the newest minor release gets fixes": "what its maintainers will do",
    "A small team, its founders": "it is who they are",
    "Issues are answered as their time allows, and nobody sells support": "what they will do",
    "SECURITY.md says how to report a vulnerability": ("test_docs.py",),
    "The threat model says what memalchemy defends against": ("test_docs.py",),
    "To leave again, see move out": ("integrations/test_recipes_for_leaving.py",),
}


def promises() -> list[str]:
    """Return the first cells of the table, and the sentences outside of it, as plain words."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", PAGE.partition("\n\n")[2]).replace("`", "")
    rows = [row for row in re.findall(r"^\| (.*?) \|", text, re.M) if row != "what"]
    sentences = []
    for item in re.split(r"\n\n|\n- ", re.sub(r"^\|.*$", "", text, flags=re.M)):
        words = re.sub(r"^(- )?\*\*[^*]+\.\*\*", "", item.strip()).replace("**", "")
        sentences += re.split(r"\.\s+", " ".join(words.removeprefix("- ").split()).rstrip("."))
    return [*rows, *filter(None, sentences)]


def test_every_promise_is_listed_here_and_no_other() -> None:
    assert promises() == [*TESTS]


@pytest.mark.parametrize("promise", TESTS)
def test_every_promise_names_tests_that_there_are(promise: str) -> None:
    told = TESTS[promise]
    if isinstance(told, str):
        assert len(told) > 10
        return
    for one in told:
        file, _, name = one.partition("::")
        path = ROOT / "tests" / file
        assert path.is_file(), one
        tree = ast.parse(path.read_text())
        functions = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions or (not name and any(one.startswith("test_") for one in functions))
