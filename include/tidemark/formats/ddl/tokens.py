"""A DDL statement as tokens: cut into statements, clauses and lists, and searched for words and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import Token, TokenType

#: A database's word for its SQL → sqlglot's name of the dialect.
DIALECTS = {"mysql": "mysql", "oracle": "oracle", "postgres": "postgres", "sqlserver": "tsql"}


#: Quoted names and texts and comments, which stay; or the signs around what MySQL and MariaDB run of a comment.
_RUN = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|/\*(?!M?!).*?\*/|--(?=\s)[^\n]*|#[^\n]*)|/\*M?!\d*|\*/""", re.S
)


class UnreadableStatement(Exception):
    """Why a statement cannot be read."""


def as_run(text: str) -> str:
    """A statement of MySQL with what it runs of comments (``/*!80000 … */``) outside of them. What such a comment keeps from
    the server has no ``!`` any more in its log."""
    return _RUN.sub(lambda match: match[1] or " ", text)


def tokens_of(text: str, dialect: str) -> list[Token]:
    """The statement's tokens, each of one word: sqlglot makes one token of ``PRIMARY KEY``."""
    tokens: list[Token] = []
    for token in sqlglot.tokenize(text, read=DIALECTS[dialect]):
        if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or not re.search(r"\s", token.text):
            tokens.append(token)
            continue
        for word in re.finditer(r"\S+", text[token.start : token.end + 1]):
            start = token.start + word.start()
            tokens.append(Token(TokenType.VAR, word[0], start=start, end=start + len(word[0]) - 1))
    return tokens


def split(tokens: Sequence[Token], at: TokenType) -> Iterator[list[Token]]:
    """Cut at every such token outside parentheses; empty pieces are left out."""
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


def word_at(tokens: Sequence[Token], index: int = 0) -> str:
    """A token's word in capitals; empty for quoted names, texts and where there is none."""
    if not 0 <= index < len(tokens) or tokens[index].token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return tokens[index].text.upper()


def name_of(token: Token, dialect: str) -> str:
    """A column's name: unquoted ones are folded by Oracle and PostgreSQL."""
    if token.token_type == TokenType.IDENTIFIER or dialect not in ("oracle", "postgres"):
        return token.text
    return token.text.upper() if dialect == "oracle" else token.text.lower()


def skip(tokens: list[Token], *words: str) -> list[Token]:
    """The tokens without these words at the front, if they are there in this order."""
    return tokens[len(words) :] if all(word_at(tokens, i) == word for i, word in enumerate(words)) else tokens


def without_guard(tokens: list[Token]) -> list[Token]:
    return skip(skip(skip(tokens, "COLUMN"), "IF", "NOT", "EXISTS"), "IF", "EXISTS")


def after_name(tokens: list[Token]) -> list[Token]:
    """The tokens after a table's name, which is ``a``, ``a.b`` or ``a.b.c``."""
    rest = tokens[1:]
    while rest and rest[0].token_type == TokenType.DOT:
        rest = rest[2:]
    return rest


def table_name(tokens: list[Token]) -> tuple[tuple[str, str], list[Token]]:
    """A table's name at the front, as (database or nothing, name), and the tokens behind it."""
    rest = after_name(tokens)
    names = [token.text for token in tokens[: len(tokens) - len(rest)] if token.token_type != TokenType.DOT]
    return (names[-2] if len(names) > 1 else "", names[-1] if names else ""), rest


def group(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """A list in parentheses at the front: (the tokens inside, the tokens after it)."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return list(tokens[1:index]), list(tokens[index + 1 :])
    raise UnreadableStatement("a parenthesis is not closed")
