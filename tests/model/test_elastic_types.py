"""Types of elastic tasks: what is refused, and how long they take."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.elastic import MOST_TASK_STEPS, ElasticProblem, TaskType, insensitive


def type_of(gain: float = 0.5, most: int = 2, **fields: object) -> TaskType:
    return TaskType("a", (1,), (most,), np.full(1, gain), np.zeros(1), **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"law": "table", "curve": (1.0, float("nan"))},
            r"types\.a\.curve: expected finite factors > 0, got nan",
        ),
        ({"law": "table", "curve": (1.0, 0.0)}, r"types\.a\.curve: expected finite factors > 0, got 0"),
        ({"law": "root", "value": float("inf")}, r"types\.a\.value: expected a finite number > 0, got inf"),
        ({"law": "root", "value": 0.0}, r"types\.a\.value: expected a finite number > 0, got 0"),
        ({"law": "root", "value": 0.9}, "ends within 100,000 world steps with 1 units"),
        ({"gain": 0.0}, r"types\.a\.rate: expected a task that ends within 100,000 world steps with 1 units"),
        ({"gain": 0.9e-5}, "ends within 100,000 world steps"),
        ({"gain": -0.3, "noise": 0.2}, "ends within 100,000 world steps"),
        ({"most": 257}, r"types\.a\.most: expected at most 256 units of a resource, got 257"),
    ],
)
def test_types_that_cannot_be_run_are_refused(fields: dict[str, object], said: str):
    with pytest.raises(InputError, match=said):
        type_of(**fields)


def test_types_that_end_by_noise_alone_are_allowed():
    assert type_of(0.0, noise=0.1).noise == 0.1
    assert type_of(1.01e-5).steps((1,)) <= MOST_TASK_STEPS


@pytest.mark.parametrize("gain", [0.1, 0.25, 1.0 / 3.0, 0.7, 1.0, 1e-3, 3.7e-4])
def test_equal_gains_are_added_one_by_one(gain: float):
    progress, count = 0.0, 0
    while progress < 1.0:
        progress, count = progress + gain, count + 1
    assert type_of(gain).steps((1,)) == count
    assert type_of(gain).steps((1,), 2) == min(2, count)


@pytest.mark.parametrize("units", [1025, -1])
def test_capacities_have_a_limit(units: int):
    with pytest.raises(InputError, match=f"capacity: expected 0 to 1024 units of a resource, got {units}"):
        ElasticProblem(np.array([[units]]), (insensitive("a", (1,), (1,), 0.5),), 1, 1.0, resources=("cpu",))
