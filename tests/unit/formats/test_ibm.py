"""Decoding IBM change-data records: every rule on a hand-written message, all of them in one Spark job."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.unit.formats.ibm_messages import INSERT, LSN_5, MESSAGES, feed, in_page, record, records_of
from tidemark.formats.ibm import decode as ibm

HEX = "IBM-INVALID-COLUMN"


@dataclass
class Case:
    message: bytes | None
    options: dict[str, str] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def case(name: str, *records: str, **options: str) -> None:
    text = options.get("record_delimiter", "\n").join(records)
    assert name not in CASES
    CASES[name] = Case(in_page(text, options.get("code_page", "utf-8")), options)


case("insert", INSERT)
case("update", record("REPL", '1,"John","ab  ",12.50,1,"Jane","",,'[:-1]))
case("delete", record("DLET", '1,"John",,12.50,,,,'))
case("key change", record("REPL", '1,"John",,1.00,2,"John",,1.00'))
case("before not captured", record("REPL", ',,,,2,"John",,1.00'))
case("keyless", record("DLET", '1,"x",,', table="NOKEY"))
case("keyless, before not captured", record("REPL", ',,1,"x"', table="NOKEY"))
case("keyless with a LOB", record("DLET", "1,,,", table="LOBS"))
case("keyless LOB inserted", record("ISRT", ',,1,"x"', table="LOBS"))
case("final delimiter", INSERT + ",")
case("strings", record("ISRT", ',,,,1,"say ""hi"", she\nsaid","""",1.00'))
case("look-alike", record("ISRT", ',,,,1,"a\n10,""IBM"",""2006181"",""182318000005"",x","",1.00'), INSERT)
# Java's regular expressions recurse, and end, on such strings unless they are written with care.
LONG = '"",\n' * 300_000
case("long string", record("ISRT", f',,,,1,"{LONG}","",1.00'), INSERT)
case("long open string", record("ISRT", f',,,,1,"{LONG}') + '"')
case("blanks in names", INSERT.replace('"TEST","T"', '"TEST    ","T   "'))
case("no plan", record("ISRT", ',,,,1,"","",', plan=""))
case("short lsn", record("ISRT", ',,,,1,"","",', lsn=LSN_5))
case("long unit", record("ISRT", ',,,,1,"","",', unit="0000:0000:0388:4642:0000:00Ab"))
case("segment", record("ISRT", ',,,,1,"","",', segment="0012"))
case("impossible commit", record("ISRT", ',,,,1,"","",', at="2006-06-30-18.05.67"))
case("impossible time", record("ISRT", ',,,,,,,"K1",,,"0aFF","w","18.01.67",1', table="KINDS"))
case("possible time", record("ISRT", ',,,,,,,"K1",,,"0aFF","w","24.00.00",1', table="KINDS"))
UTF_8 = {"source_code_page": "1208"}
for spelled in ("IBM-INVALID-COLUMN-002A-HEX", "IBM-INVALID-COLUMN-0002-A-HEX"):
    case(spelled, record("ISRT", ',,,,1,"4A6F686E","C3a9",', identifier=spelled), **UTF_8)
case("hex null", record("REPL", '1,,"",1.00,1,,"41",1.00', identifier="IBM-INVALID-COLUMN-0003-B-HEX"), **UTF_8)
KEY_HEX = record("ISRT", ',,,,,,,"4B31",,,"4141","w",,1', table="KINDS", identifier="IBM-INVALID-COLUMN-001A-HEX")
case("hex lob", KEY_HEX, **UTF_8)
case("hex key, page not named", KEY_HEX)
case("hex no text", record("ISRT", ',,,,1,"41FF42","4142",', identifier="IBM-INVALID-COLUMN-002A-HEX"), **UTF_8)
case("hex, page not named", record("REPL", '1,"41",,1.00,1,"C1","",', identifier="IBM-INVALID-COLUMN-002A-HEX"))
case(
    "hex in another page", record("ISRT", ',,,,1,"C1C2","81",', identifier=f"{HEX}-002A-HEX"), source_code_page="cp037"
)
case("hex in 943", record("ISRT", ',,,,1,"93FA967B","8140",', identifier=f"{HEX}-002A-HEX"), source_code_page="943")
case("hex not in 943", record("ISRT", ',,,,1,"93FAFD","41",', identifier=f"{HEX}-002A-HEX"), source_code_page="943")
case("hex not in 424", record("ISRT", ',,,,1,"C170","C1",', identifier=f"{HEX}-002A-HEX"), source_code_page="424")
REST = ',,,"4141","w",,1'
case(
    "hex old key",
    record("REPL", f'"FF"{REST},"4B32"{REST}', table="KINDS", identifier=f"{HEX}-001B-HEX"),
    **UTF_8,
)
case("hex keyless", record("ISRT", ',,1,"FF"', table="NOKEY", identifier=f"{HEX}-002A-HEX"), **UTF_8)
case("hex keyless old", record("REPL", '1,"FF",1,"41"', table="NOKEY", identifier=f"{HEX}-002B-HEX"), **UTF_8)
case("hex keyless read", record("ISRT", ',,1,"41"', table="NOKEY", identifier=f"{HEX}-002A-HEX"), **UTF_8)
case("null keyless", record("ISRT", ",,1,", table="NOKEY", identifier=f"{HEX}-002A-NULL"))
case("hex no hex", record("ISRT", ',,,,1,"John","",', identifier="IBM-INVALID-COLUMN-002A-HEX"))
case("null form", record("REPL", "1,,,1.00,1,,,", identifier="IBM-INVALID-COLUMN-002A-NULL"))
case("null key", record("REPL", ",,,,,,1,,,,,,,1", table="KINDS", identifier="IBM-INVALID-COLUMN-001B-NULL"))
case("null delete", record("DLET", "1,,,1.00,,,,", identifier="IBM-INVALID-COLUMN-002B-NULL"))

case("several", INSERT, record("REPL", '1,"John","ab  ",12.50,1,"J","",1.00'), record("DLET", '1,"J","",1.00,,,,'))
case(
    "two transactions",
    INSERT,
    INSERT,
    record("ISRT", ',,,,2,"","",', lsn=LSN_5),
    record("ISRT", ',,,,3,"","",', lsn=LSN_5),
)
case(
    "one lsn",
    record("ISRT", ",,1,", table="NOKEY"),
    record("ISRT", ",,1,", table="NOKEY", unit="0000:0000:0388:4642:0001"),
)
case("one bad among good", INSERT, record("REPL", '1,"x'), INSERT)
case("stray line", INSERT, "stray", INSERT)
case("stray first", "stray", INSERT)
case("empty lines", "", INSERT, "", "", INSERT, "")
case("wrapped", INSERT.replace(',"ISRT"', ',\n"ISRT"'))

case("typographic", INSERT.replace('"John"', '"John”'))
case("typographic bare", INSERT.replace('"John"', "“John”"))
case("typographic inside", INSERT.replace('"John"', '"“John”"'))
case("truncated header", INSERT[:60])
case("truncated string", INSERT[:-9])
case("too few", record("ISRT", ',,,,1,"John"'))
case("too many", record("ISRT", ',,,,,1,"John","",1,1'))
case("unknown table", INSERT.replace('"T"', '"X"'))
case("unknown operation", record("UPSR", ',,,,1,"","",'))
case("unknown identifier", record("ISRT", ',,,,1,"","",', identifier="IBM-INVALID-THING"))
case("bad lsn", record("ISRT", ',,,,1,"","",', lsn="0000:0000:0388:46G2:0000"))
case("short unit", record("ISRT", ',,,,1,"","",', unit="0388:4642"))
case("bad segment", record("ISRT", ',,,,1,"","",', segment="12"))
case("not doubled", record("ISRT", ',,,,1,"a"b"c","",'))
case("carriage return", INSERT + "\r")
case("insert with before", record("ISRT", '1,"","",1,1,"","",1'))
case("delete with after", record("DLET", '1,"","",1,1,"","",1'))
case("no header", '{"op": "c"}')
case("only commas", "," * 40)
CASES["not utf-8"] = Case(INSERT.encode().replace(b"John", b"J\xe9hn") + b"\n" + INSERT.encode())
CASES["nothing"] = Case(b"")
CASES["null"] = Case(None)
CASES["binary"] = Case(bytes(range(256)) * 3)

PAGES = ("cp037", "cp500", "cp1047", "cp1140")
OTHER = {"column_delimiter": ";", "record_delimiter": "|", "string_delimiter": "'", "decimal_character": ","}
LATIN = {"code_page": "latin-1", "column_delimiter": "§"}
SWITCH = str.maketrans({",": ";", '"': "'"})
case(
    "other delimiters",
    INSERT.translate(SWITCH).replace("12.50", "12,50"),
    record("ISRT", ",,,,2,", segment="0000").translate(SWITCH) + "'it''s; \"so|1\"\n';'';-1,00",
    **OTHER,
)
for page in PAGES:
    case(page, record("ISRT", ',,,,1,"a[b]\n^é","",12.50'), INSERT, code_page=page)
case("euro", record("ISRT", ',,,,1,"5 €","",'), code_page="cp1140")
case("two owners", INSERT, record("ISRT", ',,"T1",1.5').replace('"TEST","T"', '"OTHER","T"'), INSERT)
for i, lsn in enumerate(("0000:0000:0000:00ff:ffff", "0000:0000:0001:0000:0000", "ffff:ffff:ffff:ffff:ffff")):
    case(f"lsn {i}", record("ISRT", ',,,,1,"","",', lsn=lsn))
    case(f"lsn {i + 3}", record("ISRT", ',,,,1,"","",', lsn=f"0000:0000:{i + 1:04}:{lsn}"))
IN_CP037 = record("ISRT", ',,,,1,"C1C2","",', identifier=f"{HEX}-002A-HEX")
case("hex in a cp037 message", IN_CP037, code_page="cp037")
case("§", record("ISRT", ',,,,1,"é,","",').replace(',"', '§"').replace(",", "§").replace("é§", "é,"), **LATIN)


@pytest.fixture(scope="module")
def decoded(spark: SparkSession) -> dict[str, list[Row]]:
    by_options: dict[tuple[tuple[str, str], ...], dict[str, bytes | None]] = {}
    for name, given_ in CASES.items():
        by_options.setdefault(tuple(given_.options.items()), {})[name] = given_.message
    changes = [
        ibm.decode(records_of(spark, messages), feed(MESSAGES), ibm.Options.model_validate(dict(options)))
        for options, messages in by_options.items()
    ]
    rows = functools.reduce(DataFrame.unionAll, changes).collect()
    found: dict[str, list[Row]] = {name: [] for name in CASES}
    for row in sorted(rows, key=lambda row: row.entry):
        found[row.object].append(row)
    return found


def test_no_record_is_lost_and_bad_ones_are_kept_whole(decoded: dict[str, list[Row]]) -> None:
    for name, rows in decoded.items():
        assert rows, name
        assert [row.entry for row in rows] == list(range(len(rows)))
        for row in rows:
            assert (row.problem is not None) == (row.op == "bad"), name
            assert row.raw == CASES[name].message
            assert (row.topic, row.partition, row.offset, row.record) == ("t", 0, 5, 1)


def only(rows: list[Row]) -> Row:
    assert len(rows) == 1
    assert rows[0].problem is None
    return rows[0]


def test_insert(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["insert"])
    assert (row.op, row.kind, row.source_table) == ("insert", "ISRT", "TEST.T")
    assert row.before is None
    assert row.after == {"ID": "1", "NAME": "John", "NOTE": "ab  ", "AMOUNT": "12.50"}
    assert row.key == {"ID": "1"}
    assert (row.absent, row.notes, row.prior_key) == ([], [], None)
    assert row.committed_at == datetime(2006, 6, 30, 18, 0, 52)


def test_update_has_both_images_and_tells_null_from_empty(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["update"])
    assert row.op == "update"
    assert row.before == {"ID": "1", "NAME": "John", "NOTE": "ab  ", "AMOUNT": "12.50"}
    assert row.after == {"ID": "1", "NAME": "Jane", "NOTE": "", "AMOUNT": None}
    assert row.prior_key is None


def test_delete(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["delete"])
    assert (row.op, row.after, row.key) == ("delete", None, {"ID": "1"})
    assert row.before == {"ID": "1", "NAME": "John", "NOTE": None, "AMOUNT": "12.50"}


def test_key_change(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["key change"])
    assert (row.op, row.key, row.prior_key) == ("update", {"ID": "2"}, {"ID": "1"})
    assert only(decoded["before not captured"]).prior_key is None
    assert only(decoded["before not captured"]).before is None


def test_a_table_without_key(decoded: dict[str, list[Row]]) -> None:
    assert only(decoded["keyless LOB inserted"]).after == {"A": "1", "B": "x"}
    row = only(decoded["keyless"])
    assert (row.op, row.key, row.before) == ("delete", None, {"A": "1", "B": "x"})


@pytest.mark.parametrize("name", ["final delimiter", "blanks in names"])
def test_harmless_variants(decoded: dict[str, list[Row]], name: str) -> None:
    row, plain = only(decoded[name]), only(decoded["insert"])
    assert (row.after, row.source_table, row.position) == (plain.after, plain.source_table, plain.position)


def test_delimiters_and_line_feeds_inside_strings(decoded: dict[str, list[Row]]) -> None:
    assert only(decoded["strings"]).after["NAME"] == 'say "hi", she\nsaid'
    assert only(decoded["strings"]).after["NOTE"] == '"'
    first, second = decoded["look-alike"]
    assert first.after["NAME"] == 'a\n10,"IBM","2006181","182318000005",x'
    assert second.after["NAME"] == "John"


def test_long_strings(decoded: dict[str, list[Row]]) -> None:
    first, second = decoded["long string"]
    assert first.after["NAME"] == '",\n' * 300_000
    assert second.after["NAME"] == "John"
    assert {row.op for row in decoded["long open string"]} == {"bad"}


def test_place_in_the_sources_order(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["insert"])
    assert row.position == "0000000000000271000c000000000000.99999.000000.00000000038846420000"
    assert row.tx == "00000000038846420000@0000000000000271000c000000000000"
    assert (row.tx_end, row.tx_part, row.tx_ordinal, row.tx_count) == (True, None, 0, None)
    assert only(decoded["short lsn"]).position.startswith("00000000000000000000038846420000.")
    assert only(decoded["long unit"]).tx.startswith("0000000003884642000000ab@")
    segment = only(decoded["segment"])
    assert segment.position.split(".")[1] == "00012"
    assert (segment.tx_end, segment.tx_part, segment.tx_ordinal) == (False, "0012", 12)
    assert only(decoded["no plan"]).after["NOTE"] == ""


def test_index_counts_within_the_message_and_transaction(decoded: dict[str, list[Row]]) -> None:
    indexes = {name: [row.position.split(".")[2] for row in decoded[name]] for name in ("several", "two transactions")}
    assert indexes["several"] == ["000000", "000001", "000002"]
    assert [row.op for row in decoded["several"]] == ["insert", "update", "delete"]
    assert indexes["two transactions"] == ["000000", "000001", "000000", "000001"]


def test_transactions_may_share_their_commit_lsn(decoded: dict[str, list[Row]]) -> None:
    """With data sharing it is a time. Their changes are told apart, and the LSN stays what orders all others."""
    first, second = decoded["one lsn"]
    assert first.position < second.position
    assert first.position.rsplit(".", 1)[0] == second.position.rsplit(".", 1)[0]


def test_impossible_times_are_flagged(decoded: dict[str, list[Row]]) -> None:
    commit = only(decoded["impossible commit"])
    assert (commit.committed_at, commit.notes) == (None, ["impossible commit time 2006-06-30-18.05.67"])
    time = only(decoded["impossible time"])
    assert (time.after["AT"], time.notes) == ("18.01.67", ["impossible time in AT"])
    assert only(decoded["possible time"]).notes == []


def test_invalid_character_data_in_hexadecimal(decoded: dict[str, list[Row]]) -> None:
    for name in ("IBM-INVALID-COLUMN-002A-HEX", "IBM-INVALID-COLUMN-0002-A-HEX"):
        row = only(decoded[name])
        assert row.after == {"ID": "1", "NAME": "John", "NOTE": "é", "AMOUNT": None}
        assert (row.notes, row.absent) == (["hexadecimal of the source's bytes, column 2 (after)"], [])
    row = only(decoded["hex null"])
    assert (row.before["NAME"], row.before["NOTE"], row.after["NOTE"]) == (None, "", "A")
    assert row.notes == ["hexadecimal of the source's bytes, column 3 (before)"]
    row = only(decoded["hex lob"])
    assert row.after == {"CODE": "K1", "BITS": "4141", "WIDE": "w", "AT": None, "N": "1"}
    assert (row.absent, row.key) == (["BODY", "DOC"], {"CODE": "K1"})
    assert only(decoded["hex in another page"]).after == {"ID": "1", "NAME": "AB", "NOTE": "a", "AMOUNT": None}
    assert only(decoded["hex in 943"]).after == {"ID": "1", "NAME": "日本", "NOTE": "\u3000", "AMOUNT": None}


def test_hexadecimal_that_cannot_be_read_was_not_sent(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["hex no text"])
    assert (row.after, row.absent) == ({"ID": "1", "NOTE": "AB", "AMOUNT": None}, ["NAME"])
    assert row.notes[1:] == ["taken as not sent, for its hexadecimal is no text in 1208: NAME"]
    row = only(decoded["hex, page not named"])
    assert (row.after, row.absent) == ({"ID": "1", "NOTE": "", "AMOUNT": None}, ["NAME"])
    assert row.before == {"ID": "1", "NOTE": None, "AMOUNT": "1.00"}
    assert row.notes[1:] == [
        "taken as not sent, for its hexadecimal: the feed does not name the source's code page: NAME"
    ]
    row = only(decoded["hex in a cp037 message"])
    assert (row.after, row.absent) == ({"ID": "1", "NOTE": "", "AMOUNT": None}, ["NAME"])
    for name, text in (("hex not in 943", "A"), ("hex not in 424", "A")):
        assert (only(decoded[name]).after["NOTE"], only(decoded[name]).absent) == (text, ["NAME"])
    assert only(decoded["hex keyless read"]).after == {"A": "1", "B": "A"}


def test_invalid_character_data_that_was_not_sent(decoded: dict[str, list[Row]]) -> None:
    row = only(decoded["null form"])
    assert row.after == {"ID": "1", "AMOUNT": None}
    assert row.before == {"ID": "1", "AMOUNT": "1.00"}
    assert row.absent == ["NAME", "NOTE"]
    assert row.notes == ["character data not sent, column 2 (after)"]
    row = only(decoded["null delete"])
    assert (row.op, row.key, row.absent) == ("delete", {"ID": "1"}, ["NAME", "NOTE"])


PROBLEMS = {
    "hex no hex": "hexadecimal",
    "null key": "a key column was not sent",
    "hex key, page not named": "a key column is in hexadecimal, and `source_code_page`",
    "hex old key": "a key column is in hexadecimal, and `source_code_page`",
    "hex keyless": "its table has no key",
    "hex keyless old": "its table has no key",
    "null keyless": "its table has no key",
    "keyless, before not captured": "its before values are all null, and its table has no key",
    "keyless with a LOB": "its table has no key, and a LOB",
    "typographic": "typographic quotation mark",
    "typographic bare": "typographic quotation mark",
    "truncated header": "a string is not closed",
    "truncated string": "a string is not closed",
    "too few": "2 values: TEST.T has 4 columns in the feed file, so a record has 8"[1:],
    "too many": "values: TEST.T has 4 columns",
    "unknown table": "table TEST.X is not in the feed file",
    "unknown operation": "operation UPSR is not ISRT, REPL or DLET",
    "unknown identifier": "identifier IBM-INVALID-THING is not",
    "bad lsn": "commit LSN",
    "short unit": "transaction identifier",
    "bad segment": "segment number",
    "not doubled": "goes on after its closing string delimiter",
    "carriage return": "carriage return",
    "insert with before": "an ISRT with before values",
    "delete with after": "a DLET with after values",
    "no header": "header",
    "only commas": "header of a change-data record",
    "nothing": "empty",
    "null": "empty",
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_cannot_be_decoded_says_why(decoded: dict[str, list[Row]], name: str) -> None:
    (row,) = decoded[name]
    assert row.op == "bad"
    assert PROBLEMS[name] in row.problem
    assert (row.key, row.before, row.after, row.absent) == (None, None, None, None)


def test_a_bad_record_leaves_its_neighbours_alone(decoded: dict[str, list[Row]]) -> None:
    for name in ("one bad among good", "stray line"):
        assert [row.op for row in decoded[name]] == ["insert", "bad", "insert"]
        assert [row.position.split(".")[2] for row in decoded[name] if row.position][::2] in (
            ["000000", "000002"],
            ["000000"],
        )
    assert decoded["one bad among good"][2].position.split(".")[2] == "000002"
    assert decoded["stray line"][2].position.split(".")[2] == "000002"
    assert [row.op for row in decoded["stray first"]] == ["bad", "insert"]
    assert [row.op for row in decoded["not utf-8"]] == ["bad", "insert"]
    assert decoded["not utf-8"][0].problem == "the record is not text in utf-8"
    assert {row.op for row in decoded["binary"]} == {"bad"}
    assert {row.op for row in decoded["wrapped"]} == {"bad"}
    assert [row.op for row in decoded["empty lines"]] == ["insert", "insert"]


def test_a_bad_record_still_says_where_it_belongs(decoded: dict[str, list[Row]]) -> None:
    row = decoded["too few"][0]
    assert (row.source_table, row.tx_end) == ("TEST.T", True)
    assert row.tx == decoded["insert"][0].tx
    assert decoded["bad lsn"][0].tx is None


def test_typographic_quotes_are_no_harm_inside_a_string(decoded: dict[str, list[Row]]) -> None:
    assert only(decoded["typographic inside"]).after["NAME"] == "“John”"


def test_all_four_delimiters_can_differ(decoded: dict[str, list[Row]]) -> None:
    first, second = decoded["other delimiters"]
    assert first.after == {"ID": "1", "NAME": "John", "NOTE": "ab  ", "AMOUNT": "12,50"}
    assert second.after == {"ID": "2", "NAME": 'it\'s; "so|1"\n', "NOTE": "", "AMOUNT": "-1,00"}
    assert only(decoded["§"]).after == {"ID": "1", "NAME": "é,", "NOTE": "", "AMOUNT": None}


@pytest.mark.parametrize("name", PAGES)
def test_ebcdic(decoded: dict[str, list[Row]], name: str) -> None:
    first, second = decoded[name]
    assert first.problem is None
    assert first.after["NAME"] == "a[b]\n^é"
    assert (second.after, second.position[:38]) == (decoded["insert"][0].after, first.position[:38])


def test_a_code_page_has_its_own_euro(decoded: dict[str, list[Row]]) -> None:
    assert only(decoded["euro"]).after["NAME"] == "5 €"


def test_tables_of_several_owners_share_a_message_and_a_name(decoded: dict[str, list[Row]]) -> None:
    rows = decoded["two owners"]
    assert [(row.op, row.source_table) for row in rows] == [
        ("insert", "TEST.T"), ("insert", "OTHER.T"), ("insert", "TEST.T"),
    ]  # fmt: skip
    assert (rows[1].key, rows[1].after) == ({"CODE": "T1"}, {"CODE": "T1", "N": "1.5"})
    assert [row.position.split(".")[2] for row in rows] == ["000000", "000001", "000002"]


def test_lsns_of_both_lengths_sort_as_numbers(decoded: dict[str, list[Row]]) -> None:
    positions = [only(decoded[f"lsn {i}"]).position for i in range(6)]
    assert positions == sorted(positions)
    assert len({len(position) for position in positions}) == 1
    assert len({only(decoded[f"lsn {i}"]).tx for i in range(6)}) == 6
