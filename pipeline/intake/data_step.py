"""The step that reads the data of `--data`: what it needs, and what its result depends on."""

from __future__ import annotations

from dataclasses import replace

from ...converters.steps import missing
from ...models.data_sources.data_argument import DataArgument, DataKind, source_digest
from ...models.errors import ToolMissing
from ...models.job_records import SourceSamplesOptions
from ...models.loading.code_refs import ref_digest
from ...models.signature import Signature
from ...models.sources import code_ref
from ..context import Context
from ..workers.engine import Action

_LIBRARIES = {DataKind.IMAGES: ("PIL",), DataKind.TABLE: ("pyarrow",)}


def require_reader(argument: DataArgument) -> None:
    """Raise ToolMissing where the library that reads such data is not installed."""
    if need := missing(_LIBRARIES.get(argument.kind, ())):
        raise ToolMissing(
            f"{argument.place} {need}, which is not installed", fix="install the extra: pip install 'transload[data]'"
        )


def samples_action(context: Context, argument: DataArgument, signature: Signature) -> Action:
    """Return the action that reads the samples for a model of this signature.
    Raises BadRequest where the code that gives them is not there."""
    options = SourceSamplesOptions(
        kind=argument.kind,
        place=argument.place,
        samples=argument.samples,
        sha256=source_digest(argument.kind, argument.place),
        images=argument.images,
        table=argument.table,
        signature=signature,
    )
    action = Action(
        name="data",
        entry="transload.models.data_sources.take_samples:take_samples",
        options=options.to_json(),
        requires=_LIBRARIES.get(argument.kind, ()),
        limits=context.data_limits(),
    )
    if argument.kind is not DataKind.CODE:
        return replace(action, reads=(argument.place,))
    ref = code_ref(argument.place, context.request.root)
    options = replace(options, place=ref.text, root=ref.root)
    return replace(
        action, options=options.to_json(), framework="torch", code=ref_digest(ref), root=ref.root, reads=ref.reads
    )
