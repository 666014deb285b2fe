"""IBM's code pages: what Java calls them, how they write delimiters and headers, and how their bytes become text.

Messages come in UTF-8, in a page that writes ASCII as ASCII with one byte for each character, or in EBCDIC. A mixed EBCDIC
page writes two-byte characters between shift-out (X'0E') and shift-in (X'0F'); each of their bytes is X'40' to X'FE',
which a delimiter may be too. The lists are those of Java's own charsets, which `tests/unit/containers/test_code_pages.py`
holds them against.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

_VIEW = "ISO-8859-1"
_UNKNOWN = "\ufffd"


@dataclass(frozen=True)
class CodePage:
    """A code page, as far as delimiters, headers and the text of messages need it."""

    java: str
    """Java's name of it, which Spark's ``decode`` takes."""
    kind: Literal["utf-8", "ascii", "ebcdic", "mixed", "source"]
    """``ascii`` and ``ebcdic`` have one byte for each character. ``mixed`` is EBCDIC with two-byte characters between
    shifts. ``source`` has two-byte characters without shifts: here no message comes in it."""
    differs: str = ""
    """Of EBCDIC: characters that are no letters and digits and stand elsewhere than in cp037, each with its byte in
    hexadecimal, with blanks between."""
    lacks: str = ""
    """Of EBCDIC: characters of cp037 that the page does not have."""

    def view(self, text: str) -> str:
        """How the bytes of a delimiter, or of a header's digits and capitals, read in ISO-8859-1: a character for each byte.

        ValueError for a character that the page does not have, or that is neither a digit, a capital nor a usual mark.
        """
        return "".join(map(self._byte, text))

    def _byte(self, char: str) -> str:
        if self.kind in ("utf-8", "source"):
            return char.encode("utf-8").decode(_VIEW)
        if self.kind == "ascii":
            return char if ord(char) < (0x100 if self.java == _VIEW else 0x80) else self._refuse(char)
        own = {pair[0]: chr(int(pair[1:], 16)) for pair in self.differs.split()}
        if char in own:
            return own[char]
        known = char not in self.lacks and (char.isascii() or char in _MARKS)
        return char.encode("cp037").decode(_VIEW) if known else self._refuse(char)

    def _refuse(self, char: str) -> str:
        raise ValueError(f"{char!r} is not known in {self.java}")


#: Marks beyond ASCII's that EBCDIC pages are known to have, and some to have elsewhere.
_MARKS = "¢£¦§¬"
_UTF_8 = CodePage("UTF-8", "utf-8")
_LATIN_1 = CodePage(_VIEW, "ascii")
_GERMAN, _EURO = "¢B0 |BB !4F ¬BA ¦CC @B5 ~59 ^5F §7C [63 ]FC {43 }DC \\EC", " €9F"
_DANISH = "¢B0 |BB !4F $67 ¬BA ¦70 #4A @80 ~DC ^5F [9E ]9F {9C }47"
_FINNISH = "¢B0 |BB !4F $67 ¬BA ¦CC `51 #63 @EC ~DC ^5F §4A [B5 ]9F {43 }47 \\71"
_ITALIAN = "¢B0 |BB !4F ¬BA ¦CD `DD #B1 @B5 ~58 ^5F £7B §7C [90 ]51 {44 }54 \\48"
_SPANISH, _BRITISH = "¢B0 !BB ¦49 #69 ~BD ^BA [4A ]5A", "¢B0 $4A ~BC ^BA £5B [B1"
_FRENCH = "¢B0 |BB !4F ¬BA ¦DD `A0 #B1 @44 ~BD ^5F £7B §5A [90 ]B5 {51 }54 \\48"
_ICELANDIC = "¢B0 |BB !4F ¬BA `8C @AC ~CC ^EC [AE ]9E {8E }9C \\BE"
_TURKISH = '¢B0 |BB !4F $AD ¬BA ¦8E `8D #EC @AE "FC ~CC ^5F [68 ]AC {48 }8C \\DC'
_INTERNATIONAL, _SLAVIC = "¢B0 |BB !4F ¬BA ^5F [4A ]5A", "|6A !4F ^5F [4A ]5A"
_KATAKANA, _KOREAN = "¢B1 $E0 ~A0 £4A [70 ]80 \\B2", "[70 ]80 \\B2"
#: IBM's number of a page → Java's name, and where it differs from cp037 (CodePage).
_EBCDIC = {
    37: ("IBM037", "", ""), 273: ("IBM273", _GERMAN, ""), 277: ("IBM277", _DANISH, ""), 278: ("IBM278", _FINNISH, ""),
    280: ("IBM280", _ITALIAN, ""), 284: ("IBM284", _SPANISH, ""), 285: ("IBM285", _BRITISH, ""),
    290: ("IBM290", _KATAKANA, "¦§"), 297: ("IBM297", _FRENCH, ""), 420: ("IBM420", "", "`~^£§[]{}\\"),
    424: ("IBM424", "", ""), 500: ("IBM500", _INTERNATIONAL, ""), 833: ("x-IBM833", _KOREAN, "£§"),
    838: ("IBM-Thai", "^69 [49 ]59", "£§"), 870: ("IBM870", _SLAVIC, "¢¬¦£"), 871: ("IBM871", _ICELANDIC, ""),
    875: ("x-IBM875", _SLAVIC + " ¬EF ¦DF £B0 §EB", "¢"), 918: ("IBM918", "|BB !4F `6A ^5F [4A ]5A", "¢¬¦£§"),
    1025: ("x-IBM1025", _SLAVIC + " §E1", "¢¬¦£"), 1026: ("IBM1026", _TURKISH, ""),
    1047: ("IBM1047", "¬B0 ^5F [AD ]BD", ""), 1097: ("x-IBM1097", "", "¢¦^£§"), 1112: ("x-IBM1112", "", ""),
    1122: ("x-IBM1122", _FINNISH, ""), 1123: ("x-IBM1123", _SLAVIC + " §E1", "¢¬¦£"),
    1140: ("IBM01140", _EURO, ""), 1141: ("IBM01141", _GERMAN + _EURO, ""), 1142: ("IBM01142", _DANISH + " €5A", ""),
    1143: ("IBM01143", _FINNISH + " €5A", ""), 1144: ("IBM01144", _ITALIAN + _EURO, ""),
    1145: ("IBM01145", _SPANISH + _EURO, ""), 1146: ("IBM01146", _BRITISH + _EURO, ""),
    1147: ("IBM01147", _FRENCH + _EURO, ""), 1148: ("IBM01148", _INTERNATIONAL + _EURO, ""),
    1149: ("IBM01149", _ICELANDIC + _EURO, ""), 1166: ("x-IBM1166", _SLAVIC + " €E1", "¢¬¦£§"),
}  # fmt: skip
_MIXED = {
    930: ("x-IBM930", _KATAKANA, "¦§"), 933: ("x-IBM933", _KOREAN, "£§"), 935: ("x-IBM935", "$E0 ~A0 £4A \\B2", "¢§"),
    937: ("x-IBM937", "", "£§"), 939: ("x-IBM939", "[AD ]BD", "¦§"), 1364: ("x-IBM1364", _KOREAN, "£§"),
}  # fmt: skip
#: Pages that write ASCII as ASCII, with one byte for each character; and those with more, of sources alone.
_ASCII = {
    437: "IBM437", 737: "x-IBM737", 775: "IBM775", 813: "ISO-8859-7", 850: "IBM850", 852: "IBM852", 855: "IBM855",
    857: "IBM857", 858: "IBM00858", 860: "IBM860", 861: "IBM861", 862: "IBM862", 863: "IBM863", 865: "IBM865",
    866: "IBM866", 869: "IBM869", 874: "x-IBM874", 912: "ISO-8859-2", 914: "ISO-8859-4", 915: "ISO-8859-5",
    916: "ISO-8859-8", 920: "ISO-8859-9", 921: "x-IBM921", 922: "x-IBM922", 923: "ISO-8859-15", 1089: "ISO-8859-6",
    1250: "windows-1250", 1251: "windows-1251", 1252: "windows-1252", 1253: "windows-1253", 1254: "windows-1254",
    1255: "windows-1255", 1256: "windows-1256", 1257: "windows-1257", 1258: "windows-1258",
}  # fmt: skip
_OF_SOURCES = {
    932: "x-IBM942C", 942: "x-IBM942", 943: "x-IBM943", 948: "x-IBM948", 949: "x-IBM949", 950: "x-IBM950",
    954: "EUC-JP", 964: "x-IBM964", 970: "x-IBM970", 1381: "x-IBM1381", 1383: "x-IBM1383", 1386: "GBK",
}  # fmt: skip
#: Numbers of pages that are another one with more characters of the customer's own.
_SAME = {931: 939, 5026: 930, 5035: 939}


def _pages() -> dict[str, CodePage]:
    """Pages by IBM's number, and by Java's name in small letters and digits alone."""
    numbered = {1208: _UTF_8, 819: _LATIN_1}
    numbered |= {number: CodePage(java, "ascii") for number, java in _ASCII.items()}
    numbered |= {number: CodePage(java, "source") for number, java in _OF_SOURCES.items()}
    numbered |= {number: CodePage(java, "ebcdic", *marks) for number, (java, *marks) in _EBCDIC.items()}
    numbered |= {number: CodePage(java, "mixed", *marks) for number, (java, *marks) in _MIXED.items()}
    numbered |= {number: numbered[same] for number, same in _SAME.items()}
    by_name = {_plain(page.java): page for page in numbered.values()}
    return {str(number): page for number, page in numbered.items()} | by_name | {"latin1": _LATIN_1}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_PAGES = _pages()
KNOWN = (
    "utf-8, latin-1, and by IBM's number each EBCDIC page that Java has: cp037, cp500, cp1047, cp273 … cp1141 to cp1149, "
    "and mixed cp930, cp933, cp935, cp937, cp939, cp1364; pages of one byte that hold ASCII, like cp850 and cp1252"
)


def code_page(name: str) -> CodePage:
    """A code page by Python's, Java's or IBM's name: ``cp037``, ``IBM037``, ``ibm-1047``, ``latin-1``. ValueError."""
    plain = _plain(name)
    page = _PAGES.get(plain) or _PAGES.get(re.sub(r"^(?:x?ibm|cp|ccsid)?0*", "", plain))
    if page is None:
        raise ValueError(f"{name!r} is not known here. Known are {KNOWN}")
    return page


def text_of(raw: Column, page: CodePage) -> Column:
    """The bytes' text. Bytes that are no text in the page become U+FFFD: see :func:`is_text`."""
    if page == _UTF_8:
        return F.make_valid_utf8(raw.cast("string"))
    text = F.decode(raw, page.java)
    # Java's IBM1047 takes X'15' for the line feed and X'25', the newline of the manual, for U+0085.
    return F.translate(text, "\u0085", "\n") if page.java == "IBM1047" else text


def is_text(raw: Column, text: Column, page: CodePage) -> Column:
    """Whether the bytes are text in the page. ``text``: what :func:`text_of` makes of them."""
    return F.is_valid_utf8(raw.cast("string")) if page == _UTF_8 else ~text.contains(_UNKNOWN)
