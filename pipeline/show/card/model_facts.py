"""What is known of a model beyond its signature: its commit, what its classes are called, and how samples are made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....models.code_digest import module_file
from ....models.errors import BadRequest
from ....models.job_records import DataFacts
from ....models.sources import CodeRef, public_name
from ....models.store import Stored
from ....models.untrusted_files import read_json
from ...plan.loaded_model import ModelDescription
from .card_records import ModelFacts
from .git_commit import commit_of

_MOST_JSON_BYTES = 4 << 20
_MOST_TEXT = 300  # letters of a label, or of what a configuration says
_PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")
_OF_IMAGES = ("size", "crop_size", "resample", "rescale_factor", "image_mean", "image_std")


def model_name(text: str, model: ModelDescription) -> str:
    """Return what a model is called in its card: its code without the folders of an absolute path, or a file's name."""
    return public_name(model.ref) if model.ref else Path(text).name or model.name


def facts_of_model(text: str, model: ModelDescription, data: Stored) -> ModelFacts:
    """Return what is known of a model that the user named `text`, and of its data. Runs no code of anybody."""
    file = _file_of(text, model.ref)
    facts = DataFacts.from_json(data.facts)
    labels, labels_from = dict(facts.label_names), facts.label_source
    sentences = [*facts.preprocessing]
    published = f"{model.labels_from}, if your weights were trained so" if model.labels_from else ""
    if model.labels and not (published and labels):
        labels, labels_from = {str(at): name for at, name in enumerate(model.labels)}, published or "the recipe"
    if model.preprocessing:
        sentences.insert(0, f"By {published or 'the recipe'}: {model.preprocessing}")
    if model.ref and model.ref.library == "hf":
        folder = Path(model.ref.text.partition(":")[2])
        labels, labels_from = (labels, labels_from) if labels else (_hf_labels(folder), "the model's config.json")
        sentences += _hf_preprocessing(folder)
    return ModelFacts(
        summary=model.summary,
        commit=commit_of(file) if file else None,
        labels=labels,
        labels_from=labels_from if labels else "",
        preprocessing=tuple(sentences),
    )


def _file_of(text: str, ref: CodeRef | None) -> Path | None:
    """Return the user's file that a model comes from; None for what ships with us or with a library."""
    if ref is None:
        path = Path(text)
        return path / "saved_model.pb" if path.is_dir() else path
    if ref.recipe is not None:
        return None
    if ref.library:
        return Path(ref.text.partition(":")[2]) / "config.json" if ref.library == "hf" else None
    try:
        return ref.file or module_file(ref.place, Path(ref.root) if ref.root else None)
    except BadRequest:
        return None


def _hf_labels(folder: Path) -> dict[str, str]:
    """Return the names of the classes in a configuration of transformers, where somebody has named them."""
    names = _read(folder / "config.json").get("id2label")
    if not isinstance(names, Mapping):
        return {}
    labels = {str(number): name for number, name in names.items() if isinstance(name, str)}
    unnamed = all(name == f"LABEL_{number}" for number, name in labels.items())
    fits = all(name.isprintable() and len(name) <= _MOST_TEXT for name in (*labels, *labels.values()))
    return {} if unnamed or not fits else labels


def _hf_preprocessing(folder: Path) -> list[str]:
    """Return what the configuration of a processor of transformers says of images."""
    for file in _PREPROCESSORS:
        document = _read(folder / file)
        said = [f"{name} {document[name]}" for name in _OF_IMAGES if document.get(name) is not None]
        text = f"By the model's {file}: {', '.join(said)}"
        if said and text.isprintable() and len(text) <= 2 * _MOST_TEXT:
            return [text]
    return []


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = read_json(file, _MOST_JSON_BYTES)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, Mapping) else {}
