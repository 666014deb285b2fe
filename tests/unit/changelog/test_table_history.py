"""What a row from before a table's statements has in the columns that they added."""

from __future__ import annotations

import pytest

from tidemark.changelog.table_history import ColumnRename, Definition

ADD = ColumnRename(position="1", names=(), filled=(("z", "new"),))
RENAME = (("z", "x"),)


@pytest.mark.parametrize(
    ("later", "filled"),
    [
        ([RENAME], {"x": "new"}),
        # a batch that was sent again: the column has its new name already, and nothing took its place
        ([RENAME, RENAME], {"x": "new"}),
        ([RENAME, (("x", "y"),), RENAME], {"y": "new"}),
        ([(("a", "z"),)], {}),  # z was dropped, as another column has its name
        ([RENAME, (("a", "x"),)], {}),
        ([(("z", None),)], {}),
    ],
)
@pytest.mark.promise(1, 2)
def test_a_default_goes_with_its_column(
    later: list[tuple[tuple[str, str | None], ...]], filled: dict[str, str]
) -> None:
    renames = (ColumnRename(position=str(at), names=names) for at, names in enumerate(later, 2))
    assert Definition(column_renames=(ADD, *renames)).filled_now[0] == filled
