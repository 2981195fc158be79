"""From records of steps to the document: a row a cell, with its ratio to eager float32, drift, share of the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from gpu_chips import known_rates, limit_for, share_of_limit
from gpu_plan import NETS, PRECISIONS, REFERENCE, RUNTIMES, Cell

from transload.pipeline.measure.bench.comparison import compare, log_ratios
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series
from transload.pipeline.measure.bench.statistics import Load, find_doubts
from transload.pipeline.result.ratio import Comparison, Ratio

SCHEMA = 1
Records = Mapping[str, Mapping[str, Any]]


def build_document(machine: Mapping[str, Any], records: Records, left: int) -> dict[str, Any]:
    """Return the whole result of what is measured so far. `left`: how many steps of the plan are still to do."""
    limits = records.get("limits", {})
    gpu = (machine.get("gpu") or {}).get("name")
    return {
        "schema": SCHEMA,
        "machine": dict(machine),
        "small_nets": bool(machine.get("small")),
        "steps_left": left,
        "measured_s": round(sum(record["spent_s"] for record in records.values()), 1),
        "limits": {
            "data_sheet_flops_per_s": known_rates(gpu),
            "matmul_flops_per_s": limits.get("matmul_flops_per_s", {}),
            "matmul_failed": limits.get("failed", {}),
            "at_rest": limits.get("at_rest"),
        },
        "flops_per_sample": limits.get("flops_per_sample", {}),
        "cells": cell_rows(records, gpu, int(machine.get("cpu_cores") or 1)),
        "recipes": [
            {key: record.get(key) for key in ("recipe", "drift", "latency", "lost")}
            for record in records.values()
            if record["kind"] == "recipe"
        ],
    }


def cell_rows(records: Records, gpu: str | None, cores: int) -> list[dict[str, Any]]:
    """Return a row for each cell that some step measured or lost, in the order of net, batch, precision, runtime."""
    by_cell: dict[Cell, list[Mapping[str, Any]]] = {}
    for record in records.values():
        for name in record["rows"] if record["kind"] == "timing" else ():
            runtime, precision = name.split(".")
            by_cell.setdefault(Cell(record["net"], runtime, precision, record["batch"]), []).append(record)
    rows = []
    for cell in sorted(by_cell, key=_place):
        row = cell_row(cell, by_cell[cell], cores)
        rows.append(row | derived(cell, row, records.get("limits", {}), gpu))
    return rows


def _place(cell: Cell) -> tuple[int, ...]:
    return (
        NETS.index(cell.net), cell.batch, PRECISIONS.index(cell.precision), RUNTIMES.index(cell.runtime)
    )  # fmt: skip


def series_of(pair: tuple[str, str], parts: Sequence[Mapping[str, Any]]) -> Series:
    """Return the samples of a subject in these records of timing steps as the product's Series; each record is a set of
    processes."""
    series = Series(pair, parts[0]["batch"])
    for number, part in enumerate(parts):
        row = part["rows"].get(".".join(pair), {})
        series.lost = series.lost or row.get("lost")
        series.device = row.get("device") or series.device
        if rounds := row.get("rounds"):
            series.processes[number] = ProcessSamples(
                load_s=row["load_s"], first_call_s=row["first_call_s"], warm_up_s=row["warm_up_s"],
                timer_s=row["timer_s"], steady_bytes=row["steady_bytes"], calls=row["calls"],
                rounds={int(at): np.asarray(samples) for at, samples in rounds.items()},
            )  # fmt: skip
    return series


def cell_row(cell: Cell, parts: Sequence[Mapping[str, Any]], cores: int) -> dict[str, Any]:
    """Return what was measured of a cell in these records; null where there is no number. Its ratio is to eager float32
    in the same records, which is in the same rounds."""
    series = series_of((cell.runtime, cell.precision), parts)
    reference = series_of(REFERENCE, parts)
    own = [part["rows"][f"{cell.runtime}.{cell.precision}"] for part in parts]
    first: Mapping[str, Any] = next((row for row in own if "on_device" in row), {})
    others = [part["other_cores"] for part in parts if part["other_cores"] is not None]
    load = Load(max(others), cores) if others else None
    row: dict[str, Any] = {
        "net": cell.net, "runtime": cell.runtime, "precision": cell.precision, "batch": cell.batch,
        "device": series.device, "facts": next((row["facts"] for row in own if "facts" in row), None),
        "lost": series.lost, "processes": len(series.processes), "samples": len(series.samples_s),
    }  # fmt: skip
    if not series.processes:
        return row
    ratio, note = _ratio(series, reference)
    row |= {
        **percentiles(series.samples_s),
        "first_call_s": median(process.first_call_s for process in series.processes.values()),
        "load_s": median(process.load_s for process in series.processes.values()),
        "ratio": ratio.center if ratio else None, "ratio_ci95": ratio.ci95 if ratio else None,
        "comparison": ratio.comparison if ratio else None, "ratio_note": note,
        "doubts": [doubt.text for doubt in find_doubts(series, ratio.ci95 if ratio else None, load=load)],
    }  # fmt: skip
    return row | _device_numbers(cell, first)


def percentiles(samples_s: Any) -> dict[str, float]:
    """Return p50, p90 and p99 by linear interpolation. The product's (pipeline/measure/bench/percentiles.py) have
    intervals, for which they need SciPy; it need not be here."""
    return {f"p{at}_s": float(np.percentile(samples_s, at)) for at in (50, 90, 99)}


def _device_numbers(cell: Cell, first: Mapping[str, Any]) -> dict[str, Any]:
    on_device, window = first.get("on_device"), first.get("window")
    drift = first.get("drift_db")
    return {
        "device_p50_s": median(on_device["samples_s"]) if on_device else None,
        "device_timer": on_device["timer"] if on_device else None,
        "copy_s": on_device["copies"] if on_device else None,
        "bytes_in": on_device["bytes_in"] if on_device else None,
        "throughput_per_s": window["calls"] * cell.batch / window["seconds"] if window else None,
        "energy_per_call_j": window["energy_per_call_j"] if window else None,
        "energy_source": window["energy_source"] if window else None,
        "gpu": window["gpu"] if window else None,
        "drift_db": drift,
        "worst_drift_db": min((db for db in drift.values() if db is not None), default=None) if drift else None,
    }


def derived(cell: Cell, row: Mapping[str, Any], limits: Mapping[str, Any], gpu: str | None) -> dict[str, Any]:
    """Return the share of the chip's limit that the device reached in this cell."""
    flops = limits.get("flops_per_sample", {}).get(cell.net)
    limit = limit_for(gpu, cell.precision, limits.get("matmul_flops_per_s", {}))
    if not flops or not row.get("throughput_per_s"):
        return {"flops_per_s": None, "share_of_limit": None, "limit_source": None}
    rate = flops * row["throughput_per_s"]
    return {
        "flops_per_s": rate,
        "share_of_limit": share_of_limit(rate, 1.0, limit),
        "limit_source": limit.source if limit else None,
    }


def _ratio(series: Series, reference: Series) -> tuple[Any, str | None]:
    if series.pair == REFERENCE:
        return None, None
    try:
        return compare(series, reference), None
    except ImportError as error:  # its interval is Student's, of SciPy
        logs = log_ratios(series, reference)
        ratio = Ratio(float(np.exp(np.mean(logs))), None, Comparison.INCONCLUSIVE) if len(logs) else None
        return ratio, f"no interval: {error.name} is not installed"


def failures(document: Mapping[str, Any]) -> list[str]:
    """Return what is wrong: a copy that ran elsewhere than it was asked to or drifted far, a wrong recipe. A runtime
    that cannot do a cell at all says so in its row, and is no failure."""
    device = document["machine"]["device"]
    wrong = []
    for row in document["cells"]:
        name = Cell(row["net"], row["runtime"], row["precision"], row["batch"]).name
        if row["processes"] and row["device"] and row["device"].partition(":")[0] != device.partition(":")[0]:
            wrong.append(f"{name} ran on {row['device']}")
        least = LEAST_DB[row["precision"]]
        if (db := row.get("worst_drift_db")) is not None and db < least:
            wrong.append(f"{name} lies {db:.0f} dB from float64, and {least:.0f} dB is the least")
    for recipe in document["recipes"]:
        if recipe["lost"] and not recipe["lost"].startswith("ModuleNotFoundError"):  # what is missing is no mistake
            wrong.append(f"recipe {recipe['recipe']}: {recipe['lost']}")
        wrong += [
            f"recipe {row['recipe']}, {row['artifact']}: {row['reason']}"
            for row in recipe["drift"]
            if row["status"] == "wrong"
        ]
        wrong += [
            f"recipe {row['recipe']}, {row['artifact']} at batch {row['batch']}: {row['lost'] or 'not timed'}"
            for row in recipe["latency"] if row["lost"] or not row["processes"]
        ]  # fmt: skip
    return wrong


# By the bits of the mantissa (24, 11, 11, 8) and a net's depth: about 15 dB below what the CPU reaches on these nets.
LEAST_DB = {"fp32": 100.0, "tf32": 40.0, "fp16": 40.0, "bf16": 25.0}
