"""Names: which kind each is, where it leads, and what a wrong one is told."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from huggingface_hub import errors as hub_errors
from huggingface_hub import scan_cache_dir

from multidraft.errors import InvalidInput, ModelUnavailable, UnsupportedModel
from multidraft.models import hub
from multidraft.models.disk import cache_folder, show_bytes
from multidraft.models.store import list_models, resolve

from .store_gguf import tiny_llama

http = importlib.import_module(hub_errors.Response.__module__)  # httpx, under one name or another


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    tiny_llama().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_is_used_in_place(folder):
    assert resolve(str(folder)) == folder
    assert resolve("model") == folder
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda f: (f / "config.json").unlink(), ModelUnavailable, "has no config.json"),
        (lambda f: (f / "config.json").write_text("{"), ModelUnavailable, "cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), ModelUnavailable, "lacks model.safetensors"),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "clip"}'),
            UnsupportedModel,
            "architecture 'clip'",
        ),
        (
            lambda f: (f / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"a": "model-2.safetensors"}})
            ),
            ModelUnavailable,
            r"lacks model-2\.safetensors",
        ),
    ],
)
def test_a_folder_that_is_no_whole_model(folder, damage, error, says):
    damage(folder)
    with pytest.raises(error, match=says):
        resolve(str(folder))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("./nowhere", "no file or folder"),
        ("nowhere.gguf", "no file or folder"),
        ("some/deep/folder", "no file or folder"),
        ("./mine@2", "no file or folder"),
        ("models/qwen@q4.gguf", "no file or folder"),
        ("smollm2-135m", "did you mean 'smollm2-135m-instruct'"),
    ],
)
def test_names_that_lead_nowhere(name, says):
    with pytest.raises(ModelUnavailable, match=says):
        resolve(name)


def test_input_that_makes_no_sense(folder):
    with pytest.raises(InvalidInput, match="empty"):
        resolve(" ")
    for name in (str(folder), "smollm2-135m-instruct"):
        with pytest.raises(InvalidInput, match="no revision"):
            resolve(name, revision="main")


def test_a_cache_folder_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(ModelUnavailable, match="cannot be written"):
        resolve("smollm2-135m-instruct")


def test_a_hub_id_goes_to_the_hub_with_old_weights_only_where_needed(folder, monkeypatch):
    asked = []

    def snapshot(name, revision, allow_patterns, ignore_patterns):
        asked.append((name, revision, "pytorch_model*.bin" in allow_patterns))
        return str(folder)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    assert resolve("owner/name", revision="v1") == folder
    assert asked == [("owner/name", "v1", False)]
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert resolve("owner/name") == folder
    assert asked[2:] == [("owner/name", None, True)]
    resolve("owner/name@refs/pr/1")  # as every command can say it
    assert asked[-1] == ("owner/name", "refs/pr/1", True)


def answer(status: int) -> hub_errors.Response:
    return http.Response(status, request=http.Request("GET", "https://hub.invalid"))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (hub_errors.GatedRepoError("x", response=answer(403)), "accepted its terms"),
        (hub_errors.RevisionNotFoundError("x", response=answer(404)), "no revision 'v1'"),
        (hub_errors.RepositoryNotFoundError("x", response=answer(404)), "has no model"),
        (hub_errors.HFValidationError("x"), "has no model"),
        (hub_errors.HfHubHTTPError("x", response=answer(503)), "HTTP 503"),
        (hub_errors.LocalEntryNotFoundError("x"), "could not be reached"),
        (hub_errors.OfflineModeIsEnabled("x"), "could not be reached"),
        (hub_errors.HTTPError("x"), "could not be reached"),
        (OSError(28, "No space left on device"), "HF_HUB_CACHE"),
    ],
)
def test_each_failure_of_the_hub_has_its_sentence(monkeypatch, error, says):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(ModelUnavailable, match=says):
        resolve("owner/name", revision="v1", progress=False)


def test_hub_models_on_this_machine_are_listed(tmp_path, folder, monkeypatch):
    """Of those that can be loaded, the revision that is called main."""

    def cached(name: str, revision: str) -> Path:
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        snapshot = repository / "snapshots" / revision
        shutil.copytree(folder, snapshot)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / ("main" if revision == "b" else revision)).write_text(revision)
        (repository / "blobs").mkdir(exist_ok=True)
        return snapshot

    snapshots = [cached("owner/whole", revision) for revision in "abc"]
    pinned = cached("owner/pinned", "v1")
    (cached("owner/begun", "b") / "model.safetensors").unlink()
    (cached("owner/other", "b") / "config.json").write_text('{"model_type": "bert-like"}')
    monkeypatch.setattr(hub, "scan_cache_dir", lambda: scan_cache_dir(tmp_path / "hub"))
    found = [model for model in list_models() if "/" in model.name]
    assert [(m.name, m.state, m.path) for m in found] == [
        ("owner/pinned@v1", "ready", pinned),
        ("owner/whole", "ready", snapshots[1]),
    ]


def test_the_cache_folder_follows_the_platform(monkeypatch):
    monkeypatch.delenv("MULTIDRAFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    monkeypatch.setattr(Path, "home", lambda: Path("/home"))
    for platform, expected in {
        "linux": "/xdg/multidraft",
        "win32": "/local/multidraft",
        "darwin": "/home/Library/Caches/multidraft",
    }.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_folder() == Path(expected)


def test_sizes_for_people():
    sizes = (5, 92_871_040, 999_700_000, 1_092_845_809)
    assert [show_bytes(size) for size in sizes] == ["5 B", "92.9 MB", "1 GB", "1.09 GB"]
