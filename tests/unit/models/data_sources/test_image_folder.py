"""Images become inputs as the user says and as the signature has it: size, range, channels, layout; and labels."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transload.models.data_sources.image_folder import describe_images, image_labels, number_labels, read_images
from transload.models.data_sources.sample_writer import collect
from transload.models.data_sources.source_options import ImageOptions
from transload.models.dataset import Dataset
from transload.models.errors import BadRequest
from transload.models.signature import parse_input

CHW, HWC = "image=float32[batch,3,5,6]", "image=uint8[batch,5,6,3]"
BYTES = {"range": (0.0, 255.0)}


def picture(path: Path, seed: int, height: int = 5, width: int = 6, mode: str = "RGB") -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    Image.fromarray(pixels.squeeze(), mode).save(path)
    return pixels


def read(folder: Path, spec: str, **options: object) -> Dataset:
    chunks = read_images(folder, (parse_input(spec),), ImageOptions(**options))  # type: ignore[arg-type]
    return collect(chunks, folder.parent / "scratch", str(folder))


def test_bytes_reach_an_input_of_bytes_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    expected = [picture(folder / f"{at}.png", at) for at in range(3)]
    (folder / "notes.txt").write_text("no image")
    picture(folder / ".thumbs" / "0.png", 9)
    data = read(folder, HWC)
    np.testing.assert_array_equal(data.inputs["image"], expected)
    assert data.labels is None


def test_floats_are_scaled_and_normalised_by_channel_as_torchvision_does(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    pixels = picture(folder / "0.png", 0)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    data = read(folder, CHW, range=(0.0, 1.0), mean=mean, std=std)
    expected = ((pixels / 255 - mean) / std).transpose(2, 0, 1).astype(np.float32)
    np.testing.assert_array_equal(data.inputs["image"][0], expected)
    low = read(folder, CHW, range=(-1.0, 1.0), order="bgr").inputs["image"][0]
    np.testing.assert_allclose(low, (pixels[..., ::-1] / 127.5 - 1).transpose(2, 0, 1), atol=1e-6)


def test_labels_are_the_folders_and_the_first_samples_hold_all_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for name in ("dog", "ape", "cat"):
        for at in range(2):
            picture(folder / name / "deeper" / f"{at}.png", at)
    data = read(folder, HWC)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2]


def test_folders_that_are_numbers_are_the_labels_themselves() -> None:
    assert number_labels(["10", "2"]) == {"10": 10, "2": 2}
    assert number_labels(["dog", "2"]) == {"2": 0, "dog": 1}


def test_an_image_is_resized_and_cropped_in_the_middle(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    picture(folder / "0.png", 0, height=10, width=24)
    image = Image.open(folder / "0.png")
    expected = np.asarray(image.resize((12, 5), Image.Resampling.BILINEAR))[:, 3:9]
    np.testing.assert_array_equal(read(folder, HWC, resize=5, crop=(5, 6)).inputs["image"][0], expected)
    stretched = np.asarray(image.resize((6, 5), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(read(folder, HWC, size=(5, 6), resample="nearest").inputs["image"][0], stretched)


def test_channels_follow_the_signature(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    pixels = picture(folder / "0.png", 0, mode="L")
    grey = read(folder, "image=float32[batch,1,5,6]", **BYTES).inputs["image"]
    np.testing.assert_array_equal(grey[0, 0], pixels[..., 0])
    assert read(folder, "image=uint8[batch,5,6]").inputs["image"].shape == (1, 5, 6)
    np.testing.assert_array_equal(read(folder, HWC).inputs["image"][0], np.repeat(pixels, 3, axis=2))
    assert read(folder, "image=uint8[1,5,6,3]").inputs["image"].shape == (1, 5, 6, 3), "a model without a batch axis"


def broken(path: Path) -> None:
    picture(path, 0, height=64, width=64)
    path.write_bytes(path.read_bytes()[:200])


MESSAGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "none": (
        HWC, {}, "{folder} holds no images\n  fix: name a folder of images, or of a folder for each label",
    ),
    "size": (
        HWC, {}, "{folder}/0.png is 7x6, and the input image takes 5x6"
        "\n  fix: say how it becomes that: ?size=5x6 stretches it, ?resize=5&crop=5x6 keeps its middle",
    ),
    "range": (
        CHW, {}, "the input image is float32, and nothing says what it takes for the bytes 0..255 of an image"
        "\n  fix: say it: ?range=0..1 (then mean=... and std=... where it was trained so), or ?range=0..255",
    ),
    "broken": (
        HWC, {}, "{folder}/0.png is a broken image: image file is truncated\n  fix: copy it again, or remove it",
    ),
    "text": (HWC, {}, "{folder}/0.png is no image that Pillow can read\n  fix: copy it again, or remove it"),
    "crop": (
        HWC, {"crop": (9, 9)}, "{folder}/0.png is 7x6 where 9x9 are cropped from it"
        "\n  fix: resize it first: ?resize=9&crop=9x9",
    ),
    "mean": (
        CHW, {**BYTES, "mean": (1.0, 2.0)}, "mean has 2 numbers, and the input image 3 channels"
        "\n  fix: give one number, or one for each channel",
    ),
    "mixed": (
        HWC, {}, "{folder} holds images itself, and others in folders: 0.png has no label"
        "\n  fix: put every image into the folder of its label, or none",
    ),
    "vector": (
        "image=float32[batch,30]", BYTES, "the input image takes [30], and an image has 1, 3 or 4 channels, first or "
        "last\n  fix: give samples of this input as FILE.npz or FILE.py:NAME (docs/data.md)",
    ),
    "either": (
        "image=uint8[batch,3,4,3]", {}, "the input image takes [3,4,3], where the channels may be first or last"
        "\n  fix: say which: ?layout=chw or ?layout=hwc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_what_a_person_reads_of_images_that_do_not_fit(case: str, tmp_path: Path) -> None:
    spec, options, message = MESSAGES[case]
    folder = tmp_path / "photos"
    folder.mkdir()
    if case == "broken":
        broken(folder / "0.png")
    elif case == "text":
        (folder / "0.png").write_text("no image")
    elif case != "none":
        picture(folder / "0.png", 0, height=7)
    if case == "mixed":
        picture(folder / "dog" / "1.png", 0)
    with pytest.raises(BadRequest) as caught:
        read(folder, spec, **options)
    assert str(caught.value).replace(" (58 bytes not processed)", "") == message.format(folder=folder)


def test_any_error_of_a_reader_of_images_is_a_broken_image(tmp_path: Path) -> None:
    picture(tmp_path / "photos" / "1.png", 1)
    content = (tmp_path / "photos" / "1.png").read_bytes()
    body = b"iCCPname\0"  # that ends after its name: Pillow 12 raises IndexError behind the pixels
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    (tmp_path / "photos" / "1.png").write_bytes(content[:-12] + chunk + content[-12:])
    with pytest.raises(BadRequest, match=r"1\.png is a broken image: "):
        read(tmp_path / "photos", CHW, **BYTES)


def test_what_is_done_to_an_image_is_told_in_a_sentence(tmp_path: Path) -> None:
    options = ImageOptions(resize=8, crop=(5, 6), range=(0.0, 1.0), mean=(0.5, 0.25, 0.125), std=(2.0,))
    assert describe_images((parse_input(CHW),), options) == (
        "An image becomes image: its shorter side is resized to 8 pixels (bilinear), cut to the 5 x 6 in its middle, "
        "the bytes 0..255 become 0..1, minus (0.5, 0.25, 0.125), divided by 2, channels rgb, first"
    )
    assert describe_images((parse_input("x=uint8[batch,5,6]"),), ImageOptions()) == (
        "An image becomes x: its bytes as they are"
    )


def test_labels_have_the_names_of_their_folders(tmp_path: Path) -> None:
    for name in ("dog", "cat"):
        picture(tmp_path / name / "0.png", 0)
    assert image_labels(tmp_path) == {"0": "cat", "1": "dog"}
    assert image_labels(tmp_path / "dog") == {}
