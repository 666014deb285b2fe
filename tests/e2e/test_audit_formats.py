"""No format makes an audit find what is not there: the fold of the whole log is what its hours came to one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.generated import HOURS, generated, run_all
from tidemark.operations.audit import audit
from tidemark.samples import canal, dataworks, debezium, ibm, qlik
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(1)]

SAMPLES = {"canal": canal, "dataworks": dataworks, "debezium": debezium, "ibm": ibm, "qlik": qlik}


@pytest.mark.parametrize("format_", SAMPLES)
def test_no_format_has_a_difference_of_its_own(format_: str, tmp_path: Path, settings: Settings) -> None:
    """Partial rows, key changes, truncates, renames, keyless tables, poison, transactions across hours."""
    more = {"container": "raw"} if format_ == "ibm" else {}
    found = generated(SAMPLES[format_], tmp_path, f"au_{format_}", events=60, seed=11, poison=2, **more)
    # Qlik's second hour brings metadata that the third one's rows wait for.
    run_all(found, settings, [HOURS[0], HOURS[2], HOURS[1]])
    assert [str(difference) for difference in audit(found, settings).findings] == []
