"""The byte layout of IBM change-data records: delimiters, code page, header, and where a record ends.

Shared by the ``ibm`` format (several records in one message) and the ``raw`` container (records back to back in an
object). Records are searched for in a *view* of the bytes, their ISO-8859-1 reading: one character per byte, whatever
the code page, so that nothing is lost between bytes and text (Java reads both X'15' and X'25' as a line feed). In a mixed
page a two-byte character is no delimiter, whatever its bytes are.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.containers.code_pages import CodePage, code_page

_VIEW = "ISO-8859-1"
# Two-byte characters of a mixed page, from shift-out on. A run that is not shifted in again ends before the first byte that
# is no part of such a character, so that it does not take the next record with it.
_DOUBLE_BYTE = r"\x0e[\x40-\xfe]*+\x0f?+"
_FIRST_OF_DOUBLE_BYTE = 0x40
_SHIFTS = "\x0e\x0f"


def _named(number: object) -> object:
    return str(number) if isinstance(number, int) and not isinstance(number, bool) else number


def _known_page(name: str) -> str:
    code_page(name)
    return name


#: The name of a code page, or its number, which YAML does not take for text.
PageName = Annotated[str, BeforeValidator(_named), AfterValidator(_known_page)]


def _message_page(name: str) -> str:
    if code_page(name).kind == "source":
        raise ValueError(
            f"{name!r}: bytes of its two-byte characters can be those of delimiters. Have messages sent in another page, "
            "like 1208 (utf-8)"
        )
    return name


class Layout(BaseModel):
    """How the publishing queue map writes records."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column_delimiter: str = Field(",", description="Between two values. As set in the publishing queue map.")
    record_delimiter: str = Field(
        "\n", description="After a change-data record. \"\\n\" is X'25' in EBCDIC, X'0A' elsewhere."
    )
    string_delimiter: str = Field('"', description="Around text; doubled inside it.")
    code_page: Annotated[PageName, AfterValidator(_message_page)] = Field(
        "utf-8",
        description="Of the message's text: utf-8, latin-1, an EBCDIC page by its number (cp037, cp1141, mixed cp939 …), or "
        "another page of one byte that holds ASCII (cp1252).",
    )

    @property
    def page(self) -> CodePage:
        """The code page of the name."""
        return code_page(self.code_page)

    @model_validator(mode="after")
    def _usable(self) -> Layout:
        """The manual's restrictions: four different characters, none alphanumeric, none of two bytes."""
        seen: dict[str, str] = {}
        for name in ("column_delimiter", "record_delimiter", "string_delimiter", "decimal_character"):
            char = getattr(self, name, None)
            if char is None:  # the container has no decimal character
                continue
            if len(char) != 1:
                raise ValueError(f"{name} is {char!r}: write exactly one character")
            if char.isalnum():
                raise ValueError(f"{name} is {char!r}: a letter or digit cannot be a delimiter")
            byte = _byte(self.page, char)
            if byte is None:
                raise ValueError(f"{name} is {char!r}: it is not one byte in {self.code_page}")
            if self.page.kind == "mixed" and char in _SHIFTS:
                raise ValueError(f"{name} is {char!r}: it begins or ends two-byte characters in {self.code_page}")
            if self.page.kind == "mixed" and name == "record_delimiter" and byte >= _FIRST_OF_DOUBLE_BYTE:
                raise ValueError(
                    f"record_delimiter is {char!r}: in {self.code_page} two-byte characters can hold its byte. Take a "
                    'control character, like "\\n"'
                )
            if char in seen:
                raise ValueError(f"{name} and {seen[char]} are both {char!r}: they must differ")
            seen[char] = name
        return self


def _byte(page: CodePage, char: str) -> int | None:
    """A character's byte; None where the page does not have it as one byte."""
    try:
        view = page.view(char)
    except ValueError:
        return None
    return ord(view) if len(view) == 1 else None


def in_regex(char: str) -> str:
    """A character that stands for itself in a regular expression, in and out of brackets: of Java, and one of a view also
    of Python."""
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\x{{{ord(char):x}}}"


def view_of(raw: Column) -> Column:
    """The bytes as text of one character per byte."""
    return F.decode(raw, _VIEW)


def bytes_of(view: Column) -> Column:
    """The bytes of a view."""
    return F.encode(view, _VIEW)


def header_pattern(layout: Layout) -> str:
    """The first four header fields, in the view: ``10,"IBM…","2006030","182318000005",``.

    Inside a string the string delimiter is doubled, so these cannot occur there: after the first one the string would
    be over, and ``IBM`` would stand between a closing delimiter and a column delimiter.
    """
    page = layout.page
    column, quote = in_regex(page.view(layout.column_delimiter)), in_regex(page.view(layout.string_delimiter))
    digit = f"[{in_regex(page.view('0'))}-{in_regex(page.view('9'))}]"
    ibm = "".join(in_regex(char) for char in page.view("IBM"))
    return (
        f"{digit}{{1,10}}+{column}{quote}{ibm}[^{quote}]{{0,64}}+{quote}{column}"
        f"{quote}{digit}{{7}}{quote}{column}{quote}{digit}{{12}}{quote}{column}"
    )


def begins_with_header(view: Column, layout: Layout) -> Column:
    """Whether the view begins with the header of a record."""
    return view.rlike("^" + header_pattern(layout))


def string_delimiters(view: Column, layout: Layout) -> Column:
    """How many string delimiters the view holds: an odd number leaves a string open."""
    quote = layout.page.view(layout.string_delimiter)
    if layout.page.kind == "mixed":
        view = F.regexp_replace(view, _DOUBLE_BYTE, "")
    return F.length(view) - F.length(F.replace(view, F.lit(quote), F.lit("")))


def split_records(view: Column, layout: Layout) -> Column:
    """The change-data records of a message, as views: cut before every header, and after every record delimiter
    outside strings. What follows a string that is never closed, up to the next header, stays in one piece.
    """
    record = in_regex(layout.page.view(layout.record_delimiter))
    quote = in_regex(layout.page.view(layout.string_delimiter))
    # Possessive throughout: Java then loops instead of recursing, whatever the length of a string.
    if layout.page.kind == "mixed":
        inside = f"(?:[^{quote}\\x0e]++|{_DOUBLE_BYTE})*+"
        one = f"(?s)(?:[^{quote}{record}\\x0e]++|{_DOUBLE_BYTE}|{quote}{inside}{quote})++(?:{quote}.*)?|{quote}.*"
    else:
        one = f"(?s)(?:[^{quote}{record}]++|{quote}[^{quote}]*+{quote})++(?:{quote}.*)?|{quote}.*"
    chunks = F.split(view, f"{record}(?={header_pattern(layout)})")
    return F.flatten(F.transform(chunks, lambda chunk: F.regexp_extract_all(chunk, F.lit(one), F.lit(0))))
