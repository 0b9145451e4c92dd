"""The count of rows that lack the words or field terms that their settings ask for."""

from __future__ import annotations

from memalchemy.database import Database
from memalchemy.maintenance.command_names import program
from memalchemy.maintenance.verify.report import ReportBuilder, counted
from memalchemy.maintenance.words.lost_words import has_words
from memalchemy.maintenance.words.rebuild import WordRebuild
from memalchemy.maintenance.words.report import WordlessNamespace

NAMED = 5
"""The number of namespaces that a finding names."""


async def count_lacking_words(db: Database, thread_id: str | None, report: ReportBuilder) -> None:
    """Add what rows of the tenant lack to a report, each kind as one finding.

    Only a rotation's note says for certain that rows without words had some. In an encrypted
    database that may hold words readable, all rows lack theirs if none of the tenant has words:
    that database was written when it might not hold them. Other rows may be of a class with
    ``index_text=False``, and are only worth a note.
    """
    if not (db.keyring.is_readable("text") or db.keyring.is_readable("fields")):
        return
    check = WordRebuild.survey(thread_id, counts_unnamed=db.keyring.encrypts)
    await check.run([db])
    command = f"{program(db.tenant)} rebuild-words"
    if check.lost_terms:
        items = counted(check.lost_terms, "item lacks", "items lack")
        report.add(
            "lost-words",
            f"{items} the words of its fields, by which filters find it"
            if check.lost_terms == 1
            else f"{items} the words of their fields, by which filters find them",
            tenant=db.tenant,
            remedy=command,
        )
    if check.lost_words:
        report.add(
            "lost-words", _sentence_of_rows(check.lost_words, ""), tenant=db.tenant, remedy=command
        )
    unnamed = check.unnamed_namespaces
    if not unnamed:
        return
    remedy = f"{command} --namespace NAMESPACE, or --all-namespaces"
    sentence = _sentence_of_rows(sum(one.rows for one in unnamed), _join_names(unnamed))
    if await has_words(db, "logs") or await has_words(db, "items"):
        report.add(
            "lost-words",
            f"{sentence}, as it should be if they were written with index_text=False",
            severity="note",
            tenant=db.tenant,
            remedy=remedy,
        )
    else:
        report.add("lost-words", sentence, tenant=db.tenant, remedy=remedy)


def _sentence_of_rows(rows: int, where: str) -> str:
    has, its = ("row has texts", "it") if rows == 1 else ("rows have texts", "them")
    return f"{rows:,} {has} and no words by which a search finds {its}{where}"


def _join_names(namespaces: list[WordlessNamespace]) -> str:
    named = ", ".join(f"{one.namespace} ({one.kind})" for one in namespaces[:NAMED])
    more = len(namespaces) - NAMED
    return f", in {named}" + (f" and {more:,} more namespaces" if more > 0 else "")
