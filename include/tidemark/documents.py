"""JSON documents in text, where Spark's readers look at the first one only."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def goes_on(text: Column) -> Column:
    """Whether a text that begins with a JSON object goes on behind it: another document, or rubbish.

    ``from_json`` reads the first document and says nothing of the rest, which would be lost. Only a text that can go on
    (it holds two braces back to back, or does not end in one) is read a second time, inside brackets: as a list of one.
    """
    may = text.contains("}{") | text.contains("} {") | ~text.endswith("}")
    documents = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    one = F.coalesce(documents == 1, F.lit(False)) & ~text.endswith("]")  # which would close the list itself
    return F.when(may, ~one).otherwise(False)
