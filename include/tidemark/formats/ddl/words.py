"""The words of DDL statements, sorted by what they mean for a table's columns and rows."""

from __future__ import annotations

#: Statements that may change rows, by their first word.
CHANGING_VERBS = {
    "TRUNCATE", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "LOAD", "CALL", "COPY", "WITH", "EXEC", "EXECUTE",
    "DO", "IMPORT",
}  # fmt: skip
#: Statements that change neither columns nor rows.
IRRELEVANT_VERBS = {
    "GRANT", "REVOKE", "DENY", "COMMENT", "ANALYZE", "OPTIMIZE", "FLUSH", "SET", "USE", "BEGIN", "COMMIT", "ROLLBACK",
    "SAVEPOINT", "RELEASE", "XA", "START", "LOCK", "UNLOCK", "CHECK", "REPAIR", "SHOW", "EXPLAIN", "VACUUM", "REINDEX",
    "CLUSTER", "REFRESH", "AUDIT", "NOAUDIT", "PURGE", "KILL", "RESET", "DISCARD", "CHECKSUM", "INSTALL", "UNINSTALL",
}  # fmt: skip
#: Words that begin a statement and no clause of an ALTER TABLE; and such that do so in two words.
STATEMENTS = {"CREATE", "EXEC", "EXECUTE"}
STATEMENTS_OF_TABLES = {
    ("ALTER", "TABLE"), ("ALTER", "ONLINE"), ("ALTER", "OFFLINE"), ("ALTER", "IGNORE"), ("RENAME", "TABLE"),
    ("RENAME", "TABLES"), ("SET", "STATEMENT"),
}  # fmt: skip
#: Clauses of ALTER TABLE that change neither columns nor rows, by their first word.
OTHER_CLAUSES = {
    "ENGINE", "COMMENT", "AUTO_INCREMENT", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION",
    "DATA", "DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE", "ORDER", "ROW_FORMAT", "ALGORITHM", "LOCK",
    "FORCE", "ENABLE", "DISABLE", "ENCRYPTION", "INDEX", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS",
    "DELAY_KEY_WRITE", "INSERT_METHOD", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "PARTITION",
    "REORGANIZE", "COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "NOCHECK", "REPAIR", "REMOVE", "UPGRADE",
    "WITH", "WITHOUT", "TABLESPACE", "SECONDARY_ENGINE", "OWNER", "VALIDATE", "VALIDATION", "CLUSTER", "REPLICA",
    "INHERIT", "NO", "PARALLEL", "NOPARALLEL", "LOGGING", "NOLOGGING", "MOVE", "SHRINK", "CACHE", "NOCACHE", "COMPRESS",
    "NOCOMPRESS", "MONITORING", "NOMONITORING", "INITRANS", "PCTFREE", "STORAGE", "FLASHBACK", "SPLIT", "RESET",
    "PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "TRANSACTIONAL", "ENCRYPTED", "ENCRYPTION_KEY_ID",
    "SECONDARY_LOAD", "SECONDARY_UNLOAD", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE",
}  # fmt: skip
#: Clauses of ALTER TABLE that add or remove rows, by their first word; and what Oracle writes in others that do.
ROW_CLAUSES = {"TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "SWITCH", "DETACH", "ATTACH", "CONVERT"}
ROWS_KEPT = ("INCLUDING", "ROWS")
#: Words that begin what is no column, in a list of columns and behind ADD, DROP and MODIFY. The dialect reserves them: a
#: column of such a name is quoted.
NO_COLUMN = {
    "mysql": {
        "INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PARTITION", "DEFAULT", "CONSTRAINT",
    },
    "oracle": {"UNIQUE", "CHECK", "DEFAULT", "CONSTRAINT"},
    "postgres": {"UNIQUE", "FOREIGN", "CHECK", "DEFAULT", "CONSTRAINT"},
    "sqlserver": {
        "INDEX", "KEY", "UNIQUE", "FOREIGN", "CHECK", "DEFAULT", "CONSTRAINT", "CLUSTERED", "NONCLUSTERED",
    },
}  # fmt: skip
#: The same in two words, where the first alone is a name like others.
NO_COLUMN_PAIRS = {
    ("FOREIGN", "KEY"), ("PERIOD", "FOR"), ("SYSTEM", "VERSIONING"), ("VECTOR", "INDEX"), ("VECTOR", "KEY"),
    ("SUPPLEMENTAL", "LOG"), ("LOB", "("), ("UNUSED", "COLUMN"), ("UNUSED", "COLUMNS"), ("EXCLUDE", "USING"),
    ("EXCLUDE", "("),
}  # fmt: skip
#: What column definitions of MySQL and MariaDB hold that says nothing of values and that no parser need read, by its first
#: words, with the number of all. (https://dev.mysql.com/doc/refman/8.4/en/create-table.html,
#: https://mariadb.com/kb/en/create-table/) What stands behind ``=`` goes with it.
PASSED_OVER = {
    ("SRID",): 2, ("REF_SYSTEM_ID",): 1, ("STORAGE",): 2, ("COLUMN_FORMAT",): 2, ("COMPRESSED",): 1, ("VISIBLE",): 1,
    ("ENGINE_ATTRIBUTE",): 2, ("SECONDARY_ENGINE_ATTRIBUTE",): 2, ("PERSISTENT",): 1, ("NOT", "ENFORCED"): 2,
    ("WITH", "SYSTEM", "VERSIONING"): 3, ("WITHOUT", "SYSTEM", "VERSIONING"): 3,
}  # fmt: skip
#: Words between CREATE and the kind of object that it creates.
CREATE_FLAGS = {
    "OR", "REPLACE", "GLOBAL", "LOCAL", "PRIVATE", "UNLOGGED", "UNIQUE", "FULLTEXT", "SPATIAL", "BITMAP", "CLUSTERED",
    "NONCLUSTERED", "PUBLIC", "FORCE", "EDITIONABLE", "NONEDITIONABLE", "ONLINE", "OFFLINE",
}  # fmt: skip
#: Clauses of ALTER TABLE that change columns or the key, or rename the table.
TABLE_VERBS = {"ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "ALTER", "SET"}
