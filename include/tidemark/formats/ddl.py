"""DDL statements as the sources write them, read for what they say of a table's columns. Pure; SQL by sqlglot.

A statement is cut into clauses here and only column definitions are parsed: a clause that a parser would skip in
silence (``ADD a int, <something new>, ADD b int``) must not hide the one behind it. What does not concern columns is
known by name; whatever else stands there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

#: A database's word for its SQL → sqlglot's name of the dialect.
DIALECTS = {"mysql": "mysql", "oracle": "oracle", "postgres": "postgres", "sqlserver": "tsql"}

#: Regular expressions (Java's) for decoding: a statement that may change rows, and the end of a table nobody replicates.
CHANGES_DATA = r"(?is)^\s*(insert|update|delete|replace|merge|load|call)\b"
DROPS_TEMPORARY = r"(?is)^\s*drop\s+(/\*(!\d*)?\s*)?temporary\b"


@dataclass
class Ddl:
    """What statements say, column types as written in their dialect. The fields are those of
    :class:`tidemark.schema.table_changes.TableChange`; ``key`` empty: no primary key."""

    columns: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    whole: bool = False

    def matters(self) -> bool:
        """Whether it says anything."""
        return bool(self.columns or self.renamed or self.dropped or self.whole or self.key is not None)


class _Unreadable(Exception):
    """Why a statement cannot be read."""


_CHANGES_DATA = {
    "TRUNCATE", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "LOAD", "CALL", "COPY", "WITH", "EXEC", "EXECUTE",
    "DO", "IMPORT",
}  # fmt: skip
_SAYS_NOTHING = {
    "GRANT", "REVOKE", "DENY", "COMMENT", "ANALYZE", "OPTIMIZE", "FLUSH", "SET", "USE", "BEGIN", "COMMIT", "ROLLBACK",
    "SAVEPOINT", "RELEASE", "XA", "START", "LOCK", "UNLOCK", "CHECK", "REPAIR", "SHOW", "EXPLAIN", "VACUUM", "REINDEX",
    "CLUSTER", "REFRESH", "AUDIT", "NOAUDIT", "PURGE", "KILL", "RESET", "DISCARD", "CHECKSUM", "INSTALL", "UNINSTALL",
}  # fmt: skip
# Clauses of ALTER TABLE that leave columns and rows alone, by their first word.
_OTHER_CLAUSES = {
    "ENGINE", "COMMENT", "AUTO_INCREMENT", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION",
    "DATA", "DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "CONVERT", "ORDER", "ROW_FORMAT", "ALGORITHM", "LOCK",
    "FORCE", "ENABLE", "DISABLE", "ENCRYPTION", "INDEX", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS",
    "DELAY_KEY_WRITE", "INSERT_METHOD", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "PARTITION",
    "REORGANIZE", "COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "NOCHECK", "REPAIR", "REMOVE", "UPGRADE",
    "WITH", "WITHOUT", "TABLESPACE", "SECONDARY_ENGINE", "OWNER", "VALIDATE", "VALIDATION", "CLUSTER", "REPLICA",
    "INHERIT", "NO", "PARALLEL", "NOPARALLEL", "LOGGING", "NOLOGGING", "MOVE", "SHRINK", "CACHE", "NOCACHE", "COMPRESS",
    "NOCOMPRESS", "MONITORING", "NOMONITORING", "INITRANS", "PCTFREE", "STORAGE", "FLASHBACK", "SPLIT", "RESET",
}  # fmt: skip
_ROWS_GO = {"TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "SWITCH", "DETACH", "ATTACH"}
_NO_COLUMN = {
    "INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PARTITION", "SUBPARTITION", "PERIOD",
    "SUPPLEMENTAL", "EXCLUDE", "DEFAULT", "CONSTRAINT", "LOB", "CLUSTERED", "NONCLUSTERED", "SYSTEM",
}  # fmt: skip
_CREATE_FLAGS = {
    "OR", "REPLACE", "GLOBAL", "LOCAL", "PRIVATE", "UNLOGGED", "UNIQUE", "FULLTEXT", "SPATIAL", "BITMAP", "CLUSTERED",
    "NONCLUSTERED", "PUBLIC", "FORCE", "EDITIONABLE", "NONEDITIONABLE", "ONLINE", "OFFLINE",
}  # fmt: skip
_TABLE_VERBS = {"ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "ALTER", "SET"}
_FRAGMENT = re.compile(r"\s*(?:add|modify|change|(?:drop|rename|alter)\s+column)\b", re.I)
_SP_RENAME = re.compile(
    r"\s*exec(?:ute)?\s+(?:sys\s*\.\s*)?\[?sp_rename\]?\s+N?'([^']+)'\s*,\s*N?'([^']+)'\s*,\s*N?'column'\s*;?\s*", re.I
)


def read_ddl(text: str, dialect: str) -> Ddl | None:
    """What a statement, or the clauses of an ALTER TABLE alone, says of its table's columns; None: nothing.

    ``dialect`` is a key of :data:`DIALECTS`. Raises ValueError, with the statement in it, for what cannot be
    understood, renames the table, or changes rows without sending them.
    """
    found: list[Ddl] = []
    try:
        if dialect == "sqlserver" and (match := _SP_RENAME.fullmatch(text)):
            return Ddl(renamed={match[1].split(".")[-1].strip("[]"): match[2]})
        whole = f"ALTER TABLE t {text}" if _FRAGMENT.match(text) else text
        for statement in _split(_tokens(whole, dialect), TokenType.SEMICOLON):
            ddl = Ddl()
            _Reader(whole, dialect, ddl).statement(statement)
            if ddl.matters():
                found.append(ddl)
        if len(found) > 1:
            raise _Unreadable("several statements in one")
    except (SqlglotError, _Unreadable) as error:
        reason = str(error) if isinstance(error, _Unreadable) else "its SQL cannot be read"
        raise ValueError(f"{reason}: {text}") from error
    return found[0] if found else None


def _tokens(text: str, dialect: str) -> list[Token]:
    """One token a word: sqlglot makes one of ``PRIMARY KEY``."""
    tokens: list[Token] = []
    for token in sqlglot.tokenize(text, read=DIALECTS[dialect]):
        if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or not re.search(r"\s", token.text):
            tokens.append(token)
            continue
        for word in re.finditer(r"\S+", text[token.start : token.end + 1]):
            start = token.start + word.start()
            tokens.append(Token(TokenType.VAR, word[0], start=start, end=start + len(word[0]) - 1))
    return tokens


def _split(tokens: Sequence[Token], at: TokenType) -> Iterator[list[Token]]:
    """Cut at a token outside parentheses; empty pieces left out."""
    depth, piece = 0, list[Token]()
    for token in tokens:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type == at and depth == 0:
            if piece:
                yield piece
            piece = []
        else:
            piece.append(token)
    if piece:
        yield piece


def _word(tokens: Sequence[Token], index: int = 0) -> str:
    """A token's word in capitals; empty for quoted names, texts and where there is none."""
    if not 0 <= index < len(tokens) or tokens[index].token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return tokens[index].text.upper()


def _name(token: Token, dialect: str) -> str:
    """A column's name: unquoted ones are folded by Oracle and PostgreSQL."""
    if token.token_type == TokenType.IDENTIFIER or dialect not in ("oracle", "postgres"):
        return token.text
    return token.text.upper() if dialect == "oracle" else token.text.lower()


def _skip(tokens: list[Token], *words: str) -> list[Token]:
    """Without these words at the front, if they are there in this order."""
    return tokens[len(words) :] if all(_word(tokens, i) == word for i, word in enumerate(words)) else tokens


def _without_guard(tokens: list[Token]) -> list[Token]:
    return _skip(_skip(_skip(tokens, "COLUMN"), "IF", "NOT", "EXISTS"), "IF", "EXISTS")


def _after_name(tokens: list[Token]) -> list[Token]:
    """What follows a table's name: ``a``, ``a.b``, ``a.b.c``."""
    rest = tokens[1:]
    while rest and rest[0].token_type == TokenType.DOT:
        rest = rest[2:]
    return rest


def _group(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """A parenthesised list at the front: (what is inside, what follows)."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return list(tokens[1:index]), list(tokens[index + 1 :])
    raise _Unreadable("a parenthesis is not closed")


class _Reader:
    """One statement, read into a :class:`Ddl`."""

    def __init__(self, text: str, dialect: str, ddl: Ddl) -> None:
        self.text, self.dialect, self.ddl = text, dialect, ddl

    def statement(self, tokens: list[Token]) -> None:
        first, second = _word(tokens), _word(tokens, 1)
        if first == "ALTER":
            self._alter(tokens[1:])
        elif first == "CREATE":
            self._create(tokens[1:])
        elif first == "RENAME":
            raise _Unreadable("a table is renamed")
        elif first == "DROP":
            if second in ("TABLE", "DATABASE", "SCHEMA"):
                raise _Unreadable("rows go without being sent")
        elif first in _CHANGES_DATA:
            raise _Unreadable("the statement may change rows without sending them")
        elif first not in _SAYS_NOTHING:
            raise _Unreadable("the statement is not understood")

    def _alter(self, tokens: list[Token]) -> None:
        tokens = _skip(_skip(_skip(tokens, "ONLINE"), "OFFLINE"), "IGNORE")
        if _word(tokens) != "TABLE":
            return
        self._clauses(_after_name(_skip(_skip(tokens[1:], "IF", "EXISTS"), "ONLY")))

    def _create(self, tokens: list[Token]) -> None:
        while _word(tokens) in _CREATE_FLAGS:
            tokens = tokens[1:]
        # IF NOT EXISTS is in the log also where the table was there, and then says nothing true of it.
        if _word(tokens) != "TABLE" or _word(tokens, 1) == "IF":
            return
        tokens = _after_name(tokens[1:])
        if not tokens or tokens[0].token_type != TokenType.L_PAREN:
            return  # LIKE and AS SELECT: the rows say what the columns are
        inside, rest = _group(tokens)
        if _word(inside) in ("LIKE", "SELECT", "WITH") or "SELECT" in map(_word, ([t] for t in rest)):
            return
        for item in _split(inside, TokenType.COMMA):
            self._add(item)
        self.ddl.key = self.ddl.key or ()
        self.ddl.whole = True

    def _clauses(self, tokens: list[Token]) -> None:
        """The clauses of an ALTER TABLE. SQL Server says a verb once for several columns."""
        verb: list[Token] = []
        for clause in _split(tokens, TokenType.COMMA):
            if _word(clause) in _TABLE_VERBS:
                verb = clause[:2] if _word(clause, 1) == "COLUMN" else clause[:1]
            elif self.dialect == "sqlserver" and _word(verb) in ("ADD", "DROP"):
                clause = verb + clause
            self._clause(clause)

    def _clause(self, tokens: list[Token]) -> None:
        verb, rest = _word(tokens), tokens[1:]
        steps = {"ADD": self._add, "DROP": self._drop, "MODIFY": self._modify, "CHANGE": self._change}
        if verb in steps:
            rest = _without_guard(rest)
            if rest and rest[0].token_type == TokenType.L_PAREN:
                inside, more = _group(rest)
                for item in _split(inside, TokenType.COMMA):
                    steps[verb](item)
                if _word(more) in _TABLE_VERBS:  # Oracle puts no comma between its lists
                    self._clause(more)
            else:
                steps[verb](rest)
        elif verb == "RENAME":
            self._rename(rest)
        elif verb == "ALTER":
            self._alter_column(rest)
        elif verb == "SET":
            self._set(rest)
        elif verb in _ROWS_GO:
            raise _Unreadable("rows come or go without being sent")
        elif verb not in _OTHER_CLAUSES:
            raise _Unreadable("the statement is not understood")

    def _add(self, tokens: list[Token]) -> None:
        if _word(tokens) == "CONSTRAINT":
            named = _word(tokens, 1) in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
            tokens = tokens[1:] if named else tokens[2:]
            if _word(tokens) != "PRIMARY":
                return
        if _word(tokens) == "PRIMARY":
            self._primary_key(tokens)
        elif _word(tokens) not in _NO_COLUMN:
            self._column(tokens)

    def _primary_key(self, tokens: list[Token]) -> None:
        start = next((i for i, token in enumerate(tokens) if token.token_type == TokenType.L_PAREN), None)
        if start is None:
            raise _Unreadable("a primary key without columns")
        self.ddl.key = self._names(_group(tokens[start:])[0])

    def _names(self, tokens: list[Token]) -> tuple[str, ...]:
        return tuple(_name(item[0], self.dialect) for item in _split(tokens, TokenType.COMMA))

    def _drop(self, tokens: list[Token]) -> None:
        word = _word(tokens)
        if word == "PRIMARY":
            self.ddl.key = ()
        elif word in ("PARTITION", "SUBPARTITION"):
            raise _Unreadable("rows go without being sent")
        elif not tokens:
            raise _Unreadable("the statement is not understood")
        elif word not in _NO_COLUMN and word != "UNUSED":
            self.ddl.dropped.add(_name(tokens[0], self.dialect))

    def _modify(self, tokens: list[Token]) -> None:
        if _word(tokens) not in _NO_COLUMN:
            self._column(tokens)

    def _change(self, tokens: list[Token]) -> None:
        if len(tokens) < 3:
            raise _Unreadable("the statement is not understood")
        old, new = _name(tokens[0], self.dialect), _name(tokens[1], self.dialect)
        if old != new:
            self.ddl.renamed[old] = new
        self._column(tokens[1:])

    def _rename(self, tokens: list[Token]) -> None:
        if _word(tokens) in ("INDEX", "KEY", "CONSTRAINT", "PARTITION", "SUBPARTITION"):
            return
        tokens = _skip(tokens, "COLUMN")
        if len(tokens) != 3 or _word(tokens, 1) != "TO":
            raise _Unreadable("a table is renamed")
        self.ddl.renamed[_name(tokens[0], self.dialect)] = _name(tokens[2], self.dialect)

    def _alter_column(self, tokens: list[Token]) -> None:
        if _word(tokens) in ("INDEX", "CONSTRAINT", "CHECK"):
            return
        tokens = _without_guard(tokens)
        name, rest = tokens[:1], tokens[1:]
        typed = _skip(_skip(rest, "SET", "DATA", "TYPE"), "TYPE")
        if self.dialect != "sqlserver" and len(typed) == len(rest):
            return  # a default, a constraint, statistics
        if _word(typed) in ("ADD", "DROP"):
            return
        end = next((i for i in range(len(typed)) if _word(typed, i) == "USING"), len(typed))
        self._column(name + typed[:end])

    def _set(self, tokens: list[Token]) -> None:
        if _word(tokens) == "SCHEMA":
            raise _Unreadable("a table is renamed")
        if _word(tokens) != "UNUSED":
            return
        rest = _skip(tokens[1:], "COLUMN")
        names = _group(rest)[0] if rest and rest[0].token_type == TokenType.L_PAREN else rest[:1]
        self.ddl.dropped.update(self._names(names))

    def _column(self, tokens: list[Token]) -> None:
        """A column definition; where it gives no type (Oracle's ``MODIFY x NOT NULL``) nothing of the column changes."""
        if _word(tokens, len(tokens) - 1) == "FIRST":
            tokens = tokens[:-1]
        elif _word(tokens, len(tokens) - 2) == "AFTER":
            tokens = tokens[:-2]
        if not tokens:
            raise _Unreadable("the statement is not understood")
        name = _name(tokens[0], self.dialect)
        written = self.text[tokens[0].start : tokens[0].end + 1]
        if len(tokens) > 1:
            written += " " + self.text[tokens[1].start : tokens[-1].end + 1]
        dialect = DIALECTS[self.dialect]
        table = sqlglot.parse_one(f"CREATE TABLE t ({written})", read=dialect).find(exp.Schema)
        columns = table.expressions if table else []
        if len(columns) != 1 or not isinstance(columns[0], exp.ColumnDef):
            if len(tokens) > 1 and _word(tokens, 1) not in ("NOT", "NULL", "DEFAULT", "CONSTRAINT", "CHECK"):
                raise _Unreadable(f"the definition of column {name} is not understood")
            return
        column = columns[0]
        if isinstance(column.kind, exp.DataType):
            self.ddl.columns[name] = column.kind.sql(dialect=dialect)
        if any(isinstance(c.kind, exp.PrimaryKeyColumnConstraint) for c in column.constraints):
            self.ddl.key = (name,)
