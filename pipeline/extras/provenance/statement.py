"""An artifact's statement: an in-toto Statement v1 with SLSA's provenance v1 as its predicate.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance. Whether
the artifact may be used is no part of SLSA's predicate; it stands in the extension `transload_verdict`.

The same conversion gives the same bytes: there is no time in a statement but that of the run's own record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ....models.store import digest_of_json
from ...drift.metrics.outcomes import SOURCE
from ...result.gate import worst_verdict
from ...result.schema import Environment, GateRow, Status, Verdict
from ...result.signing_keys import Signer
from ...show.card.card_records import Card
from .envelope import sign_envelope

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:transload:conversion:v1"
VERDICT = "transload_verdict"  # SLSA's names of extensions begin with the vendor's
_MACHINE = "transload_machine"
_KEY_LENGTH = 24  # hex characters of a machine's key


@dataclass(frozen=True, kw_only=True)
class BuildFacts:
    """What all artifacts of one command have in common."""

    command: str  # "run" or "convert"
    parameters: Mapping[str, Any]  # what the user asked for, as JSON values
    dependencies: Sequence[Mapping[str, Any]]  # in-toto's ResourceDescriptors: code, weights, data, commit
    environment: Environment
    run_id: str = ""  # of `run`
    started_at: str = ""  # of `run`, ISO 8601 in UTC


def statement_text(
    digests: Mapping[str, str],
    card: Card,
    build: BuildFacts,
    gate: Sequence[GateRow] = (),
    signer: Signer | None = None,
) -> str:
    """Return the text of provenance.json: the statement, or the envelope that holds it where there is a signer.
    `digests`: the sha256 of every file of the artifact, by its name; `gate`: the rows of its release rules."""
    statement = _to_text(make_statement(digests, card, build, gate))
    return statement if signer is None else _to_text(sign_envelope(statement.encode(), signer))


def make_statement(
    digests: Mapping[str, str], card: Card, build: BuildFacts, gate: Sequence[GateRow] = ()
) -> dict[str, Any]:
    """Return the statement as JSON values."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digests[name]}} for name in sorted(digests)],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "command": build.command,
                    "model": card.name,
                    "target": card.target,
                    "options": dict(build.parameters),
                },
                "internalParameters": {"route": list(card.route)},
                "resolvedDependencies": [_model_dependency(card), *map(dict, build.dependencies)],
            },
            "runDetails": _run_details(card, build),
            VERDICT: _verdict(card, gate),
        },
    }


def _model_dependency(card: Card) -> dict[str, Any]:
    """Return the model that the artifact was made from. The digest of code is over several files, and of our making."""
    known = card.provenance
    if known is None:
        return {"name": card.name, "annotations": {"role": "model"}}
    is_file = known.kind == "file" and "." in known.model  # a SavedModel is a folder
    key = "sha256" if is_file else "transload_sha256"
    return {
        "name": known.model,
        "digest": {key: known.sha256},
        "annotations": {"role": "model", "kind": known.kind},
    }


def _run_details(card: Card, build: BuildFacts) -> dict[str, Any]:
    """Return who made it: the machine, the versions, and of a run its id and its start."""
    machine = build.environment
    described = {
        "cpu": machine.cpu, "cores": machine.cores, "memory_bytes": machine.memory_bytes, "gpus": list(machine.gpus),
        "platform": machine.platform,
    }  # fmt: skip
    key = digest_of_json(described)[:_KEY_LENGTH]
    versions = {"transload": card.transload, "python": machine.python}
    for step in card.provenance.steps if card.provenance else ():
        versions |= step.made_with
    metadata = {"invocationId": build.run_id, "startedOn": build.started_at}
    return {
        "builder": {"id": f"urn:transload:machine:{key}", "version": versions, _MACHINE: described},
        "metadata": {name: value for name, value in metadata.items() if value},
    }


def _verdict(card: Card, gate: Sequence[GateRow]) -> dict[str, Any]:
    """Return whether the artifact may be used: its status, the comparisons and the release rules."""
    own = {Status.FAILED: Verdict.FAIL, Status.UNVERIFIED: Verdict.INCONCLUSIVE}.get(Status(card.status), Verdict.PASS)
    rows = [row for row in gate if row.artifact in (card.target, SOURCE[0])]
    return {
        "verdict": str(worst_verdict([own, *(row.verdict for row in rows)])),
        "status": card.status,
        "agreement": card.agreement,
        "checks": [check.to_json() for check in card.checks],
        "gate": [
            {name: value for name, value in asdict(row).items() if value is not None and name != "artifact"}
            for row in rows
        ],
    }


def _to_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
