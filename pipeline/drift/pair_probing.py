"""Ask the reference with two changes at once: sizes of each axis, batches, shapes of masks, declared values.

A copy may be right at every odd height and at every odd width, and wrong where both are odd. What the model has
answered one by one is put together so that every two meet once (models/probes/covering.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...models.probes.covering import cover_pairs
from ...models.probes.extreme_sizes import Room
from ...models.probes.feeds import sizes_in
from ...models.probes.masks import Fill
from ...models.probes.probe_set import Probe
from ...models.probes.sizes import bounds_within
from ...models.signature import Bounds
from .reference_probing import ReferenceProbing

_Sizes: TypeAlias = tuple[tuple[str, int], ...]

_MASKS = (Fill.ALL, Fill.LEFT)  # beside the samples' own
_BUDGET_S, _MOST = 4.0, 64  # that all combinations may take, and how many they are
_MORE = 4  # times the elements that one change alone may have


def ask_pairs(probing: ReferenceProbing) -> None:
    """Ask the probes in which every two changes meet, the most telling first, as long as the time lasts."""
    start = time.monotonic()
    signature = probing.session.signature
    usual = {**sizes_in(probing.data, signature), signature.batch or "": probing.usual.batch}
    room = Room(signature.inputs, usual, probing.call_s, times=_MORE)
    pairs = [probe for probe in _pairs(probing) if probe.key not in probing.series]
    count = 0
    for probe in pairs[:_MOST]:
        if time.monotonic() - start > _BUDGET_S:
            break
        if within := _within_room(probe, room, signature.batch):
            probing.ask_combination(within)
            count += 1
    if pairs:  # for the step's log
        print(f"asked {count} of {len(pairs)} combinations in {time.monotonic() - start:.1f} s of {_BUDGET_S:g} s")


def _pairs(probing: ReferenceProbing) -> list[Probe]:
    """List the combinations of what the model has answered one by one."""
    answered = [Probe.of_key(key) for key in probing.series]
    plain = [probe for probe in answered if probe.as_sampled and not probe.is_empty]
    choices: dict[str, Sequence[Any]] = {"batch": _telling({probe.batch for probe in plain if not probe.sizes})}
    for axes, sizes in _sizes_by_axes(plain, probing).items():
        choices["+".join(axes)] = sizes
    masked = [probe.fills for probe in answered if probe.fills and not probe.sizes]
    masks = [tuple(fills.items()) for fills in masked if set(fills.values()) & {*_MASKS}]
    choices["masks"] = [(), *dict.fromkeys(masks)]
    choices["source"] = ["", *probing.sources]
    return [
        Probe(
            row.pop("batch"), fills=dict(row.pop("masks")), source=row.pop("source"), sizes=dict(sum(row.values(), ()))
        )
        for row in cover_pairs(choices)
    ]


def _sizes_by_axes(plain: Iterable[Probe], probing: ReferenceProbing) -> dict[tuple[str, ...], list[_Sizes]]:
    """Return the telling sizes of each axis, or of axes that change together alone, and the samples' own: ()."""
    signature = probing.session.signature
    known: dict[tuple[str, ...], set[int]] = {}
    for probe in plain:
        if probe.sizes and signature.batch not in probe.sizes:
            known.setdefault(tuple(probe.sizes), set()).add(next(iter(probe.sizes.values())))
    own = sizes_in(probing.data, signature)
    by_axes: dict[tuple[str, ...], list[_Sizes]] = {}
    for axes, sizes in sorted(known.items(), key=lambda item: len(item[0])):
        if any(axis in other for axis in axes for other in by_axes):
            continue
        bounds = bounds_within(signature.inputs, axes[0])
        chosen = [*_telling(sizes), *(_random_sizes(bounds, max(sizes), axes[0]) if len(axes) == 1 else [])]
        by_axes[axes] = [tuple((axis, size) for axis in axes) for size in dict.fromkeys(chosen) if size != own[axes[0]]]
        by_axes[axes].append(())
    return by_axes


def _telling(sizes: Iterable[int]) -> list[int]:
    """Choose the largest, the least, and the largest odd and even ones beside them."""
    ordered = sorted(sizes, reverse=True)
    odd, even = ([size for size in ordered[1:] if size % 2 == rest] for rest in (1, 0))
    return [*dict.fromkeys([*ordered[:1], *ordered[-1:], *odd[:1], *even[:1]])]


def _random_sizes(bounds: Bounds, largest: int, axis: str) -> list[int]:
    """Draw an even and an odd size, the same for an axis of this name each time."""
    rng = np.random.default_rng(sum(axis.encode()))
    high = largest if bounds.high is None else bounds.high
    drawn = rng.integers(max(1, bounds.low), high + 1, 2)
    return [bounds.nearest(int(size) // 2 * 2 + rest) for rest, size in enumerate(drawn)]


def _within_room(probe: Probe, room: Room, axis: str | None) -> Probe | None:
    """Return the probe with a batch for which there is room; None where there is none for the least."""
    batch, bounds = probe.batch, bounds_within(room.specs, axis).filled
    while not room.has({**probe.sizes, axis or "": batch}):
        smaller = bounds.nearest(max(1, batch // 2))
        if smaller >= batch:
            return None
        batch = smaller
    return replace(probe, batch=batch)
