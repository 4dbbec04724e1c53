"""What ships: a policy of a run, or the mean of the weights of several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.policies.checkpoint import load_policy, save_policy
from weft.training.ship import ship


def runs(folder: Path, name: str, shifts: tuple[float, ...]) -> Path:
    """A folder of runs whose weights are those that ship, shifted."""
    weights, card = load_policy(catalog.policy_file(name) or name)
    for k, shift in enumerate(shifts, start=1):
        (folder / f"seed-{k}").mkdir(parents=True)
        moved = {key: value + np.float32(shift) for key, value in weights.items()}
        save_policy(folder / f"seed-{k}" / "best.json", moved, card)
    return folder


def test_a_folder_of_runs_ships_the_mean_of_their_weights(tmp_path: Path):
    ship(str(runs(tmp_path / "runs", "es", (-1.0, 0.0, 4.0))), "mine", tmp_path, command="weft train")
    found, card = load_policy(tmp_path / "mine.json")
    (own,) = load_policy(catalog.policy_file("es") or "")[0].values()
    np.testing.assert_allclose(next(iter(found.values())), own + 1.0, atol=1e-6)
    assert (card.name, card.training["command"]) == ("mine", "weft train")


def test_nets_are_not_averaged(tmp_path: Path):
    with pytest.raises(InputError, match="expected runs of weights of a rule"):
        ship(str(runs(tmp_path / "runs", "lachesis", (0.0, 1.0))), "mine", tmp_path)
