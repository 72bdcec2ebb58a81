"""Models of the Hugging Face hub, fetched and kept by huggingface_hub itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from huggingface_hub import constants, scan_cache_dir, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError comes from httpx
    CacheNotFound,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

from multidraft.errors import ModelUnavailable, UnsupportedModel
from multidraft.models.disk import writing
from multidraft.models.folder import check_folder

_NEEDED = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_WEIGHTS = ["*.safetensors"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]
_NOT_NEEDED = ["*/*", "consolidated*"]  # other formats, and copies of the weights


def fetch_from_hub(name: str, revision: str | None, progress: bool) -> Path:
    """The folder of a hub model in huggingface_hub's cache, downloading what is not there.

    Raises:
        ModelUnavailable: no such model or revision, no access, no network, a full disk.
    """
    if not progress:
        disable_progress_bars()
    try:
        with writing(Path(constants.HF_HUB_CACHE), setting="HF_HUB_CACHE"):
            folder = _snapshot(name, revision, _WEIGHTS)
            if not any(folder.glob("*.safetensors")):
                folder = _snapshot(name, revision, _OLD_WEIGHTS)
    finally:
        if not progress:
            enable_progress_bars()
    return folder


def _snapshot(name: str, revision: str | None, weights: list[str]) -> Path:
    try:
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=_NEEDED + weights,
                ignore_patterns=_NOT_NEEDED,
            )
        )
    except GatedRepoError as error:  # a kind of RepositoryNotFoundError
        raise ModelUnavailable(
            f"The hub gives {name} only to people who accepted its terms; accept them on its page "
            "and run `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelUnavailable(
            f"The hub has {name} but no revision '{revision}' of it; check its name."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelUnavailable(
            f"The hub has no model '{name}' that you may see; check the spelling, or run "
            "`hf auth login` for a private one."
        ) from error
    except HfHubHTTPError as error:
        raise ModelUnavailable(
            f"The hub failed on '{name}' (HTTP {error.response.status_code}); try again: what "
            "arrived is kept."
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HTTPError) as error:
        raise ModelUnavailable(
            f"'{name}' is not on this machine and the hub could not be reached; check the network, "
            "or give a folder or a model that `multidraft models` lists."
        ) from error


def hub_models() -> dict[str, tuple[Path, int]]:
    """Folder and size of every whole causal language model in huggingface_hub's cache, by the name
    to give; of several revisions, the one that ``main`` is, else another with its name."""
    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return {}
    found = {}
    for repository in sorted(repositories, key=lambda each: each.repo_id):
        if repository.repo_type != "model":
            continue
        for revision in sorted(repository.revisions, key=lambda each: "main" not in each.refs):
            name = repository.repo_id
            if "main" not in revision.refs:
                name += f"@{min(revision.refs, default=revision.commit_hash)}"
            with suppress(ModelUnavailable, UnsupportedModel):
                folder = check_folder(revision.snapshot_path)
                found[name] = (folder, repository.size_on_disk)
                break
    return found
