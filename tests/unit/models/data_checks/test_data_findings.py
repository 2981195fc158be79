"""One rule says which faults are refused, and which are doubted."""

from __future__ import annotations

import pytest

from transload.models.data_checks.data_findings import DataFault, DataFinding, DataUse, doubts_of_data
from transload.models.errors import BadRequest

REFUSED = {
    DataUse.TRAINING: {"sample-not-finite", "label-not-finite", "label-outside"},
    DataUse.ANSWERS: {"label-not-finite", "label-outside"},
    DataUse.TIMES: {"label-not-finite", "label-outside"},
}


@pytest.mark.parametrize("use", DataUse)
@pytest.mark.parametrize("fault", DataFault)
def test_a_fault_is_refused_or_doubted_by_its_use(fault: DataFault, use: DataUse) -> None:
    finding = DataFinding(fault=fault, text="t.csv: it is so", fix="mend it")
    if fault in REFUSED[use]:
        with pytest.raises(BadRequest) as caught:
            doubts_of_data([finding], use)
        assert str(caught.value) == "t.csv: it is so\n  fix: mend it"
    else:
        assert doubts_of_data([finding], use) == (() if use is DataUse.TIMES else ("t.csv: it is so",))


def test_what_the_model_accepts_is_neither() -> None:
    finding = DataFinding(fault=DataFault.SAMPLE_NOT_FINITE, text="NaN", accepted=True)
    assert doubts_of_data([finding], DataUse.TRAINING) == ()


def test_one_error_names_three_faults_and_counts_the_rest() -> None:
    findings = [DataFinding(fault=DataFault.LABEL_OUTSIDE, text=f"fault {at}", fix=f"fix {at}") for at in range(5)]
    with pytest.raises(BadRequest) as caught:
        doubts_of_data(findings, DataUse.ANSWERS)
    assert str(caught.value) == "fault 0; fault 1; fault 2; 2 more faults\n  fix: fix 0"
