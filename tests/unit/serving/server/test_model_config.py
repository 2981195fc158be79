"""TF Serving's model_config_list, as it is written for its own program."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.serving.server.repository.model_config import (
    ModelConfig,
    VersionPolicy,
    read_config_file,
    versions_in,
)

TEXT = """
# as in TF Serving's documentation
model_config_list {
  config {
    name: 'first'
    base_path: 'models/first'
    model_platform: 'tensorflow'
    model_version_policy { specific { versions: 42 versions: 43 } }
    version_labels { key: 'stable' value: 42 }
  }
  config { name: 'second' base_path: '/models/second' model_version_policy { all {} } }
  config { name: 'third' base_path: 'third' model_version_policy { latest { num_versions: 3 } } }
  config { name: 'fourth' base_path: 'fourth' }
}
"""


def test_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "models.config").write_text(TEXT)
    assert read_config_file(tmp_path / "models.config") == [
        ModelConfig("first", tmp_path / "models/first", VersionPolicy(specific=(42, 43)), {"stable": 42}),
        ModelConfig("second", Path("/models/second"), VersionPolicy(is_all=True)),
        ModelConfig("third", tmp_path / "third", VersionPolicy(latest=3)),
        ModelConfig("fourth", tmp_path / "fourth"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model_config_list { config { nam: 'x' } }", 'has no field named "nam"'),
        ("", "a ModelServerConfig without model_config_list"),
        ("model_config_list { config { name: 'x' } }", "lacks its name or base_path"),
        (
            "model_config_list { config { name: 'x' base_path: 'y' } config { name: 'x' base_path: 'z' } }",
            "names x twice",
        ),
        (
            "model_config_list { config { name: 'x' base_path: 'y' model_version_policy { specific {} } } }",
            "the specific versions of x are none",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "models.config").write_text(text)
    with pytest.raises(BadRequest, match=words):
        read_config_file(tmp_path / "models.config")
    with pytest.raises(BadRequest, match="No such file"):
        read_config_file(tmp_path / "other.config")


def test_versions_are_folders_with_a_number_and_a_model(tmp_path: Path) -> None:
    for name in ("1", "007", "x2", "3", "4", "9" * 30):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("saved_model.pb" if name == "4" else "artifact.json")).touch()
    (tmp_path / "3" / "artifact.json").unlink()
    assert sorted(versions_in(tmp_path)) == [1, 4, 7]
    assert versions_in(tmp_path / "1") == {1: tmp_path / "1"}
    assert versions_in(tmp_path / "none") == {}
