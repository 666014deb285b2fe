"""DDL statements of four databases: what they say of columns, what says nothing, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.formats.ddl.statements import DIALECTS, Ddl, read_ddl
from tidemark.values.table_changes import TableRenamed, UnsentRows

STATEMENTS: list[tuple[str, str, Ddl]] = [
    # MySQL
    ("mysql", "ALTER TABLE `s`.`t` ADD COLUMN `note` varchar(200) NULL COMMENT 'x, (y' AFTER `id`",
     Ddl(columns={"note": "VARCHAR(200)"})),
    ("mysql", "alter table t add c int, drop column a, change d `e` decimal(9,2), rename column f to g, modify h text first",
     Ddl(columns={"c": "INT", "e": "DECIMAL(9, 2)", "h": "TEXT"}, renamed={"d": "e", "f": "g"}, dropped={"a"})),
    ("mysql", "ALTER TABLE t ADD (x int, y varchar(3))", Ddl(columns={"x": "INT", "y": "VARCHAR(3)"})),
    ("mysql", "ALTER TABLE t ADD c int, ALGORITHM=INPLACE, LOCK=NONE, ADD d int", Ddl(columns={"c": "INT", "d": "INT"})),
    ("mysql", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a, b(10))", Ddl(key=("a", "b"))),
    ("mysql", "ALTER TABLE t DROP PRIMARY KEY", Ddl(key=())),
    ("mysql", "ALTER TABLE t ADD CONSTRAINT PRIMARY KEY (a)", Ddl(key=("a",))),
    ("mysql", "ALTER TABLE t ADD INDEX i (a), ADD `key` int, DROP `index`", Ddl(columns={"key": "INT"}, dropped={"index"})),
    ("mysql", "ALTER TABLE t CHANGE c c bigint(20) unsigned", Ddl(columns={"c": "BIGINT(20) UNSIGNED"})),
    ("mysql", "ADD COLUMN x int", Ddl(columns={"x": "INT"})),
    # words that begin a clause with others, and are names without these
    ("mysql", "ALTER TABLE t ADD COLUMN period INT, ADD system INT, ADD lob int, ADD exclude int, ADD clustered int",
     Ddl(columns=dict.fromkeys(("period", "system", "lob", "exclude", "clustered"), "INT"))),
    ("mysql", "ALTER TABLE t ADD COLUMN (period int, INDEX (a), KEY k (b), unused int)",
     Ddl(columns={"period": "INT", "unused": "INT"})),
    ("mysql", "ALTER TABLE t DROP COLUMN period, DROP system, DROP COLUMN unused",
     Ddl(dropped={"period", "system", "unused"})),
    ("mysql", "ALTER TABLE t MODIFY period int, MODIFY COLUMN nonclustered int",
     Ddl(columns={"period": "INT", "nonclustered": "INT"})),
    ("mysql", "CREATE TABLE t (id int primary key, period int, supplemental int, PERIOD FOR SYSTEM_TIME (a, b))",
     Ddl(columns={"id": "INT", "period": "INT", "supplemental": "INT"}, key=("id",), whole=True)),
    ("postgres", "CREATE TABLE t (key int PRIMARY KEY, index int, EXCLUDE USING gist (c WITH &&), partition int)",
     Ddl(columns={"key": "INT", "index": "INT", "partition": "INT"}, key=("key",), whole=True)),
    ("postgres", "ALTER TABLE t RENAME key TO k, ALTER index TYPE bigint",
     Ddl(columns={"index": "BIGINT"}, renamed={"key": "k"})),
    ("oracle", "ALTER TABLE t ADD (period NUMBER(3), partition NUMBER(3))",
     Ddl(columns={"PERIOD": "NUMBER(3)", "PARTITION": "NUMBER(3)"})),
    ("oracle", "ALTER TABLE t DROP (key, lob)", Ddl(dropped={"KEY", "LOB"})),
    ("sqlserver", "ALTER TABLE t DROP COLUMN period, CONSTRAINT c", Ddl(dropped={"period"})),
    ("mysql", "RENAME COLUMN a TO b", Ddl(renamed={"a": "b"})),
    # MariaDB: what is not there is passed over
    ("mysql", "ALTER TABLE t CHANGE COLUMN IF EXISTS a b int", Ddl(columns={"b": "INT"}, renamed={"a": "b"}, guarded={"a"})),
    ("mysql", "ALTER TABLE t RENAME COLUMN IF EXISTS a TO b", Ddl(renamed={"a": "b"}, guarded={"a"})),
    ("mysql", "/* a comment; */ ALTER TABLE t ADD c int;", Ddl(columns={"c": "INT"})),
    ("mysql", "CREATE INDEX i ON t (a); ALTER TABLE t ADD c int", Ddl(columns={"c": "INT"})),
    ("mysql", "ALTER TABLE t ADD id bigint auto_increment primary key", Ddl(columns={"id": "BIGINT"}, key=("id",))),
    ("mysql", "CREATE TABLE `t` (`id` bigint(20) unsigned NOT NULL AUTO_INCREMENT, e enum('a,','b)') DEFAULT 'a', "
     "ts timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), PRIMARY KEY (`id`) USING BTREE, "
     "KEY k (e)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*!50100 PARTITION BY KEY () */",
     Ddl(columns={"id": "BIGINT(20) UNSIGNED", "e": "ENUM('a,', 'b)')", "ts": "TIMESTAMP(3)"}, key=("id",), whole=True)),
    ("mysql", "CREATE TABLE t (a int)", Ddl(columns={"a": "INT"}, key=(), whole=True)),
    ("mysql", "ALTER TABLE t ADD (a REAL(10,2), b int8, c middleint, d long, `real` int)",
     Ddl(columns={"a": "DOUBLE(10, 2)", "b": "BIGINT", "c": "MEDIUMINT", "d": "MEDIUMTEXT", "real": "INT"})),
    ("sqlserver", "ALTER TABLE t ADD a real", Ddl(columns={"a": "FLOAT"})),
    # types that parsers do not know under every name, or not with every word behind them
    ("mysql", "ALTER TABLE t ADD (a point NOT NULL SRID 0, b geometrycollection, c float(7,4) unsigned zerofill, d float4 "
     "unsigned, e national varchar(9), f long varchar, g bool default true, h nchar varchar(3))",
     Ddl(columns={"a": "GEOMETRY", "b": "GEOMETRY", "c": "FLOAT(7, 4)", "d": "FLOAT", "e": "VARCHAR(9)", "f": "MEDIUMTEXT",
                  "g": "TINYINT(1)", "h": "VARCHAR(3)"}, filled={"g": "1"},
         unfilled={"a": "it is NOT NULL without a default, and what its type then holds is no value that a table can"})),
    ("mysql", "ALTER TABLE t ADD (a bigint(20) zerofill, b int zerofill unsigned, c double unsigned, "
     "d decimal(5,2) zerofill, `unsigned` int, e int unsigned AS (CAST(b AS UNSIGNED)), f varchar(9) default 'zerofill')",
     Ddl(columns={"a": "BIGINT(20) UNSIGNED", "b": "INT UNSIGNED", "c": "DOUBLE UNSIGNED", "d": "DECIMAL(5, 2) UNSIGNED",
                  "unsigned": "INT", "e": "INT UNSIGNED", "f": "VARCHAR(9)"}, filled={"f": "zerofill"},
         unfilled={"e": "the source computes its values"})),
    ("mysql", "ALTER TABLE t WAIT 5 ADD a int, ORDER BY a, `b`, c DESC", Ddl(columns={"a": "INT"})),
    ("mysql", "ALTER TABLE t NOWAIT DROP a", Ddl(dropped={"a"})),
    # what MySQL and MariaDB run of comments, and what stands before a statement
    ("mysql", "ALTER TABLE t /*!80000 ADD a INT DEFAULT 5 */", Ddl(columns={"a": "INT"}, filled={"a": "5"})),
    ("mysql", "/*!50001 ALTER TABLE t DROP COLUMN a */", Ddl(dropped={"a"})),
    ("mysql", "ALTER TABLE t ADD a INT /*M!100301 DEFAULT 5 */ /*!80023 INVISIBLE */ /* DEFAULT 6 */ COMMENT '/*! x'",
     Ddl(columns={"a": "INT"}, filled={"a": "5"})),
    ("mysql", "ALTER TABLE t ADD (p geometry/*!80003 SRID 0*/, a int /*!50606 STORAGE DISK*/, c text /*!100301 COMPRESSED*/)",
     Ddl(columns={"p": "GEOMETRY", "a": "INT", "c": "TEXT"})),
    ("mysql", "SET STATEMENT max_statement_time=60 FOR ALTER TABLE t DROP a", Ddl(dropped={"a"})),
    # what says nothing of values, of columns and of the table
    ("mysql", "ALTER TABLE t ADD (a int CHECK (a > 0) NOT ENFORCED DEFAULT 5, b int CONSTRAINT k CHECK (b > 0) NOT ENFORCED)",
     Ddl(columns={"a": "INT", "b": "INT"}, filled={"a": "5"})),
    ("mysql", "ALTER TABLE t ADD (a int ENGINE_ATTRIBUTE='' SECONDARY_ENGINE_ATTRIBUTE '' NULL, p point REF_SYSTEM_ID=3)",
     Ddl(columns={"a": "INT", "p": "GEOMETRY"})),
    ("mysql", "ALTER TABLE t ADD (a int WITHOUT SYSTEM VERSIONING, b text WITH SYSTEM VERSIONING COMPRESSED=zlib NOT NULL)",
     Ddl(columns={"a": "INT", "b": "TEXT"}, filled={"b": ""})),
    ("mysql", "ALTER TABLE t ADD a int AS (srid + compressed) PERSISTENT",
     Ddl(columns={"a": "INT"}, unfilled={"a": "the source computes its values"})),
    ("mysql", "ALTER TABLE t ENGINE_ATTRIBUTE='{}', PAGE_COMPRESSED=1, SECONDARY_ENGINE_ATTRIBUTE = '{}', DROP a",
     Ddl(dropped={"a"})),
    ("mysql", "ALTER TABLE t ADD (a inet6, b inet4 NOT NULL DEFAULT '0.0.0.0')",
     Ddl(columns={"a": "UUID", "b": "UUID"}, unfilled={"b": "how the source sends its default '0.0.0.0' is not known"})),
    ("mysql", "ALTER TABLE t ADD (a char(3) BYTE, b character varying(9) byte, c tinytext byte, d char byte, `byte` int)",
     Ddl(columns={"a": "BINARY(3)", "b": "VARBINARY(9)", "c": "TINYBLOB", "d": "BINARY", "byte": "INT"})),
    # of a text, a literal of bits is bytes, and a double has a text of its own
    ("mysql", "ALTER TABLE t ADD a CHAR(3) DEFAULT b'0110000101100010', ADD b VARCHAR(9) DEFAULT 1e3, ADD c INT DEFAULT 1e3",
     Ddl(columns={"a": "CHAR(3)", "b": "VARCHAR(9)", "c": "INT"}, filled={"a": "ab", "c": "1000"},
         unfilled={"b": "how the source sends its default 1e3 is not known"})),
    ("mysql", "ALTER TABLE t ADD a BIT(3) DEFAULT b'101', ADD b BINARY(2) DEFAULT b'01100001', ADD c CHAR(9) DEFAULT 1.50e1",
     Ddl(columns={"a": "BIT(3)", "b": "BINARY(2)", "c": "CHAR(9)"}, filled={"a": "5", "b": b"a\0", "c": "15"})),
    ("sqlserver", "ALTER TABLE t WITH NOCHECK ADD a INT NOT NULL DEFAULT 5",
     Ddl(columns={"a": "INTEGER"}, filled={"a": "5"})),
    # Oracle: unquoted names are in capitals, whatever the statement writes
    ("oracle", "ALTER TABLE s.t ADD (x NUMBER(10,2), \"y\" VARCHAR2(20 CHAR)) MODIFY (z NUMBER(3), n NOT NULL)",
     Ddl(columns={"X": "NUMBER(10, 2)", "y": "VARCHAR2(20 CHAR)", "Z": "NUMBER(3)"})),
    ("oracle", "ALTER TABLE t MODIFY x NUMBER(12)", Ddl(columns={"X": "NUMBER(12)"})),
    ("oracle", "ALTER TABLE t DROP (a, b) CASCADE CONSTRAINTS", Ddl(dropped={"A", "B"})),
    ("oracle", "ALTER TABLE t DROP COLUMN a CASCADE CONSTRAINTS", Ddl(dropped={"A"})),
    ("oracle", "ALTER TABLE t SET UNUSED (a, b)", Ddl(dropped={"A", "B"})),
    ("oracle", "ALTER TABLE t RENAME COLUMN a TO b", Ddl(renamed={"A": "B"})),
    ("oracle", "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a)", Ddl(key=("A",))),
    ("oracle", "CREATE TABLE t (id NUMBER(10) PRIMARY KEY, d DATE, CONSTRAINT u UNIQUE (d)) TABLESPACE x",
     Ddl(columns={"ID": "NUMBER(10)", "D": "DATE"}, key=("ID",), whole=True)),
    # PostgreSQL
    ("postgres", "ALTER TABLE ONLY s.t ADD COLUMN IF NOT EXISTS X numeric(10,2), ALTER COLUMN y TYPE bigint USING y::bigint",
     Ddl(columns={"x": "DECIMAL(10, 2)", "y": "BIGINT"}, if_missing={"x"})),
    ("mysql", "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a int default 5, b int), ADD c int",
     Ddl(columns=dict.fromkeys("abc", "INT"), filled={"a": "5"}, if_missing={"a", "b"})),
    ("postgres", "ALTER TABLE t ALTER y SET DATA TYPE varchar(20)", Ddl(columns={"y": "VARCHAR(20)"})),
    ("postgres", "ALTER TABLE t RENAME a TO \"B\"", Ddl(renamed={"a": "B"})),
    ("postgres", "ALTER TABLE t ALTER y TYPE varchar(20) USING (CAST(y AS text)), ALTER \"Z\" TYPE bigint USING \"Z\"",
     Ddl(columns={"y": "VARCHAR(20)", "Z": "BIGINT"})),
    ("postgres", "ALTER TABLE t ALTER y TYPE mood USING y::text::mood", Ddl(columns={"y": "mood"})),
    ("postgres", "ALTER TABLE t ALTER y TYPE character varying(3) USING y::varchar(3), ALTER z TYPE numeric USING z::decimal",
     Ddl(columns={"y": "VARCHAR(3)", "z": "DECIMAL"})),
    ("postgres", "ALTER TABLE t ALTER y TYPE timestamptz USING y::timestamp with time zone, ALTER z TYPE int USING z::int4",
     Ddl(columns={"y": "TIMESTAMPTZ", "z": "INT"})),
    ("mysql", "ALTER TABLE t MODIFY id int NOT NULL AUTO_INCREMENT", Ddl(columns={"id": "INT"})),
    # SQL Server
    ("sqlserver", "ALTER TABLE [t] ADD x int NULL, y nvarchar(20)", Ddl(columns={"x": "INTEGER", "y": "NVARCHAR(20)"})),
    ("sqlserver", "ALTER TABLE t ALTER COLUMN x bigint NOT NULL", Ddl(columns={"x": "BIGINT"})),
    ("sqlserver", "ALTER TABLE t DROP COLUMN a, b", Ddl(dropped={"a", "b"})),
    ("sqlserver", "EXEC sp_rename 'dbo.t.a', 'b', 'COLUMN'", Ddl(renamed={"a": "b"})),
    ("sqlserver", "EXEC sp_rename 'S.items.[a.b]', 'c', 'COLUMN'", Ddl(renamed={"a.b": "c"})),
    ("sqlserver", "EXEC sp_rename '[d.b]..[t].[a]]b]', '[c]', 'COLUMN'", Ddl(renamed={"a]b": "[c]"})),
    ("sqlserver", "EXEC sp_rename '\"t.u\".\"a.\"\"b\"', 'c', 'COLUMN'", Ddl(renamed={'a."b': "c"})),
    ("sqlserver", "EXEC sp_rename 't.a b', 'c', 'COLUMN'", Ddl(renamed={"a b": "c"})),
]  # fmt: skip

CLAUSES = [
    ("mysql", "DROP note", Ddl(dropped={"note"})),
    ("mysql", "/* x */ DROP `note`, ADD a int", Ddl(columns={"a": "INT"}, dropped={"note"})),
    ("oracle", "DROP (note)", Ddl(dropped={"NOTE"})), ("oracle", "SET UNUSED (note)", Ddl(dropped={"NOTE"})),
    ("postgres", "DROP IF EXISTS note", Ddl(dropped={"note"})), ("postgres", "RENAME a TO b", Ddl(renamed={"a": "b"})),
    ("postgres", "ALTER a TYPE bigint", Ddl(columns={"a": "BIGINT"})),
    ("mysql", "ALTER a SET DEFAULT 3, DROP note", Ddl(dropped={"note"})),
    ("mysql", "DROP INDEX i, DROP COLUMN note", Ddl(dropped={"note"})),
    ("sqlserver", "DROP COLUMN note, b", Ddl(dropped={"note", "b"})),
    ("mysql", "ALTER IGNORE TABLE t DROP note", Ddl(dropped={"note"})),
    ("mysql", "SET STATEMENT a=1 FOR ALTER TABLE t DROP note", Ddl(dropped={"note"})),
]  # fmt: skip
CLAUSES_THAT_SAY_NOTHING = [
    ("mysql", "DROP INDEX i ON t"), ("mysql", "CREATE INDEX i ON t (a)"), ("mysql", "COMMENT 'x'"), ("mysql", " "),
    ("oracle", "DROP INDEX i"), ("postgres", "DROP INDEX a, b"), ("postgres", "ALTER INDEX i RENAME TO j"),
    ("sqlserver", "DROP INDEX i ON t, j ON u"), ("sqlserver", "ALTER VIEW v AS SELECT a, b FROM t"),
]  # fmt: skip
REFUSED_CLAUSES = [
    ("mysql", "DROP PARTITION p0", "rows go"), ("mysql", "TRUNCATE PARTITION p0", "rows come or go"),
    ("mysql", "RENAME TO gone", "a table is renamed"), ("oracle", "RENAME a TO b", "a table is renamed"),
    ("mysql", "RENAME TABLE a TO b", "a table is renamed"), ("mysql", "FROB x", "not understood"),
]  # fmt: skip

SAYS_NOTHING = [
    ("mysql", "CREATE INDEX i ON t (a)"), ("mysql", "DROP INDEX i ON t"), ("mysql", "GRANT SELECT ON a.* TO b"),
    ("mysql", "ALTER TABLE t ADD UNIQUE KEY i (a)"), ("mysql", "ALTER TABLE t ENGINE=InnoDB"), ("mysql", " "),
    ("mysql", "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES b (c)"), ("mysql", "CREATE DATABASE x"),
    ("mysql", "ALTER TABLE t DROP FOREIGN KEY fk"), ("mysql", "ALTER TABLE t ALTER COLUMN a SET DEFAULT 3"),
    ("mysql", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"), ("mysql", "ALTER TABLE t CONVERT TO CHARSET utf8mb4"),
    ("mysql", "ALTER TABLE t CONVERT TO CHAR SET DEFAULT"), ("oracle", "ALTER TABLE t MOVE TABLESPACE x"),
    ("mysql", "ALTER TABLE t COMMENT = 'ADD x int'"),
    ("mysql", "ALTER DATABASE x CHARACTER SET utf8"), ("mysql", "CREATE VIEW v AS SELECT 1"), ("mysql", "BEGIN"),
    ("mysql", "CREATE TABLE t LIKE u"), ("mysql", "CREATE TABLE t AS SELECT * FROM u"), ("mysql", "CREATE USER x"),
    ("mysql", "CREATE TABLE IF NOT EXISTS t (a int)"), ("mysql", "CREATE TEMPORARY TABLE t (a int)"),
    ("mysql", "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))"),
    ("mysql", "ALTER TABLE t RENAME INDEX a TO b"), ("mysql", "ALTER IGNORE TABLE t ADD INDEX `unique` (a)"),
    ("mysql", "ALTER IGNORE TABLE t DROP INDEX i"), ("mysql", "ALTER TABLE t ADD UNIQUE (a)"),
    ("mysql", "CREATE DEFINER=`a`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a=1"), ("mysql", "ANALYZE TABLE t"),
    ("oracle", "COMMENT ON COLUMN t.a IS 'x'"), ("oracle", "ALTER TABLE t MODIFY x DEFAULT 3"),
    ("postgres", "ALTER TABLE t OWNER TO x"), ("postgres", "ALTER TABLE t ALTER COLUMN y SET NOT NULL"),
    ("sqlserver", "ALTER TABLE t ADD CONSTRAINT d DEFAULT 3 FOR a"),
    ("mysql", "ALTER TABLE t ADD SYSTEM VERSIONING"), ("mysql", "ALTER TABLE t ADD PERIOD FOR SYSTEM_TIME (a, b)"),
    ("mysql", "ALTER TABLE t ADD VECTOR INDEX (v)"), ("oracle", "ALTER TABLE t DROP UNUSED COLUMNS"),
    ("oracle", "ALTER TABLE t ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS"), ("oracle", "ALTER TABLE t MODIFY LOB (a) (CACHE)"),
    ("oracle", "ALTER TABLE t ADD PARTITION p VALUES LESS THAN (9)"),
    ("postgres", "ALTER TABLE t ADD EXCLUDE USING gist (a WITH =)"),
    ("sqlserver", "ALTER TABLE t ADD INDEX i CLUSTERED (a)"),
    ("sqlserver", "ALTER TABLE t WITH CHECK ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES b (c)"),
    ("sqlserver", "ALTER TABLE t WITH CHECK CHECK CONSTRAINT fk"), ("mysql", "ALTER TABLE t DEFAULT CHARACTER SET utf8mb4"),
    ("oracle", "ALTER TABLE t DISABLE PRIMARY KEY CASCADE DROP INDEX"),
    ("mysql", "SET PASSWORD FOR a = 'ALTER TABLE t DROP b'"),
    ("mysql", "ALTER TABLE t PARTITION BY HASH (add) /*!50100 PARTITIONS 4 */"),
]  # fmt: skip

REFUSED = [
    ("mysql", "RENAME TABLE a TO b", "a table is renamed"), ("mysql", "ALTER TABLE t RENAME TO u", "a table is renamed"),
    ("mysql", "ALTER TABLE t ADD c int, RENAME u", "a table is renamed"), ("mysql", "DROP TABLE a", "rows go"),
    ("postgres", "ALTER TABLE t SET SCHEMA x", "a table is renamed"),
    ("mysql", "INSERT INTO a VALUES (1)", "may change rows"),
    ("mysql", "TRUNCATE TABLE a", "may change rows"), ("mysql", "ALTER TABLE t DROP PARTITION p1", "rows go"),
    ("mysql", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "rows come or go"), ("mysql", "hello", "not understood"),
    ("mysql", "ALTER TABLE t FROBNICATE x", "not understood"), ("mysql", "ALTER TABLE t ADD", "not understood"),
    ("mysql", "ALTER TABLE t ADD a int, FROB b, ADD c int", "not understood"),
    ("mysql", "ALTER TABLE t CHANGE a", "not understood"), ("mysql", "ALTER TABLE t ORDER BY a, FROB b", "not understood"),
    ("mysql", "ALTER TABLE t ENGINE=InnoDB ADD a int", "not understood"),
    ("mysql", "SET STATEMENT a=1 FOR TRUNCATE TABLE t", "may change rows"),
    ("mysql", "CREATE TABLE t (b CONSTRAINT int, c int)", "definition of column b is not understood"),
    ("mysql", "ALTER TABLE t ADD x int 'open", "cannot be read"), ("mysql", "ALTER TABLE t ADD (a int", "not closed"),
    ("mysql", "ALTER TABLE t ADD c int; ALTER TABLE t ADD d int", "several statements"),
    ("mysql", "ALTER TABLE t ADD PRIMARY KEY", "without columns"),
    ("mysql", "ALTER IGNORE TABLE t ADD UNIQUE KEY u (a)", "rows go"),
    ("mysql", "ALTER ONLINE IGNORE TABLE t DROP PRIMARY KEY, ADD CONSTRAINT p PRIMARY KEY (a)", "rows go"),
    ("mysql", "ALTER IGNORE TABLE t ADD COLUMN c int UNIQUE", "rows go"),
    ("mysql", "ALTER TABLE t MODIFY COLUMN g INT GENERATED ALWAYS AS (b*3) STORED", "computed anew"),
    ("mysql", "ALTER TABLE t CHANGE g g INT AS (b*3)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER COLUMN price TYPE bigint USING price*100", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a SET DATA TYPE text USING upper(a)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE text USING a::date", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE text USING b", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a SET EXPRESSION AS (b * 3)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE varchar(20) USING a::varchar(3)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE varchar(20) USING a::varchar(3)::varchar(20)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE varchar(20) USING a::char", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE numeric USING a::numeric(5,1)", "computed anew"),
    ("postgres", "ALTER TABLE t ALTER a TYPE double precision USING a::real", "computed anew"),
    ("mysql", "ALTER TABLE t CONVERT PARTITION p0 TO TABLE x", "rows come or go"),
    ("mysql", "ALTER TABLE t CONVERT TABLE x TO PARTITION p VALUES LESS THAN (9)", "rows come or go"),
    ("oracle", "ALTER TABLE t MOVE INCLUDING ROWS WHERE a > 1", "rows come or go"),
    ("oracle", "ALTER TABLE t MODIFY PARTITION BY HASH (a) INCLUDING ROWS WHERE a > 1", "rows come or go"),
    ("oracle", "ALTER TABLE t SPLIT PARTITION p AT (5) INTO (PARTITION a, PARTITION b) INCLUDING ROWS WHERE a > 1",
     "rows come or go"),
    ("sqlserver", "EXEC sp_rename 'S.items.[a]b]', 'c', 'COLUMN'", "may change rows"),
    ("sqlserver", "EXEC sp_rename 'S.items.[a', 'c', 'COLUMN'", "may change rows"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "expected"), STATEMENTS, ids=[text[:60] for _, text, _ in STATEMENTS])
def test_a_statement_that_changes_columns(dialect: str, text: str, expected: Ddl) -> None:
    assert read_ddl(text, dialect) == expected


@pytest.mark.parametrize(("dialect", "text"), SAYS_NOTHING, ids=[text[:60] for _, text in SAYS_NOTHING])
def test_what_says_nothing(dialect: str, text: str) -> None:
    assert read_ddl(text, dialect) is None


@pytest.mark.parametrize(("dialect", "text", "reason"), REFUSED, ids=[text[:60] for _, text, _ in REFUSED])
def test_what_is_refused_is_named(dialect: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        read_ddl(text, dialect)
    assert text in str(error.value)
    moves_rows = reason in ("a table is renamed", "rows go", "rows come or go", "may change rows", "computed anew")
    assert isinstance(error.value, UnsentRows) == moves_rows, "what to do depends on it"


def test_what_alters_a_table_may_be_its_clauses_alone() -> None:
    for dialect, text, expected in CLAUSES:
        assert read_ddl(text, dialect, alters=True) == expected, text
    for dialect, text in CLAUSES_THAT_SAY_NOTHING:
        assert read_ddl(text, dialect, alters=True) is None, text
    for dialect, text, reason in REFUSED_CLAUSES:
        with pytest.raises(ValueError, match=reason) as error:
            read_ddl(text, dialect, alters=True)
        # No other table than the one that is altered may seem to be concerned.
        assert not isinstance(error.value, TableRenamed) or ("", "t") not in error.value.tables


SWAPS = [
    ("rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`", ("d", "_t_gho")),
    ("rename /* gh-ost */ table `d`.`t` to `d`.`_t_20260203040506_del`, `d`.`_t_gho` to `d`.`t`", ("d", "_t_gho")),
    ("RENAME TABLE `t` TO `_t_old`, `_t_new` TO `t`", ("", "_t_new")),
    ("RENAME TABLE d.t TO d.___t_old, d.___t_new TO d.t", ("d", "___t_new")),
    ("RENAME TABLE t TO tp_12_del_t, tp_12_ogt_t TO t", ("", "tp_12_ogt_t")),
    (f"RENAME TABLE {'t' * 62} TO _{'t' * 59}_del, _{'t' * 59}_gho TO {'t' * 62}", ("", f"_{'t' * 59}_gho")),
]
NO_SWAPS = [
    "RENAME TABLE t TO _t_old", "RENAME TABLE t TO u, v TO t", "RENAME TABLE t TO _t_old, _u_new TO t",
    "RENAME TABLE t TO tp_12_del_t, tp_13_ogt_t TO t", "RENAME TABLE t TO x._t_old, _t_new TO t",
    "RENAME TABLE _t_new TO t, t TO _t_old", "RENAME TABLE t TO _t_old, _t_gho TO t", "RENAME TABLE t TO _t_old, _t_new TO u",
    "RENAME TABLE t TO _t_old, _t_new TO t, a TO b",
]  # fmt: skip


@pytest.mark.parametrize(("text", "ghost"), SWAPS)
def test_a_changed_copy_takes_the_place_of_a_table(text: str, ghost: tuple[str, str]) -> None:
    found = read_ddl(text, "mysql")
    assert found is not None and found.swapped is not None
    assert (found.swapped[0], found.swapped[1][1].strip("t")) == (ghost, "")


@pytest.mark.parametrize("text", NO_SWAPS)
def test_another_rename_names_its_tables(text: str) -> None:
    with pytest.raises(TableRenamed) as error:
        read_ddl(text, "mysql")
    assert {("", "t")} <= set(error.value.tables)


FILLED = [
    ("int NOT NULL DEFAULT '5'", "5"), ("bigint default -7", "-7"), ("tinyint(1) default true", "1"),
    ("bit(3) default b'101'", "5"), ("int default 0x10", "16"), ("decimal(10,2) default 1.5", "1.50"),
    ("decimal default 1.5", "2"), ("numeric not null default -0.4", "0"), ("dec not null", "0"),
    ("decimal(10,2) not null", "0.00"), ("double not null", "0.0"), ("float default 1.1", "1.1"), ("real default 1.1", "1.1"),
    ("varchar(9) default 'it''s \\\\'", "it's \\"), ("varchar(9) default x'4142'", "AB"), ("char(5) default 'a '", "a"),
    ("varchar(9) NOT NULL", ""), ("text not null", ""), ("varbinary(4) default x'00ff'", b"\x00\xff"),
    ("binary(4) default 'ab'", b"ab\0\0"), ("binary(3) not null", b"\0\0\0"), ("binary not null", b"\0"),
    ("blob not null", b""), ("date default '2026-02-03'", "2026-02-03"),
    ("datetime(3) default '2026-02-03 04:05:06.7'", "2026-02-03 04:05:06.700"), ("time(2) not null", "00:00:00.00"),
    ("year default 26", "2026"), ("year default 70", "1970"), ("year default '0'", "2000"), ("year default 0", "0000"),
    ("year not null", "0000"), ("enum('x','y') not null", "x"), ("enum('x','y') default 'Y'", "y"),
    ("int default (5)", "5"), ("int", None),
    ("timestamp null", None), ("datetime", None), ("timestamp default null", None), ("int null default null", None),
    ("varchar(9) null", None),
]  # fmt: skip
UNFILLED = [
    ("datetime default current_timestamp on update current_timestamp", "no constant: CURRENT_TIMESTAMP"),
    ("datetime(3) default now(3)", "no constant: NOW"), ("int default (a + 1)", "no constant: a"),
    ("varchar(9) default (uuid())", "no constant: UUID"), ("int as (a + 1)", "computes"), ("serial", "computes"),
    ("int not null auto_increment", "computes"), ("date not null", "NOT NULL without a default"),
    ("json not null", "NOT NULL without a default"),
    ("timestamp not null", "depends on its version"), ("timestamp(3)", "depends on its version"),
    ("date default '0000-00-00'", "is not known"), ("int default 'x'", "is not known"),
    ("float default 3.14159265", "is not known"),
]  # fmt: skip


def test_an_expression_of_any_depth_says_that_it_cannot_be_read() -> None:
    deep = "ALTER TABLE t ADD c int AS (" + "abs(" * 500 + "a" + ")" * 500 + ")"
    with pytest.raises(ValueError, match="its SQL cannot be read"):
        read_ddl(deep, "mysql")


@pytest.mark.parametrize(("column", "value"), FILLED)
def test_a_constant_that_rows_of_before_have(column: str, value: str | bytes | None) -> None:
    found = read_ddl(f"ALTER TABLE t ADD COLUMN c {column} AFTER b", "mysql")
    assert found is not None
    assert (found.filled, found.unfilled) == ({} if value is None else {"c": value}, {})


@pytest.mark.parametrize(("column", "reason"), UNFILLED)
def test_a_default_that_is_no_constant_says_why(column: str, reason: str) -> None:
    found = read_ddl(f"ALTER TABLE t ADD c {column}", "mysql")
    assert found is not None and found.filled == {}
    assert reason in found.unfilled["c"]


@pytest.mark.parametrize("text", ["CREATE TABLE t (c int default 5)", "ALTER TABLE t MODIFY c int not null default 5"])
def test_only_an_added_column_fills_rows(text: str) -> None:
    found = read_ddl(text, "mysql")
    assert found is not None and (found.filled, found.unfilled) == ({}, {})


@pytest.mark.parametrize(
    ("dialect", "text", "filled"),
    [
        ("sqlserver", "ALTER TABLE t ADD c int DEFAULT 3", {}),
        ("sqlserver", "ALTER TABLE t ADD c int DEFAULT ((3)) WITH VALUES", {"c": "3"}),
        ("sqlserver", "ALTER TABLE t ADD c int NOT NULL CONSTRAINT d DEFAULT 3", {"c": "3"}),
        ("oracle", "ALTER TABLE t ADD (c number default 5 not null, d varchar2(9) default '')", {"C": "5"}),
        ("postgres", "ALTER TABLE t ADD c boolean not null default false", {"c": "false"}),
        ("postgres", "ALTER TABLE t ADD c int not null", {}),
        ("postgres", "ALTER TABLE t ADD c numeric default 1.5", {"c": "1.5"}),
        ("sqlserver", "ALTER TABLE t ADD c decimal not null default 1.5", {"c": "2"}),
        ("oracle", "ALTER TABLE t ADD c number default 1.5", {"C": "1.5"}),
        ("oracle", "ALTER TABLE t ADD c char(5) default 'x' not null", {"C": "x    "}),
        ("oracle", "ALTER TABLE t ADD c nchar(2 ) default N'x  '", {"C": "x "}),
        ("oracle", "ALTER TABLE t ADD c char(3 byte) default 7", {"C": "7  "}),
        ("postgres", "ALTER TABLE t ADD c character(3) default 'x'", {"c": "x  "}),
        ("sqlserver", "ALTER TABLE t ADD c nchar(3) not null default ''", {"c": "   "}),
        ("postgres", "ALTER TABLE t ADD c varchar(3) default 'x '", {"c": "x "}),
        ("sqlserver", "ALTER TABLE t ADD c binary(3) not null default 0x41", {"c": b"A\0\0"}),
        ("sqlserver", "ALTER TABLE t ADD c int not null default 0x10", {"c": "16"}),
        ("sqlserver", "ALTER TABLE t ADD c varbinary(max) not null default 0x41", {"c": b"A"}),
    ],
)
def test_defaults_of_other_databases(dialect: str, text: str, filled: dict[str, str | bytes]) -> None:
    found = read_ddl(text, dialect)
    assert found is not None and found.filled == filled


@pytest.mark.parametrize(
    ("dialect", "column"),
    [
        ("postgres", "bytea not null default '\\x41'"),
        ("postgres", "bytea default 'abc'"),
        ("postgres", "bit(3) default B'101'"),
        ("postgres", "bit(3) default '011'"),
        ("oracle", "blob default '41'"),
        ("sqlserver", "nvarchar(9) not null default 0x4100"),
        ("oracle", "char default 'x'"),
        ("oracle", "char(5) default 'é'"),
        ("oracle", "char(5) default 0.5"),
    ],
)
def test_defaults_of_other_databases_that_may_be_sent_in_another_way(dialect: str, column: str) -> None:
    found = read_ddl(f"ALTER TABLE t ADD c {column}", dialect)
    assert found is not None and found.filled == {}
    assert "is not known" in next(iter(found.unfilled.values()))


PIECES = st.sampled_from(
    sorted({word for _, text, *_ in (*STATEMENTS, *SAYS_NOTHING, *REFUSED) for word in text.split()})
)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(PIECES, max_size=9),
    st.sampled_from(["", "ALTER TABLE t ", "CREATE TABLE t ("]),
    st.sampled_from(list(DIALECTS)),
    st.booleans(),
)
def test_any_text_is_read_or_refused(pieces: list[str], start: str, dialect: str, alters: bool) -> None:
    """Nothing but ValueError comes out of a statement that makes no sense."""
    try:
        read_ddl(start + " ".join(pieces), dialect, alters=alters)
    except ValueError as error:
        assert str(error)
