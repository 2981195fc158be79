"""What MLflow keeps of a run: names that it takes, each once, and the numbers of run.json."""

from __future__ import annotations

import re
from dataclasses import replace

from transload.pipeline.extras.tracking.run_figures import run_figures, run_params

from ...result.compare.test_run_comparison import small


def test_metrics_are_those_of_run_json() -> None:
    run = small(sqnr_db=90.0)
    figures = {figure.name: figure for figure in run_figures(run)}
    row = next(row for row in run.drift if row.sqnr_db == 90.0)
    name = f"{row.artifact.replace(':', '-')}/{row.runtime}/batch-{row.batch}/sqnr_db"
    assert (figures[name].value, figures[name].artifact) == (90.0, row.artifact)
    assert len(figures) == len(run_figures(run))


def test_names_have_only_letters_that_mlflow_takes() -> None:
    run = small()
    strange = tuple(replace(row, artifact="http://a:1/b?c") for row in run.drift)
    names = [figure.name for figure in run_figures(replace(run, drift=strange))]
    assert [name for name in names if not re.fullmatch(r"[\w\-. /]+", name)] == []


def test_parameters_have_the_machine_and_its_libraries() -> None:
    run = small()
    params = run_params(run, "net")
    assert params["model"] == "net"
    assert params["machine/cpu"] == run.environment.cpu
    assert {f"package/{name}" for name in run.environment.packages} <= {*params}
