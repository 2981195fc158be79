"""The places of `locate` in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from .locate_records import CaptureFacts, Cure, FollowFacts, PlaceFacts

_MOST_NODES = 4


def describe_places(capture: CaptureFacts, follow: FollowFacts | None) -> list[str]:
    """Say where a candidate departs, whether that explains its outputs, and which inputs int8 does not suit."""
    ends = [_describe_cure(capture.cure) if capture.cure else "", capture.columns]
    return [*_places(capture, follow), *filter(None, ends)]


def summarise_places(capture: CaptureFacts, follow: FollowFacts | None) -> str:
    """Return one sentence: the first place, or why there is none, and the runtime setting that restores agreement."""
    cure = _describe_cure(capture.cure) if capture.cure and capture.cure.agrees else ""
    if follow is None or not follow.places:
        return "; ".join(filter(None, [*_places(capture, follow), cure]))
    head, *details = _describe_place(follow.places[0], 1, 1)
    first = f"{head}: {'; '.join(line.strip() for line in details)}" if details else head
    more = f"and {len(follow.places) - 1} more" if len(follow.places) > 1 else ""
    return "; ".join(filter(None, (first, more, cure)))


def _places(capture: CaptureFacts, follow: FollowFacts | None) -> list[str]:
    if not capture.departs:
        agreement = "exactly" if capture.agreement_db is None else f"to {capture.agreement_db:.0f} dB or better"
        return [f"nothing departs: the outputs of {capture.calls} calls agree {agreement}"]
    agreement = "in shape or in what is finite" if capture.agreement_db is None else f"at {capture.agreement_db:.0f} dB"
    head = f"the outputs depart {agreement} ({capture.call})"
    if capture.error:
        head = f"the candidate gives no answer at {capture.call}: {capture.error}"
    elif capture.mismatch:
        head = f"the outputs depart: {capture.mismatch}"
    if capture.vanishes:
        return [head, "the failure vanishes under observation: with every value kept, nothing departs"]
    if follow is None or (capture.mismatch and not follow.places):
        return [head]
    if not follow.places:
        return [
            head,
            "",
            follow.note or "no operator departs by itself: the copy rounds more than the model, all along",
        ]
    lines = [head]
    for number, place in enumerate(follow.places, 1):
        lines += ["", *_describe_place(place, number, len(follow.places))]
    if capture.error:
        return lines
    rest = "the rest follows from it" if len(follow.places) == 1 else "the rest follows from them"
    return [
        *lines,
        "",
        rest if follow.rest_follows else f"this does not explain all: {follow.note or 'the outputs still depart'}",
    ]


def _describe_cure(cure: Cure) -> str:
    if not cure.agrees:
        return f"no change of the runtime restores agreement (tried: {', '.join(cure.tried)})"
    agreement = "exactly" if cure.agreement_db is None else f"to {cure.agreement_db:.0f} dB"
    what_to_set = f"set {cure.setting}" if cure.setting else "its answer to one call is not always the same"
    return f"this call agrees {agreement} {cure.change}: {what_to_set}"


def _describe_place(place: PlaceFacts, number: int, count: int) -> Iterator[str]:
    order = f"{number}. " if count > 1 else ""
    where = f" in the module {place.module}" if place.module else ""
    yield f"{order}{place.operator}{where}{f', {place.line}' if place.line else ''}"
    if place.explanation:
        how = "" if place.explained_db is None else f" (explains its values to {place.explained_db:.0f} dB)"
        yield f"   {place.error_class}: {place.explanation}{how}"
    if place.own_db is not None:
        channels = f", and departs in {place.channels} alone" if place.channels else ""
        yield f"   for the same inputs its result agrees to {place.own_db:.0f} dB{channels}"
    if place.nodes:
        more = f" and {len(place.nodes) - _MOST_NODES} more" if len(place.nodes) > _MOST_NODES else ""
        yield f"   in the candidate: {', '.join(place.nodes[:_MOST_NODES])}{more}"
