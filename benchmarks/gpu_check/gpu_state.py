"""What earlier calls measured: a folder beside the result with one JSON file a step, and the machine that it is of."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# What must not change from call to call. Numbers of another one do not belong in the same table.
IDENTITY = ("device", "gpu.name", "gpu.uuid", "gpu.driver", "cpu", "cpu_cores", "python", "small", "packages")


class MachineChanged(Exception):
    """The machine is not that of the records, in one sentence."""


class StepRecords:
    """The folder of records. A step is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def claim(self, machine: Mapping[str, Any], *, same_kind: bool = False) -> dict[str, Any]:
        """Compare this machine with that of the records, and write it down at the first call. Returns the recorded one.
        `same_kind`: another GPU of the same name will do; its UUID is added to `gpus_seen`.
        Raises MachineChanged."""
        path = self.folder / "machine.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        uuid = (machine.get("gpu") or {}).get("uuid")
        if not path.exists():
            recorded = {**machine, "gpus_seen": [uuid] if uuid else []}
            write_json(path, recorded)
            return recorded
        recorded = json.loads(path.read_text())
        ignored = {"gpu.uuid"} if same_kind else set()
        changes = [
            f"{key} was {_at(recorded, key)} and is {_at(machine, key)}"
            for key in IDENTITY
            if key not in ignored and _at(recorded, key) != _at(machine, key)
        ]
        if changes:
            only = (
                " Another GPU of the same name is taken with --same-kind."
                if len(changes) == 1 and "uuid" in changes[0]
                else ""
            )
            raise MachineChanged(
                f"{self.folder} holds measurements of another machine: {'; '.join(changes)}. "
                f"Measure with another --out, or remove that folder.{only}"
            )
        if uuid and uuid not in recorded["gpus_seen"]:
            recorded["gpus_seen"].append(uuid)
            write_json(path, recorded)
        return dict(recorded)

    def save(self, name: str, record: Mapping[str, Any]) -> None:
        """Keep the record of a step."""
        write_json(self.folder / f"{name}.json", record)

    def load(self) -> dict[str, dict[str, Any]]:
        """Return all records by the step's name."""
        paths = sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []
        return {path.stem: json.loads(path.read_text()) for path in paths if path.stem != "machine"}

    def drop(self, names: Iterable[str]) -> None:
        """Forget steps, to measure them again."""
        for name in names:
            (self.folder / f"{name}.json").unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write beside and rename: a reader, and the next call after a kill, find the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _at(machine: Mapping[str, Any], key: str) -> Any:
    value: Any = machine
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
