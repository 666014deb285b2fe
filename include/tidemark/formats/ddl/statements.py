"""DDL statements of a source, read for the changes they make to the columns of a table. Pure; SQL by sqlglot.

A statement is cut into clauses here and only column definitions are parsed: a clause that a parser would skip in
silence (``ADD a int, <something new>, ADD b int``) must not hide the clause after it. Clauses that do not concern
columns are known by name; anything else is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from tidemark.formats.ddl.defaults import Constant, NoConstant, default_of
from tidemark.formats.ddl.mysql_types import ONLY_PARSED, in_bytes, in_known_name
from tidemark.formats.ddl.table_swaps import ghost_of
from tidemark.formats.ddl.tokens import (
    DIALECTS,
    UnreadableStatement,
    after_name,
    as_run,
    group,
    name_of,
    skip,
    split,
    table_name,
    tokens_of,
    without_guard,
    word_at,
)
from tidemark.formats.ddl.words import (
    CHANGING_VERBS,
    CREATE_FLAGS,
    IRRELEVANT_VERBS,
    NO_COLUMN,
    NO_COLUMN_PAIRS,
    OTHER_CLAUSES,
    PASSED_OVER,
    ROW_CLAUSES,
    ROWS_KEPT,
    STATEMENTS,
    STATEMENTS_OF_TABLES,
    TABLE_VERBS,
)
from tidemark.values.table_changes import TableName, TableRenamed, UnsentRows

#: What Canal's parser (DruidDdlParser), and with it DataWorks, calls an ALTER TABLE whose first clause is of an index or a
#: key: the clauses behind it may be of columns. By these names goes a CREATE INDEX too, which matters to nobody.
INDEX_KINDS = ("CINDEX", "DINDEX")
_BEHIND_COMMENTS = r"(?is)^(?:\s++|/\*M?!\d*|/\*(?!M?!).*?\*/|--[^\n]*\n|#[^\n]*\n)*+"
ALTERS_TABLE = rf"{_BEHIND_COMMENTS}(?:set\s+statement\b.*\bfor\s+)?alter\b"
#: A text that says nothing of columns by itself: it makes or drops one index, or is empty.
OF_ONE_INDEX = rf"{_BEHIND_COMMENTS}(?:create\b|drop\s+index\b[^,]*\z|\z)"

_COMPUTED = "values are computed anew without being sent"
_PART = r"""(?:\[(?:[^]']|]])+]|"(?:[^"']|"")+"|[^][.'"]+)"""
_SP_RENAME = re.compile(
    rf"\s*exec(?:ute)?\s+(?:sys\s*\.\s*)?\[?sp_rename\]?\s+N?'(?:{_PART}?\.)*({_PART})'"
    r"\s*,\s*N?'([^']+)'\s*,\s*N?'column'\s*;?\s*",
    re.I,
)


@dataclass(kw_only=True)
class Ddl:
    """The change of a table that a statement describes. What it comes to is a
    :class:`tidemark.values.table_changes.TableChange`."""

    columns: dict[str, str] = field(default_factory=dict)
    """The columns that are added or retyped, with their types as written in its dialect; with ``whole``, all columns."""
    filled: dict[str, Constant] = field(default_factory=dict)
    """Columns that are added, with the constant that all rows hold in them which were there before."""
    unfilled: dict[str, str] = field(default_factory=dict)
    """Columns that are added and hold a value in such rows that the statement does not tell, and why."""
    key: tuple[str, ...] | None = None
    """The primary key's columns. Empty: there is none. None: the statement does not mention it."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Old name → new name."""
    guarded: set[str] = field(default_factory=set)
    """Old names among the renamed ones that the table may not have (IF EXISTS)."""
    if_missing: set[str] = field(default_factory=set)
    """Columns that are added only where the table lacks them (IF NOT EXISTS)."""
    dropped: set[str] = field(default_factory=set)
    """Columns that are deleted."""
    whole: bool = False
    """Whether ``columns`` lists all columns of the table: the statement makes it."""
    swapped: tuple[TableName, TableName] | None = None
    """A changed copy takes the place of a table: the copy, and the table. None: no such thing happens."""

    def matters(self) -> bool:
        """Whether the statement concerns columns or the key."""
        named = self.columns or self.renamed or self.dropped or self.swapped
        return bool(named or self.whole or self.key is not None)


def read_ddl(text: str, dialect: str, *, alters: bool = False) -> Ddl | None:
    """Read a statement, or the clauses of an ALTER TABLE alone. None where it does not concern columns or the key.

    ``dialect`` is a key of :data:`DIALECTS`. ``alters``: the text is known to be of an ALTER TABLE or an index, so that what
    does not begin like such a statement is clauses alone. Raises ValueError, with the statement in it, for what cannot be
    understood, renames a table (:class:`tidemark.values.table_changes.TableRenamed`) and is no swap, or changes rows without
    sending them (:class:`tidemark.values.table_changes.UnsentRows`).
    """
    found: list[Ddl] = []
    try:
        if dialect == "sqlserver" and (match := _SP_RENAME.fullmatch(text)):
            return Ddl(renamed={_unquoted(match[1]): match[2]})
        run = as_run(text) if dialect == "mysql" else text
        of_table = f'ALTER TABLE "" {run}'
        whole = of_table if _is_clauses(tokens_of(of_table, dialect)[3:], dialect, alters=alters) else run
        for statement in split(tokens_of(whole, dialect), TokenType.SEMICOLON):
            ddl = Ddl()
            _Reader(whole, dialect, ddl).statement(statement)
            if ddl.matters():
                found.append(ddl)
        if len(found) > 1:
            raise UnreadableStatement("several statements in one")
    except TableRenamed as error:
        raise TableRenamed(f"{error}: {text}", error.tables) from error
    except UnsentRows as error:
        raise UnsentRows(f"{error}: {text}") from error
    except (SqlglotError, UnreadableStatement, RecursionError) as error:
        reason = str(error) if isinstance(error, UnreadableStatement) else "its SQL cannot be read"
        raise ValueError(f"{reason}: {text}") from error
    return found[0] if found else None


def _is_clauses(tokens: list[Token], dialect: str, *, alters: bool) -> bool:
    """Whether these are the clauses of an ALTER TABLE, without the statement around them; see :func:`read_ddl`."""
    first, second = word_at(tokens), word_at(tokens, 1)
    if first in ("ADD", "MODIFY", "CHANGE") or (first in ("DROP", "RENAME", "ALTER") and second == "COLUMN"):
        return True
    # Only MySQL has a clause DROP INDEX, and without COLUMN behind it Oracle renames and SQL Server alters other things.
    other = (first, second) == ("DROP", "INDEX") and dialect != "mysql"
    other |= (dialect, first) in (("oracle", "RENAME"), ("sqlserver", "ALTER"))
    return alters and not other and first not in STATEMENTS and (first, second) not in STATEMENTS_OF_TABLES


class _Reader:
    """One statement, read into a :class:`Ddl`."""

    def __init__(self, text: str, dialect: str, ddl: Ddl) -> None:
        self.text, self.dialect, self.ddl = text, dialect, ddl
        self.altered: TableName = ("", "")
        self.guarded = self.ignores = False
        self.says_column = False

    def statement(self, tokens: list[Token]) -> None:
        first, second = word_at(tokens), word_at(tokens, 1)
        if first == "ALTER":
            self._alter(tokens[1:])
        elif first == "CREATE":
            self._create(tokens[1:])
        elif first == "RENAME":
            # sqlglot takes what is behind the word as one text.
            self._rename_tables(tokens_of(self.text[tokens[0].end + 1 : tokens[-1].end + 1], self.dialect))
        elif first == "DROP":
            if second in ("TABLE", "DATABASE", "SCHEMA"):
                raise UnsentRows("rows go without being sent")
        elif (first, second) == ("SET", "STATEMENT"):  # MariaDB's settings for one statement
            at = next((i for i in range(len(tokens)) if word_at(tokens, i) == "FOR"), len(tokens))
            self.statement(tokens[at + 1 :])
        elif first in CHANGING_VERBS:
            raise UnsentRows("the statement may change rows without sending them")
        elif first not in IRRELEVANT_VERBS:
            raise UnreadableStatement("the statement is not understood")

    def _rename_tables(self, tokens: list[Token]) -> None:
        renames: list[tuple[TableName, TableName]] = []
        for pair in split(skip(skip(tokens, "TABLE"), "TABLES"), TokenType.COMMA):
            old, rest = table_name(pair)
            new, more = table_name(rest[1:]) if word_at(rest) == "TO" else (old, rest)
            if more:
                raise TableRenamed("a table is renamed", [name for names in renames for name in names] + [old])
            renames.append((old, new))
        if (ghost := ghost_of(renames)) is None:
            raise TableRenamed("a table is renamed", [name for names in renames for name in names])
        self.ddl.swapped = (ghost, renames[0][0])

    def _alter(self, tokens: list[Token]) -> None:
        while word_at(tokens) in ("ONLINE", "OFFLINE", "IGNORE"):
            self.ignores |= word_at(tokens) == "IGNORE"
            tokens = tokens[1:]
        if word_at(tokens) != "TABLE":
            return
        self.altered, clauses = table_name(skip(skip(tokens[1:], "IF", "EXISTS"), "ONLY"))
        if self.dialect == "mysql":  # MariaDB's, of the lock
            clauses = clauses[2:] if word_at(clauses) == "WAIT" else skip(clauses, "NOWAIT")
        self._clauses(skip(skip(clauses, "WITH", "CHECK"), "WITH", "NOCHECK"))

    def _create(self, tokens: list[Token]) -> None:
        while word_at(tokens) in CREATE_FLAGS:
            tokens = tokens[1:]
        # IF NOT EXISTS is in the log also where the table existed before, and then it does not describe the table.
        if word_at(tokens) != "TABLE" or word_at(tokens, 1) == "IF":
            return
        tokens = after_name(tokens[1:])
        if not tokens or tokens[0].token_type != TokenType.L_PAREN:
            return  # LIKE and AS SELECT: the columns are known from the rows
        inside, rest = group(tokens)
        if word_at(inside) in ("LIKE", "SELECT", "WITH") or "SELECT" in map(word_at, ([t] for t in rest)):
            return
        for item in split(inside, TokenType.COMMA):
            self._add(item)
        self.ddl.key = self.ddl.key or ()
        self.ddl.whole = True
        self.ddl.filled, self.ddl.unfilled = {}, {}  # there are no rows yet

    def _clauses(self, tokens: list[Token]) -> None:
        """The clauses of an ALTER TABLE. SQL Server writes a verb once for several columns."""
        verb, orders = list[Token](), False
        for clause in split(tokens, TokenType.COMMA):
            if orders and (len(clause) == 1 or (len(clause) == 2 and word_at(clause, 1) in ("ASC", "DESC"))):
                continue  # one more column of ORDER BY
            orders = orders or word_at(clause) == "ORDER"
            if word_at(clause) in TABLE_VERBS:
                verb = clause[:2] if word_at(clause, 1) == "COLUMN" else clause[:1]
            elif self.dialect == "sqlserver" and word_at(verb) in ("ADD", "DROP"):
                clause = (verb[:1] if word_at(clause) in ("COLUMN", "CONSTRAINT") else verb) + clause
            self._clause(clause)

    def _clause(self, tokens: list[Token]) -> None:
        tokens = skip(tokens, "CONVERT", "TO")  # a character set
        verb, rest = word_at(tokens), tokens[1:]
        if verb in ROW_CLAUSES or ROWS_KEPT in pairwise(word_at([token]) for token in tokens):
            raise UnsentRows("rows come or go without being sent")
        if self.ignores and verb != "DROP" and {"UNIQUE", "PRIMARY"} & {word_at([token]) for token in rest}:
            raise UnsentRows("rows go that a key would have twice, without being sent")
        steps = {"ADD": self._add, "DROP": self._drop, "MODIFY": self._modify, "CHANGE": self._change}
        if verb in steps:
            if self.dialect == "oracle" and verb != "DROP" and word_at(rest) in ("PARTITION", "SUBPARTITION"):
                return
            self.guarded, self.says_column = word_at(skip(rest, "COLUMN")) == "IF", word_at(rest) == "COLUMN"
            rest = without_guard(rest)
            if rest and rest[0].token_type == TokenType.L_PAREN:
                inside, more = group(rest)
                self.says_column = False  # MySQL's list may hold indexes too
                for item in split(inside, TokenType.COMMA):
                    steps[verb](item)
                if word_at(more) in TABLE_VERBS:  # Oracle puts no comma between its lists
                    self._clause(more)
            else:
                steps[verb](rest)
        elif verb == "RENAME":
            self._rename(rest)
        elif verb == "ALTER":
            self._alter_column(rest)
        elif verb == "SET":
            self._set(rest)
        elif verb not in OTHER_CLAUSES or _changes_more(rest):
            raise UnreadableStatement("the statement is not understood")

    def _is_column(self, tokens: list[Token]) -> bool:
        """Whether an item of a list, or what is behind ADD, DROP or MODIFY, is a column, and no index, constraint or other
        part of the table."""
        word = word_at(tokens)
        return self.says_column or not (
            word in NO_COLUMN[self.dialect] or (word, word_at(tokens, 1)) in NO_COLUMN_PAIRS
        )

    def _add(self, tokens: list[Token]) -> None:
        if self.says_column:
            self._column(tokens, added=True)
            return
        if word_at(tokens) == "CONSTRAINT":
            named = word_at(tokens, 1) in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
            tokens = tokens[1:] if named else tokens[2:]
            if word_at(tokens) != "PRIMARY":
                return
        if word_at(tokens) == "PRIMARY":
            self._primary_key(tokens)
        elif self._is_column(tokens):
            self._column(tokens, added=True)

    def _primary_key(self, tokens: list[Token]) -> None:
        start = next((i for i, token in enumerate(tokens) if token.token_type == TokenType.L_PAREN), None)
        if start is None:
            raise UnreadableStatement("a primary key without columns")
        self.ddl.key = self._names(group(tokens[start:])[0])

    def _names(self, tokens: list[Token]) -> tuple[str, ...]:
        return tuple(name_of(item[0], self.dialect) for item in split(tokens, TokenType.COMMA))

    def _drop(self, tokens: list[Token]) -> None:
        word = "" if self.says_column else word_at(tokens)
        if word == "PRIMARY":
            self.ddl.key = ()
        elif word in ("PARTITION", "SUBPARTITION"):
            raise UnsentRows("rows go without being sent")
        elif not tokens:
            raise UnreadableStatement("the statement is not understood")
        elif self._is_column(tokens):
            self.ddl.dropped.add(name_of(tokens[0], self.dialect))

    def _modify(self, tokens: list[Token]) -> None:
        if self._is_column(tokens):
            self._column(tokens)

    def _change(self, tokens: list[Token]) -> None:
        if len(tokens) < 3:
            raise UnreadableStatement("the statement is not understood")
        old, new = name_of(tokens[0], self.dialect), name_of(tokens[1], self.dialect)
        if old != new:
            self.ddl.renamed[old] = new
            self.ddl.guarded |= {old} if self.guarded else set()
        self._column(tokens[1:])

    def _rename(self, tokens: list[Token]) -> None:
        of_another = ("INDEX", "KEY", "CONSTRAINT", "PARTITION", "SUBPARTITION")
        if word_at(tokens) in of_another and word_at(tokens, 1) != "TO":
            return
        guarded, tokens = word_at(skip(tokens, "COLUMN")) == "IF", without_guard(tokens)
        if len(tokens) != 3 or word_at(tokens, 1) != "TO":
            new, _ = table_name(skip(skip(tokens, "TO"), "AS"))
            raise TableRenamed("a table is renamed", [self.altered, new])
        old = name_of(tokens[0], self.dialect)
        self.ddl.renamed[old] = name_of(tokens[2], self.dialect)
        self.ddl.guarded |= {old} if guarded else set()

    def _alter_column(self, tokens: list[Token]) -> None:
        if word_at(tokens) in NO_COLUMN[self.dialect]:
            return
        tokens = without_guard(tokens)
        name, rest = tokens[:1], tokens[1:]
        if word_at(rest, 1) == "EXPRESSION" and word_at(rest) == "SET":
            raise UnsentRows(_COMPUTED)
        typed = skip(skip(rest, "SET", "DATA", "TYPE"), "TYPE")
        if self.dialect != "sqlserver" and len(typed) == len(rest):
            return  # a default, a constraint, statistics
        if word_at(typed) in ("ADD", "DROP"):
            return
        end = next((i for i in range(len(typed)) if word_at(typed, i) == "USING"), len(typed))
        self._column(name + typed[:end])
        if using := typed[end + 1 :]:
            self._using(name_of(name[0], self.dialect), self.text[using[0].start : using[-1].end + 1])

    def _using(self, name: str, expression: str) -> None:
        """PostgreSQL's values for a column's new type, unless they are its values as they are."""
        dialect, written = DIALECTS[self.dialect], self.ddl.columns.get(name, "")
        value = sqlglot.parse_one(f"SELECT ({expression})", read=dialect).expressions[0].unnest()
        by_text = (
            bool(written) and exp.DataType.build(written, dialect=dialect, udt=True).this in exp.DataType.TEXT_TYPES
        )
        if isinstance(value, exp.Cast) and value.to.sql(dialect) == written:  # in its whole, with its size
            value, by_text = value.this.unnest(), True  # as for an enum
        if by_text and isinstance(value, exp.Cast) and value.to.sql(dialect) in ("TEXT", "VARCHAR"):
            value = value.this.unnest()
        if not isinstance(value, exp.Column) or value.name.lower() != name.lower():
            raise UnsentRows(_COMPUTED)

    def _set(self, tokens: list[Token]) -> None:
        if word_at(tokens) == "SCHEMA":
            raise TableRenamed("a table is renamed", [self.altered])
        if word_at(tokens) != "UNUSED":
            return
        rest = skip(tokens[1:], "COLUMN")
        names = group(rest)[0] if rest and rest[0].token_type == TokenType.L_PAREN else rest[:1]
        self.ddl.dropped.update(self._names(names))

    def _column(self, tokens: list[Token], *, added: bool = False) -> None:
        """A column definition; where it gives no type (Oracle's ``MODIFY x NOT NULL``) nothing of the column changes.
        ``added``: the table has not had it."""
        with_values = [word_at(tokens, len(tokens) - n) for n in (2, 1)] == ["WITH", "VALUES"]
        tokens = tokens[:-2] if with_values else tokens
        if word_at(tokens, len(tokens) - 1) == "FIRST":
            tokens = tokens[:-1]
        elif word_at(tokens, len(tokens) - 2) == "AFTER":
            tokens = tokens[:-2]
        if not tokens:
            raise UnreadableStatement("the statement is not understood")
        name = name_of(tokens[0], self.dialect)
        written = "c "  # a name that no parser takes for the beginning of a clause
        written += _definition(self.text, tokens[1:], self.dialect)
        dialect = DIALECTS[self.dialect]
        table = sqlglot.parse_one(f"CREATE TABLE t ({written})", read=dialect).find(exp.Schema)
        columns = table.expressions if table else []
        if len(columns) != 1 or not isinstance(columns[0], exp.ColumnDef):
            if len(tokens) > 1 and word_at(tokens, 1) not in ("NOT", "NULL", "DEFAULT", "CONSTRAINT", "CHECK"):
                raise UnreadableStatement(f"the definition of column {name} is not understood")
            return
        column = columns[0]
        self.ddl.if_missing |= {name} if added and self.guarded else set()
        if isinstance(column.kind, exp.DataType):
            self.ddl.columns[name] = column.kind.sql(dialect=dialect)
        if not all(isinstance(c, exp.ColumnConstraint) for c in column.constraints):  # `b CONSTRAINT int`: a mere name
            raise UnreadableStatement(f"the definition of column {name} is not understood")
        if not added and any(isinstance(c.kind, exp.ComputedColumnConstraint) for c in column.constraints):
            raise UnsentRows(_COMPUTED)
        if any(isinstance(c.kind, exp.PrimaryKeyColumnConstraint) for c in column.constraints):
            self.ddl.key = (name,)
        elif added and isinstance(column.kind, exp.DataType):
            try:
                value = default_of(column, self.dialect, with_values=with_values)
            except NoConstant as reason:
                self.ddl.unfilled[name] = str(reason)
            else:
                self.ddl.filled |= {} if value is None else {name: value}


def _unquoted(name: str) -> str:
    """A name of SQL Server without the brackets or quotes around it."""
    end = {"[": "]", '"': '"'}.get(name[0])
    return name[1:-1].replace(end * 2, end) if end else name


def _changes_more(tokens: list[Token]) -> bool:
    """Whether a clause that changes nothing here goes on with one that may. Oracle's DROP INDEX is of a constraint's own."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        # CHARACTER SET is no SET
        if depth == 0 and word_at(tokens, i) in TABLE_VERBS - {"SET"} and word_at(tokens, i + 1) != "INDEX":
            return True
    return False


def _definition(text: str, tokens: list[Token], dialect: str) -> str:
    """What stands behind a column's name, for a parser."""
    if dialect != "mysql":
        return " ".join(text[token.start : token.end + 1] for token in tokens)
    words, i, depth = list[str](), 0, 0
    while i < len(tokens):
        token, word = tokens[i], word_at(tokens, i)
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        passed = _passed_over(tokens[i:]) if i and depth == 0 else 0
        if word in ("UNSIGNED", "ZEROFILL") and depth == 0:
            # ZEROFILL is UNSIGNED too. A parser takes it once, and not behind FLOAT, of which it says nothing here.
            known = "UNSIGNED" in words or in_known_name(" ".join(words)).upper().startswith("FLOAT")
            words += [] if known else ["UNSIGNED"]
        elif word == "BYTE" and depth == 0 and i:
            words = [in_bytes(" ".join(words))]
        elif not passed:
            written = text[token.start : token.end + 1]
            words.append(written if i else ONLY_PARSED.get(word, written))
        i += passed or 1
    return in_known_name(" ".join(words))


def _passed_over(tokens: list[Token]) -> int:
    """How many tokens at the front say nothing of values."""
    for words, number in PASSED_OVER.items():
        if len(skip(tokens, *words)) < len(tokens):
            has_value = word_at(tokens, len(words)) == "="
            return len(words) + 2 if has_value else number
    return 0
