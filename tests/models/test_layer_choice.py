"""How a draft made of the target's layers is named."""

from __future__ import annotations

import pytest

from multidraft.errors import InvalidInput
from multidraft.models.layer_choice import parse_layers, settled, write_layers


def test_names(tmp_path):
    assert parse_layers("0-3,7, 9") == [0, 1, 2, 3, 7, 9]
    assert settled("self:0-2,5") == "self:0,1,2,5"
    assert settled("models/small") == "models/small"
    path = tmp_path / "layers.json"
    write_layers(path, "big", [0, 4])
    assert parse_layers(str(path)) == [0, 4] and settled(f"self:{path}") == "self:0,4"
    assert [each.name for each in tmp_path.iterdir()] == ["layers.json"]


@pytest.mark.parametrize("text", ["", "1,,2", "-", "3-", "1-2-3", "5-2", "0-9999999"])
def test_no_layers(text):
    with pytest.raises(InvalidInput):
        parse_layers(text)


@pytest.mark.parametrize(
    "content",
    ["{", "[1]", '{"layers": 3}', '{"layers": [true]}', '{"layers": []}', '{"layers": [-1]}', "{}"],
)
def test_files_of_something_else(tmp_path, content):
    path = tmp_path / "layers.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="holds no layers; make it with `multidraft calibrate`"):
        parse_layers(str(path))


def test_messages():
    with pytest.raises(InvalidInput, match="5-2 in self:0,5-2 is no layer; write 2-5"):
        parse_layers("0,5-2")
    with pytest.raises(InvalidInput, match="Give the layers after self:"):
        parse_layers("")


def test_nothing_is_left_behind(tmp_path):
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_layers(tmp_path, "big", [0])  # a folder
    assert not tmp_path.with_name(tmp_path.name + ".new").exists()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_layers(tmp_path / "no" / "layers.json", "big", [0])
