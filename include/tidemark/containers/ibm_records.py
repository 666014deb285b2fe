"""The byte layout of IBM change-data records: delimiters, code page, header, and where a record ends.

Shared by the ``ibm`` format (several records in one message) and the ``raw`` container (records back to back in an
object). Records are searched for in a *view* of the bytes, their ISO-8859-1 reading: one character per byte, whatever
the code page, so that nothing is lost between bytes and text (Java reads both X'15' and X'25' as a line feed).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F

_VIEW = "ISO-8859-1"


@dataclass(frozen=True)
class CodePage:
    """A code page by the name Java's ``decode`` takes and the codec Python's ``encode`` takes."""

    java: str
    python: str
    # Where the page differs from Python's codec; Python has no cp1047.
    differs: tuple[tuple[str, int], ...] = ()

    def encode(self, text: str) -> bytes:
        """The bytes of a text. ``UnicodeEncodeError`` when the page does not have a character."""
        own = dict(self.differs)
        return b"".join(bytes([own[char]]) if char in own else char.encode(self.python) for char in text)

    def view(self, text: str) -> str:
        """How the bytes of a text read in the view of a record."""
        return self.encode(text).decode(_VIEW)


_UTF_8 = CodePage("UTF-8", "utf-8")
_CP1047 = (("^", 0x5F), ("[", 0xAD), ("¬", 0xB0), ("Ý", 0xBA), ("¨", 0xBB), ("]", 0xBD))
_PAGES = {
    _UTF_8: ("utf8", "1208"),
    CodePage(_VIEW, "latin-1"): ("latin1", "iso88591", "819"),
    CodePage("IBM037", "cp037"): ("37",),
    CodePage("IBM500", "cp500"): ("500",),
    CodePage("IBM1047", "cp037", _CP1047): ("1047",),
    CodePage("IBM01140", "cp1140"): ("1140",),
}
_BY_NAME = {name: page for page, names in _PAGES.items() for name in names}


def code_page(name: str) -> CodePage:
    """A code page by Python's, Java's or IBM's name: ``cp037``, ``IBM037``, ``ibm-1047``, ``latin-1``. ValueError."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    number = re.sub(r"^(?:cp|ibm|ccsid)?0*", "", plain)
    page = _BY_NAME.get(plain) or _BY_NAME.get(number)
    if page is None:
        raise ValueError(f"{name!r} is not known here: write utf-8, latin-1, cp037, cp500, cp1047 or cp1140")
    return page


def _known_page(name: str) -> str:
    code_page(name)
    return name


class Layout(BaseModel):
    """How the publishing queue map writes records."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column_delimiter: str = Field(",", description="Between two values. As set in the publishing queue map.")
    record_delimiter: str = Field(
        "\n", description="After a change-data record. \"\\n\" is X'25' in EBCDIC, X'0A' elsewhere."
    )
    string_delimiter: str = Field('"', description="Around text; doubled inside it.")
    code_page: Annotated[str, AfterValidator(_known_page)] = Field(
        "utf-8", description="Of the message's text: utf-8, latin-1, cp037, cp500, cp1047 or cp1140."
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
            if not _is_one_byte(self.page, char):
                raise ValueError(f"{name} is {char!r}: it is not one byte in {self.code_page}")
            if char in seen:
                raise ValueError(f"{name} and {seen[char]} are both {char!r}: they must differ")
            seen[char] = name
        return self


def _is_one_byte(page: CodePage, char: str) -> bool:
    try:
        return len(page.encode(char)) == 1
    except UnicodeEncodeError:
        return False


def in_regex(char: str) -> str:
    """A character that stands for itself in a Java regular expression, in and out of brackets."""
    return f"\\x{{{ord(char):x}}}"


def view_of(raw: Column) -> Column:
    """The bytes as text of one character per byte."""
    return F.decode(raw, _VIEW)


def bytes_of(view: Column) -> Column:
    """The bytes of a view."""
    return F.encode(view, _VIEW)


def text_of(raw: Column, page: CodePage) -> Column:
    """The bytes' text. Bytes that are not UTF-8 become U+FFFD (see :func:`is_text`); other pages know every byte."""
    if page == _UTF_8:
        return F.make_valid_utf8(raw.cast("string"))
    text = F.decode(raw, page.java)
    # Java's IBM1047 takes X'15' for the line feed and X'25', the newline of the manual, for U+0085.
    return F.translate(text, "\u0085", "\n") if page.java == "IBM1047" else text


def is_text(raw: Column, page: CodePage) -> Column:
    """Whether the bytes are text in the code page."""
    return F.is_valid_utf8(raw.cast("string")) if page == _UTF_8 else F.lit(True)


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
    return F.length(view) - F.length(F.replace(view, F.lit(quote), F.lit("")))


def split_records(view: Column, layout: Layout) -> Column:
    """The change-data records of a message, as views: cut before every header, and after every record delimiter
    outside strings. What follows a string that is never closed, up to the next header, stays in one piece.
    """
    record = in_regex(layout.page.view(layout.record_delimiter))
    quote = in_regex(layout.page.view(layout.string_delimiter))
    # Possessive throughout: Java then loops instead of recursing, whatever the length of a string.
    one = f"(?s)(?:[^{quote}{record}]++|{quote}[^{quote}]*+{quote})++(?:{quote}.*)?|{quote}.*"
    chunks = F.split(view, f"{record}(?={header_pattern(layout)})")
    return F.flatten(F.transform(chunks, lambda chunk: F.regexp_extract_all(chunk, F.lit(one), F.lit(0))))
