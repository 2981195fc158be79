"""A model that is code: a recipe, a person's class, function or instance, or a library's model by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...converters.steps import missing
from ...models.errors import BadRequest, StepFailed, ToolMissing
from ...models.loading.catalogue import ref_digest
from ...models.probes.samples import check_inputs
from ...models.signature import Signature, TensorSpec
from ...models.sources import LIBRARIES, CodeRef, code_ref
from ...models.store import Stored
from ..context import Context
from ..workers.engine import Action
from . import prepare
from .prepare import Described


def take_code(context: Context, text: str, inputs: tuple[TensorSpec, ...]) -> tuple[Described, Stored]:
    """The model that `text` names, with the settings and the weights of the request; a recipe is trained without them.

    Raises BadRequest where code, settings, weights and inputs do not fit together, ToolMissing where a library is not
    here, StepFailed where the code ends its process or does not return in time.
    """
    check_inputs(inputs)
    ref = code_ref(text, context.request.root, context.request.model.settings)
    _require_libraries(ref)
    code = ref_digest(ref)
    if not ref.library:
        with _making(context, text):
            recipe = _recipe(context, ref, code)
        if recipe:
            if inputs:
                raise BadRequest(f"{text} is a recipe, and says what it takes", fix="leave --input out")
            if ref.settings:
                raise BadRequest(f"{text} is a recipe, and takes no settings", fix="leave --set out")
            described = prepare.of_recipe(context, ref, code, recipe)
            return described, prepare.obtain_source(context, described)
    with _making(context, text):
        source = _source(context, ref, code, inputs)
    return Described(_name(ref), Signature.from_json(source.facts["signature"]), ref, code), source


def _recipe(context: Context, ref: CodeRef, code: str) -> Mapping[str, object] | None:
    """What the code says of itself where it is a recipe."""
    action = Action(
        "describe",
        "transload.converters.intake.take_in:describe_code",
        options=prepare.ref_options(CodeRef(ref.text, ref.root)),
        framework="torch",
        code=code,
        root=ref.root,
        limits=context.model_limits(),
    )
    found: Mapping[str, object] | None = context.executor.perform(action).facts["recipe"]
    return found


def _source(context: Context, ref: CodeRef, code: str, inputs: tuple[TensorSpec, ...]) -> Stored:
    try:
        return prepare.take_weights(
            context, ref, code, inputs=tuple(spec.to_json() for spec in inputs), requires=_libraries(ref)
        )
    except BadRequest as error:
        if inputs and error.what.startswith("calling "):  # most often it is the shape that is wrong
            given = " ".join(f"--input {spec}" for spec in inputs)
            raise BadRequest(error.what, fix=f"hold {given} against what forward takes, or mend that line") from error
        raise


@contextmanager
def _making(context: Context, text: str) -> Iterator[None]:
    """Code that does not return, kills its process or eats all memory, told as what it is."""
    try:
        yield
    except StepFailed as error:
        if "gave no answer" in error.what:
            raise StepFailed(
                f"{text} is not made yet after {context.request.model.seconds:g} s",
                fix=f"look for what its code waits for, or allow more with --model-seconds; {error.fix}",
            ) from error
        raise StepFailed(f"making {text}: {error.what}", fix=error.fix, decided=error.decided) from error


def _libraries(ref: CodeRef) -> tuple[str, ...]:
    return LIBRARIES[ref.library] if ref.library else ()


def _require_libraries(ref: CodeRef) -> None:
    if lacking := missing(("torch",)):
        raise ToolMissing(f"the model {lacking}, which is not installed", fix="install it (transload doctor shows how)")
    if lacking := missing(_libraries(ref)):
        raise ToolMissing(
            f"{ref.text} {lacking}, which is not installed", fix="install the extra: pip install 'transload[models]'"
        )


def _name(ref: CodeRef) -> str:
    """What the model is called: a folder by its own name."""
    return ref.name.rstrip("/").rpartition("/")[2] if ref.library == "hf" else ref.name
