"""The tables that a statement names, read by Spark expressions: a message names but one of them, or none.

MySQL's DROP TABLE and RENAME TABLE take several tables, its TRUNCATE TABLE takes one
(https://dev.mysql.com/doc/refman/8.4/en/sql-data-definition-statements.html). Canal names the first, and for a rename the
first of the new names; a name without a database is of the one that was in use, which its message has only where that
first name has none (DruidDdlParser and LogEventConvert in https://github.com/alibaba/canal).
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed
from tidemark.values.expressions import compute_once

# Quoted names and texts stay; comments and blanks become blanks. What a comment keeps from older versions is done.
_BLANKS = r"""(?s)(`[^`]*`|"[^"]*"|'[^']*')|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/|--(?=\s)[^\n]*|#[^\n]*|\s+"""
_PART = r"""(?:`[^`]+`|"[^"]+"|[^\s`"'.,;()]+)"""
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})?"
_DROP = r"(?is)^\s*drop\s+tables?\b(?:\s*if\s+exists\b)?(.+?)(?:\s(?:nowait|wait\s+\d+))?(?:\s(?:restrict|cascade))?[\s;]*\z"
_RENAME = r"(?is)^\s*rename\s+tables?\b(?:\s*if\s+exists\b)?(.*)\z"
_ALTERS = r"alter\s+(?:(?:online|offline|ignore)\s+)*table"
_ALTER = rf"(?is)^\s*{_ALTERS}\b(?:\s*if\s+exists\b)?\s*({_NAME})"
_ALTER_RENAME = rf"(?is)\brename\b\s*(?:(?:to|as)\b|=)?\s*({_NAME})\s*(?:[,;]|\z)"

_SETTINGS = r"(?:set\s+statement\b.*\bfor\s+)?"  # MariaDB's, for one statement
_CHANGES_ROWS = rf"(?is)^\s*{_SETTINGS}(?:insert|update|delete|replace|merge|load|call)\b"
_DROPS_DATABASE = rf"(?is)^\s*drop\s+(?:database|schema)\b(?:\s*if\s+exists\b)?\s*({_PART})"
_ON_TABLES = rf"(?is)^\s*{_SETTINGS}(?:drop\s+tables?|truncate|rename\s+tables?|{_ALTERS})\b"
_REPLACES_TABLE = r"(?i)^\s*create\s+or\s+replace\s+table\b"
_DROPS_TEMPORARY = r"(?i)^\s*drop\s+temporary\b"

#: Of a database that is dropped: that there are tables that nobody can name.
OTHERS_STAY = "a database is dropped: its tables that the feed file does not name stay"


def without_comments(text: Column) -> Column:
    """A statement as the functions here read it: comments and blanks are single blanks."""
    return F.regexp_replace(text, _BLANKS, "$1 ")


def empties(kind: Column, statement: Column) -> Column:
    """Whether a message empties tables. What becomes of a temporary one concerns nobody."""
    erases = (kind == "ERASE") & ~_says(statement, _DROPS_TEMPORARY)
    # MariaDB's CREATE OR REPLACE drops the table first (https://mariadb.com/kb/en/create-table/).
    replaces = (kind == "CREATE") & _says(statement, _REPLACES_TABLE)
    return F.coalesce((kind == "TRUNCATE") | erases | replaces | drops_database(kind, statement), F.lit(False))


def drops_database(kind: Column, statement: Column) -> Column:
    """Whether a message is of a whole database that is dropped: it names no table."""
    return F.coalesce((kind == "QUERY") & _says(statement, _DROPS_DATABASE), F.lit(False))


def of_dropped_database(kind: Column, op: Column) -> Column:
    """Whether a log entry empties a table whose database is dropped. Of its record, the entries' numbers depend on the feed
    file."""
    return F.coalesce((kind == "QUERY") & (op == "truncate"), F.lit(False))


def problem_without_table(statement: Column) -> Column:
    """Why a statement that its message names no table for cannot be passed over; null where it can."""
    changes = F.lit("a statement that may change rows of a table it is not sent for")
    return F.when(_says(statement, _CHANGES_ROWS), changes).when(
        _says(statement, _ON_TABLES), F.lit("a statement on a table, and the message names none")
    )


def of_each_table(messages: DataFrame) -> DataFrame:
    """One row for each table that a message concerns by its column ``concerned`` (see :func:`concerned_tables`): its
    ``entry`` (from 0), its ``source_table``, and a ``problem`` of its own where the message has none."""
    names = [name for name in messages.columns if name not in ("source_table", "concerned", "entry")]
    # Outer, though each concerns something: else Spark first makes all of them to ask whether there are any.
    each = messages.select(*names, F.posexplode_outer("concerned").alias("entry", "concerned"))
    return each.select(
        *(name for name in names if name != "problem"), "entry", "concerned.source_table",
        F.coalesce("problem", "concerned.problem").alias("problem"),
    )  # fmt: skip


def concerned_tables(
    kind: Column, statement: Column, feed: DeclaredFeed, *, database: Column, mysql: Column | None = None
) -> Column:
    """The tables that a message concerns: array<struct<source_table, problem>>, mostly its own ``source_table`` alone.

    An ERASE concerns each table that its statement drops; a DROP DATABASE each that the feed file names, and where others
    are published too, these, which nobody can name; and a RENAME also some table that nobody can name, where it
    takes a name from a database that is not told. Those have a ``problem``, and no ``source_table``. ``kind`` null: the
    message is bad as it is. ``database``: the message's. ``mysql``: whether the
    statement is MySQL's; of another's, one that empties several tables is not read.
    """
    told = F.coalesce(F.trim(statement) != "", F.lit(False))
    source_table = F.col("source_table")
    own = F.array(_concerned(source_table, F.when(told, _in_another_case(source_table, feed))))
    dropped = compute_once(_dropped(statement), lambda names: _dropped_tables(names, database, feed))
    unread = F.array(_problem("the statement does not say which tables it drops in a form that is known here"))
    moved = F.array(_concerned(source_table), _problem("a table is renamed, and nothing says of which database it was"))
    others = ~mysql & kind.isin("ERASE", "TRUNCATE") if mysql is not None else F.lit(False)
    return (
        F.when(others, F.when(statement.contains(","), unread).otherwise(own))
        .when((kind == "ERASE") & told & empties(kind, statement), F.coalesce(dropped, unread))
        .when(drops_database(kind, statement), _of_database(statement, feed))
        .when((kind == "RENAME") & told & _leaves_database_open(statement), moved)
        .otherwise(own)
    )


def _of_database(statement: Column, feed: DeclaredFeed) -> Column:
    """What a DROP DATABASE concerns; with nothing, no table."""
    name = _unquoted(F.regexp_extract(statement, _DROPS_DATABASE, 1))
    return compute_once(F.concat(name, F.lit(".")), lambda database: _in_database(database, feed))


def _in_database(database: Column, feed: DeclaredFeed) -> Column:
    """What stands in a database that is dropped; ``database``: its name and a dot."""
    declared = F.array(*map(F.lit, sorted(feed.tables))).cast("array<string>")
    named = F.filter(declared, lambda table: F.startswith(F.lower(table), F.lower(database)))

    def found(table: Column) -> Column:
        other_case = _in_another_case(F.concat(database, F.substring_index(table, ".", -1)), feed)
        return _concerned(table, F.when(~F.startswith(table, database), other_case))

    if feed.undeclared == "quarantine":
        none = F.array(_concerned(F.lit(None).cast("string")))
        return compute_once(
            named, lambda tables: F.when(F.size(tables) > 0, F.transform(tables, found)).otherwise(none)
        )
    return F.concat(F.transform(named, found), F.array(_problem(OTHERS_STAY)))


def _says(statement: Column, pattern: str) -> Column:
    return F.coalesce(statement.rlike(pattern), F.lit(False))


def _unquoted(part: Column) -> Column:
    return F.regexp_replace(part, '^[`"]|[`"]$', "")


def _dropped(statement: Column) -> Column:
    """The names in a DROP TABLE, as written; null where there is anything else between them than commas."""

    def names_in(listed: Column) -> Column:
        names = F.regexp_extract_all(listed, F.lit(_NAME), F.lit(0))
        return F.when(listed.rlike(rf"^\s*{_NAME}(?:\s*,\s*{_NAME})*+\s*\z"), F.array_distinct(names))

    return compute_once(F.regexp_extract(statement, _DROP, 1), names_in)


def _in_another_case(source_table: Column, feed: DeclaredFeed) -> Column:
    """Why nobody knows whether a statement is of a table: it is written as no table of the feed file is, but for its case.
    Where MySQL does not tell cases apart, rows have the name in lower case, and a statement as it was typed
    (https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html). Null: it is not so."""
    by_lower = {name.lower(): name for name in sorted(feed.tables)}
    if not by_lower:
        return F.lit(None).cast("string")
    literal = F.from_json(F.lit(json.dumps(by_lower)), "map<string, string>")
    known = F.when(~source_table.isin(sorted(feed.tables)), F.element_at(literal, F.lower(source_table)))
    return F.concat(
        F.lit("the statement is of table "),
        F.substring(source_table, 1, 200),
        F.lit(", the feed file has "),
        known,
        F.lit(
            ": the same one where the server does not tell cases apart (lower_case_table_names), and that is not known"
        ),
    )


def _dropped_tables(names: Column, database: Column, feed: DeclaredFeed) -> Column:
    """The tables of names as written; ``database``: the message's, in use where the first name has none."""
    qualified = F.get(names, F.lit(0)).rlike(rf"^{_PART}\s*\.")
    return F.transform(names, lambda name: _dropped_table(name, F.when(~qualified, database), feed))


def _dropped_table(name: Column, in_use: Column, feed: DeclaredFeed) -> Column:
    """``in_use``: the database of a name without one; null where it is not known."""
    parts = F.transform(F.regexp_extract_all(name, F.lit(_PART), F.lit(0)), _unquoted)
    full = F.when(F.size(parts) == 1, F.concat(in_use, F.lit("."), F.get(parts, F.lit(0)))).otherwise(
        F.array_join(parts, ".")
    )
    problem = F.concat(
        F.lit("a table is dropped, and nothing says of which database it was: "), F.substring(name, 1, 200)
    )
    return compute_once(
        full,
        lambda table: _concerned(table, F.coalesce(F.when(table.isNull(), problem), _in_another_case(table, feed))),
    )


def _leaves_database_open(statement: Column) -> Column:
    """Whether a statement that renames tables names the first new one with its database and another one without."""
    listed = F.regexp_extract_all(F.regexp_extract(statement, _RENAME, 1), F.lit(_NAME), F.lit(0))
    renamed = F.filter(listed, lambda name: F.lower(name) != "to")
    altered = F.array(F.regexp_extract(statement, _ALTER, 1), F.regexp_extract(statement, _ALTER_RENAME, 1))
    names = F.when(F.size(renamed) > 0, renamed).when(F.get(altered, F.lit(1)) != "", altered)
    qualified = F.transform(names, lambda name: name.rlike(rf"^{_PART}\s*\."))
    open_ = compute_once(qualified, lambda each: F.get(each, F.lit(1)) & F.array_contains(each, F.lit(False)))
    return F.coalesce(open_, F.lit(False))


def _concerned(source_table: Column, problem: Column | None = None) -> Column:
    problem = F.lit(None).cast("string") if problem is None else problem
    return F.struct(source_table.alias("source_table"), problem.alias("problem"))


def _problem(text: str) -> Column:
    return _concerned(F.lit(None).cast("string"), F.lit(text))
