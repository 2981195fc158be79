"""A folder of images as samples, with the folders inside it as labels. Pillow reads them, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BadRequest
from ..library_messages import first_line
from ..signature import BATCH, Array, Axis, TensorSpec, shape_text
from .item_shapes import item_specs
from .sample_writer import Chunk
from .source_options import ImageOptions

if TYPE_CHECKING:
    from PIL.Image import Image

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of Pillow, by the number of channels
_PLAIN_MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB"}  # with a byte for each channel


@dataclass(frozen=True)
class _ImageInput:
    """Where an input has the channels, the height and the width of an image."""

    item: TensorSpec
    channels: int
    channels_first: bool

    @property
    def size(self) -> tuple[Axis, Axis]:
        """Height and width; a str where any is taken."""
        axes = self.item.shape
        if len(axes) == 2:
            return axes[0], axes[1]
        return (axes[1], axes[2]) if self.channels_first else (axes[0], axes[1])


def list_images(folder: Path) -> dict[str, list[Path]]:
    """Return the images by the folder inside `folder` that they lie in, at any depth; "" is `folder` itself.
    Hidden files and files that are no images by their name are left out."""
    from PIL import Image

    suffixes = set(Image.registered_extensions())
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes)
    visible = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]

    def label(path: Path) -> str:
        parts = path.relative_to(folder).parts
        return parts[0] if len(parts) > 1 else ""

    return {name: list(paths) for name, paths in groupby(sorted(visible, key=lambda path: (label(path), path)), label)}


def number_labels(names: Sequence[str]) -> dict[str, int]:
    """Number labels in alphabetical order; names that are all numbers are these numbers."""
    if all(name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    return {name: at for at, name in enumerate(sorted(names))}


def read_images(folder: Path, inputs: Sequence[TensorSpec], options: ImageOptions) -> Iterator[Chunk]:
    """Yield the images of a folder, one of each label in turn, so that the first samples hold many labels.
    Raises BadRequest where there is none, where one is broken, or where it does not fit the input."""
    by_label = list_images(folder)
    if not by_label:
        raise BadRequest(f"{folder} holds no images", fix="name a folder of images, or of a folder for each label")
    if "" in by_label and len(by_label) > 1:
        raise BadRequest(
            f"{folder} holds images itself, and others in folders: {by_label[''][0].name} has no label",
            fix="put every image into the folder of its label, or none",
        )
    layout = _find_layout(inputs, options)
    _check_values(layout, options)
    numbers = {} if "" in by_label else number_labels(list(by_label))
    for path, name in _in_turn(by_label):
        label = np.array([numbers[name]]) if numbers else None
        yield {layout.item.name: _read(path, layout, options)[np.newaxis]}, label


def image_specs(folder: Path, names: Sequence[str], options: ImageOptions) -> tuple[TensorSpec, ...]:
    """Return the one input that takes the first image of a folder, prepared as the options say, as float32: one channel
    where it is grey and no more are normalised, else three. Raises BadRequest as `read_images` does."""
    from PIL import Image

    axes: tuple[Axis, ...] = ("height", "width", 3) if options.layout == "hwc" else (3, "height", "width")
    specs = [TensorSpec(name, "float32", (BATCH, *axes)) for name in names]
    ((name, rows),) = next(read_images(folder, specs, options))[0].items()
    with Image.open(next(_in_turn(list_images(folder)))[0]) as image:
        grey = image.mode in ("1", "L") and len(options.mean) < 2 and len(options.std) < 2
    sizes = zip(axes, rows.shape[1:], strict=True)
    return (TensorSpec(name, "float32", (BATCH, *(1 if grey and axis == 3 else size for axis, size in sizes))),)


def image_labels(folder: Path) -> dict[str, str]:
    """Return the names of the labels by their numbers, none where the folder has none."""
    names = [name for name in list_images(folder) if name]
    return {str(number): name for name, number in sorted(number_labels(names).items(), key=lambda item: item[1])}


def describe_images(inputs: Sequence[TensorSpec], options: ImageOptions) -> str:
    """Return in a sentence what is done to an image."""
    layout = _find_layout(inputs, options)
    floats = np.dtype(layout.item.dtype).kind == "f"
    parts = [
        f"its shorter side is resized to {options.resize} pixels ({options.resample})" if options.resize else "",
        f"stretched to {options.size[0]} x {options.size[1]} ({options.resample})" if options.size else "",
        f"cut to the {options.crop[0]} x {options.crop[1]} in its middle" if options.crop else "",
        f"the bytes 0..255 become {options.range[0]:g}..{options.range[1]:g}" if floats and options.range else "",
        f"minus {_numbers(options.mean)}" if options.mean else "",
        f"divided by {_numbers(options.std)}" if options.std else "",
        f"channels {options.order}, {'first' if layout.channels_first else 'last'}" if layout.channels > 2 else "",
    ]
    steps = ", ".join(filter(None, parts)) or "its bytes as they are"
    return f"An image becomes {layout.item.name}: {steps}"


def _numbers(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})" if len(values) > 1 else f"{values[0]:g}"


def _in_turn(by_label: Mapping[str, Sequence[Path]]) -> Iterator[tuple[Path, str]]:
    places = [(at, name, path) for name, paths in by_label.items() for at, path in enumerate(paths)]
    return ((path, name) for _, name, path in sorted(places))


def _find_layout(inputs: Sequence[TensorSpec], options: ImageOptions) -> _ImageInput:
    items = {item.name: item for item in item_specs(inputs)}
    name = options.input or next(iter(items))
    if name not in items or len(items) > 1:
        raise BadRequest(
            f"a folder of images fills one input, and the model takes {', '.join(items)}"
            if len(items) > 1
            else f"the model has no input {name}; it takes {', '.join(items)}",
            fix="give the samples of all inputs as FILE.npz or FILE.py:NAME (docs/data.md)",
        )
    item = items[name]
    if len(item.shape) == 2:
        return _ImageInput(item, 1, channels_first=True)
    channels = [at for at in (0, 2) if len(item.shape) == 3 and item.shape[at] in _MODES]
    if options.layout:
        channels = [at for at in channels if at == (0 if options.layout == "chw" else 2)]
    if not channels:
        raise BadRequest(
            f"the input {name} takes {shape_text(item.shape)}, and an image has 1, 3 or 4 channels, first or last",
            fix="give samples of this input as FILE.npz or FILE.py:NAME (docs/data.md)",
        )
    if len(channels) > 1:
        raise BadRequest(
            f"the input {name} takes {shape_text(item.shape)}, where the channels may be first or last",
            fix="say which: ?layout=chw or ?layout=hwc",
        )
    size: Any = item.shape[channels[0]]
    return _ImageInput(item, size, channels_first=channels[0] == 0)


def _check_values(layout: _ImageInput, options: ImageOptions) -> None:
    """Check what is said of an image's values against the dtype of the input."""
    item, floats = layout.item, np.dtype(layout.item.dtype).kind == "f"
    if floats and options.range is None:
        raise BadRequest(
            f"the input {item.name} is {item.dtype}, and nothing says what it takes for the bytes 0..255 of an image",
            fix="say it: ?range=0..1 (then mean=... and std=... where it was trained so), or ?range=0..255",
        )
    if not floats and (options.range not in (None, (0.0, 255.0)) or options.mean or options.std):
        raise BadRequest(
            f"the input {item.name} is {item.dtype}, and takes bytes as they are", fix="leave range, mean and std out"
        )
    if np.dtype(item.dtype).kind not in "fiu" or item.dtype == "int8":
        raise BadRequest(
            f"the input {item.name} is {item.dtype}, which holds no bytes", fix="give its samples as FILE.npz"
        )
    for name, numbers in (("mean", options.mean), ("std", options.std)):
        if len(numbers) not in (0, 1, layout.channels):
            raise BadRequest(
                f"{name} has {len(numbers)} numbers, and the input {item.name} {layout.channels} channels",
                fix="give one number, or one for each channel",
            )
    if 0 in options.std:
        raise BadRequest("std is divided by, and holds a 0", fix="give numbers other than 0")


def _read(path: Path, layout: _ImageInput, options: ImageOptions) -> Array:
    """Return an image in the shape and dtype of the input."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as opened:
            opened.load()
            image = _in_mode(opened, path, _MODES[layout.channels])
    except UnidentifiedImageError as error:
        raise BadRequest(f"{path} is no image that Pillow can read", fix="copy it again, or remove it") from error
    except BadRequest:
        raise
    except Exception as error:  # Pillow's readers of formats raise whatever their code meets in a broken file
        raise BadRequest(f"{path} is a broken image: {first_line(error)}", fix="copy it again, or remove it") from error
    image = _crop(_resize(image, options), path, options)
    _check_size(image, path, layout)
    pixels = np.asarray(image).reshape(image.height, image.width, layout.channels)
    return _as_input(pixels, layout, options)


def _in_mode(image: Image, path: Path, mode: str) -> Image:
    if image.mode not in _PLAIN_MODES:
        raise BadRequest(
            f"{path} has more than a byte for each channel (Pillow calls it {image.mode})",
            fix="give such images as FILE.npz or FILE.py:NAME, with the scale that the model takes",
        )
    return image if image.mode == mode else image.convert(mode)


def _resize(image: Image, options: ImageOptions) -> Image:
    from PIL.Image import Resampling

    height, width = image.height, image.width
    if options.resize:
        shorter = min(height, width)
        height, width = (int(side * options.resize / shorter) for side in (height, width))  # as torchvision rounds
    if options.size:
        height, width = options.size
    if (height, width) == (image.height, image.width):
        return image
    return image.resize((width, height), Resampling[options.resample.upper()])


def _crop(image: Image, path: Path, options: ImageOptions) -> Image:
    if options.crop is None:
        return image
    height, width = options.crop
    if height > image.height or width > image.width:
        raise BadRequest(
            f"{path} is {image.height}x{image.width} where {height}x{width} are cropped from it",
            fix=f"resize it first: ?resize={max(height, width)}&crop={height}x{width}",
        )
    top, left = round((image.height - height) / 2), round((image.width - width) / 2)
    return image.crop((left, top, left + width, top + height))


def _check_size(image: Image, path: Path, layout: _ImageInput) -> None:
    """Raise BadRequest where the input takes another size."""
    height, width = layout.size
    wrong = any(isinstance(axis, int) and axis != size for axis, size in ((height, image.height), (width, image.width)))
    if wrong:
        options = f"?size={height}x{width} stretches it, ?resize={height}&crop={height}x{width} keeps its middle"
        raise BadRequest(
            f"{path} is {image.height}x{image.width}, and the input {layout.item.name} takes {height}x{width}",
            fix=f"say how it becomes that: {options}",
        )


def _as_input(pixels: Array, layout: _ImageInput, options: ImageOptions) -> Array:
    """Return bytes of the shape (height, width, channels) scaled and normalised, in the input's layout and dtype."""
    values = pixels[..., [2, 1, 0, 3][: layout.channels]] if options.order == "bgr" and layout.channels > 2 else pixels
    if np.dtype(layout.item.dtype).kind == "f":
        low, high = options.range or (0.0, 255.0)
        values = (values / 255.0 * (high - low) + low) if (low, high) != (0.0, 255.0) else values.astype(np.float64)
        values = (values - np.array(options.mean or (0.0,))) / np.array(options.std or (1.0,))
    values = values.astype(layout.item.dtype)
    if len(layout.item.shape) == 2:
        return values[..., 0]
    return np.ascontiguousarray(values.transpose(2, 0, 1)) if layout.channels_first else values
