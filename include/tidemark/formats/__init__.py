"""What a record says: one module per format, found by name through this registry.

A format's module offers what :class:`tidemark.formats.contract.Format` asks for. Modules are imported when a feed names
them, so that reading feed files for the DAGs does not import Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tidemark.formats.canal import decode as canal
    from tidemark.formats.contract import (
        BindsRows,
        Format,
        KnowsGaps,
        MarksLoads,
        PlacesRows,
        SharesMoments,
        SharesPositions,
        TellsDeliveries,
        TellsTableChanges,
        TiesTransactions,
    )
    from tidemark.formats.dataworks import decode as dataworks
    from tidemark.formats.debezium import decode as debezium
    from tidemark.formats.ibm import decode as ibm
    from tidemark.formats.qlik import decode as qlik

    # The type checker compares each module with the Protocols here: at run time a module is found by its name alone.
    _canal: Format = canal
    _dataworks: Format = dataworks
    _debezium: Format = debezium
    _ibm: Format = ibm
    _qlik: Format = qlik
    _canal_tells: TellsTableChanges = canal
    _dataworks_tells: TellsTableChanges = dataworks
    _qlik_tells: TellsTableChanges = qlik
    _qlik_binds: BindsRows = qlik
    _dataworks_ties: TiesTransactions = dataworks
    _debezium_places: PlacesRows = debezium
    _ibm_tells: TellsDeliveries = ibm
    _canal_shares: SharesPositions = canal
    _canal_has_moments: SharesMoments = canal
    _debezium_shares: SharesPositions = debezium
    _debezium_marks: MarksLoads = debezium
    _qlik_marks: MarksLoads = qlik
    _debezium_knows: KnowsGaps = debezium
    _qlik_knows: KnowsGaps = qlik

FORMATS = {
    "canal": "tidemark.formats.canal.decode",
    "dataworks": "tidemark.formats.dataworks.decode",
    "debezium": "tidemark.formats.debezium.decode",
    "ibm": "tidemark.formats.ibm.decode",
    "qlik": "tidemark.formats.qlik.decode",
}


def load_format(name: str) -> Format:
    """The module of a format. ``KeyError`` when nobody registered it (feed files are checked before)."""
    return cast("Format", import_module(FORMATS[name]))
