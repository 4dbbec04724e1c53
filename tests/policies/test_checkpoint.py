from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.errors import InputError
from weft.policies.checkpoint import Architecture, Card, check_weights, load_policy, read_card, save_policy
from weft.policies.tensors import encode_tensors, sha256

SHAPE = Architecture(3, 2, 4, (5,), is_autoregressive=True)
CARD = Card(
    "toy",
    "ppo",
    SHAPE,
    feature_version="queue/2",
    features=("a", "b", "c"),
    scales=(1.0, 50.0, 5000.0),
    heads=("cpu", "gpu"),
    choices=("A", "B", "C", "idle"),
    ranges=((0.0, 1.0), (0.0, 2.0), (-1.0, 1.0)),
    training={"seed": 7, "figures": {"mean_jct": 51.5}},
)


def weights(shape: Architecture = SHAPE) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=size).astype(np.float32) for name, size in shape.shapes().items()}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The card of a policy on disk."""
    save_policy(tmp_path / "toy.json", weights(), CARD)
    return tmp_path / "toy.json"


def test_policy_comes_back_as_it_was(saved: Path):
    for path in (saved, saved.with_suffix(".safetensors"), str(saved)):
        found, card = load_policy(path)
        assert all(np.array_equal(found[name], array) for name, array in weights().items())
        assert replace(card, weights="", sha256="") == CARD


def test_architecture_names_every_tensor():
    assert Architecture(3, 2, 4, (5, 6), critic="shared").shapes() == {
        "policy.0.weight": (5, 3),
        "policy.0.bias": (5,),
        "policy.1.weight": (6, 5),
        "policy.1.bias": (6,),
        "policy.out.weight": (8, 6),
        "policy.out.bias": (8,),
        "value.out.weight": (1, 6),
        "value.out.bias": (1,),
    }


def test_policy_with_any_flipped_bit_is_refused(saved: Path):
    path = saved.with_suffix(".safetensors")
    whole = path.read_bytes()
    for bit in np.random.default_rng(1).choice(8 * len(whole), 200, replace=False).tolist():
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(InputError, match="does not have the SHA-256"):
            load_policy(saved)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.pt", b"PK\x03\x04" + bytes(50), "a torch .pt or NumPy .npz file"),
        ("x.pkl", b"\x80\x04\x95" + bytes(50), "weft never unpickles"),
        ("x.safetensors", encode_tensors(weights()), "expected its card x.json beside it"),
        ("x.json", b"{", "expected the card of a policy, which is JSON"),
        ("x.json", b"\xff", "expected the card of a policy, which is JSON"),
        ("x.json", b"[]", "schema: expected the card of a policy, 'weft.policy/1', got 'list'"),
        ("x.json", b'{"schema": "weft.run/1"}', "schema: expected the card of a policy"),
    ],
)
def test_policy_refuses_other_files(tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        load_policy(tmp_path / name)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["none.json", "none.safetensors"])
def test_policy_that_is_not_there_is_refused(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="none"):
        load_policy(tmp_path / name)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", 3, "name: expected text, got 3"),
        ("sha256", None, "sha256: expected text, got None"),
        ("architecture", [], "architecture: expected named values, got []"),
        ("feature_version", 1.5, "feature_version: expected text, got 1.5"),
        ("features", ["a"], "features: expected 3 entries as in the architecture, got 1"),
        ("features", [1, 2, 3], "features: expected a list of names"),
        ("scales", [1, 2, float("nan")], "scales: expected a list of finite numbers"),
        ("ranges", [[0, 1], [0], [1, 2]], "ranges[1]: expected least and greatest value, got 1 numbers"),
        ("ranges", 1, "ranges: expected a list of pairs"),
        ("training", "x", "training: expected named values, got 'x'"),
        ("weights", "../toy.safetensors", "weights: expected a file in the card's folder"),
        ("weights", "/toy.safetensors", "weights: expected a file in the card's folder"),
        ("weights", "", "weights: expected a file in the card's folder"),
        ("weights", "gone.safetensors", "gone.safetensors: cannot be read: No such file or directory"),
    ],
)
def test_card_refuses(saved: Path, field: str, value: object, message: str):
    document = json.loads(saved.read_text())
    document[field] = value
    saved.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        load_policy(saved)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_heads", 0, "architecture.num_heads: expected a whole number from 1 to 65536, got 0"),
        ("num_heads", "2", "architecture.num_heads: expected a whole number, got '2'"),
        ("hidden", 5, "architecture.hidden: expected a list of widths, got 5"),
        ("hidden", [], "architecture.hidden: expected 1 to 8 hidden layers, got 0"),
        ("hidden", ["5"], "architecture.hidden[0]: expected a whole number from 1 to 65536, got '5'"),
        ("activation", "gelu", "architecture.activation: expected tanh or relu, got 'gelu'"),
        ("critic", "two", "architecture.critic: expected one of separate, shared, none, got 'two'"),
        ("is_autoregressive", 1, "architecture.is_autoregressive: expected true or false, got 1"),
        ("hidden", [6], "policy.0.weight: expected shape (6, 3), got (5, 3)"),
        ("is_autoregressive", False, "policy.prefix: a tensor that the architecture does not have"),
        ("critic", "shared", "value.0.bias: a tensor that the architecture does not have"),
        ("hidden", [5, 5], "policy.1.weight: expected a tensor of this name, found none"),
    ],
)
def test_card_refuses_another_architecture(saved: Path, field: str, value: object, message: str):
    document = json.loads(saved.read_text())
    document["architecture"][field] = value
    saved.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        load_policy(saved)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), "policy.0.bias: expected float32, got float64"),
        (np.full(5, np.nan, np.float32), "policy.0.bias: expected finite numbers, got NaN or infinity"),
        (np.zeros((5, 1), np.float32), "policy.0.bias: expected shape (5,), got (5, 1)"),
    ],
)
def test_weights_refuse(array: np.ndarray, message: str):
    with pytest.raises(InputError) as error:
        check_weights({**weights(), "policy.0.bias": array}, SHAPE)
    assert str(error.value) == message


def test_card_may_name_a_file_in_a_folder_below(tmp_path: Path):
    (tmp_path / "policies").mkdir()
    card = save_policy(tmp_path / "best.json", weights(), CARD, "policies/1.safetensors")
    assert card.sha256 == sha256((tmp_path / "policies" / "1.safetensors").read_bytes())
    assert load_policy(tmp_path / "best.json")[1] == card == read_card(tmp_path / "best.json")


def test_policy_of_a_run_has_a_name(tmp_path: Path):
    save_policy(tmp_path / "best.json", weights(), CARD)
    save_policy(tmp_path / "last.json", weights(), replace(CARD, name="newest"))
    names = [load_policy(name)[1].name for name in (tmp_path, f"{tmp_path}@best", f"{tmp_path}@last")]
    assert names == ["toy", "toy", "newest"]
