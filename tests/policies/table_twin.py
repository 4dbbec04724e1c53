"""The encoder once more, slowly: every head over a table of all pairs, in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.policies.oneshot.attention_layout import relation_table
from weft.policies.oneshot.encoder import one_hot
from weft.policies.oneshot.encoder_shape import EncoderShape
from weft.policies.oneshot.features import TaskView


def table_scores(weights: Mapping[str, np.ndarray], shape: EncoderShape, view: TaskView) -> np.ndarray:
    """Logits and log-odds of holding (num_tasks, 2)."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def affine(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normal(name: str, x: np.ndarray) -> np.ndarray:
        deviation = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        return (x - x.mean(axis=1, keepdims=True)) / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    hidden = affine("embed", np.concatenate([view.features, one_hot(view, shape.num_types)], axis=1))
    for i in range(shape.layers):
        mixed = affine(f"layers.{i}.mix", normal(f"layers.{i}.before", hidden))
        mixed = mixed.reshape(view.num_tasks, 3, len(shape.heads), -1)
        heads = [table_attention(mixed[:, :, h], relation_table(view, r)) for h, r in enumerate(shape.heads)]
        hidden = hidden + affine(f"layers.{i}.out", np.concatenate(heads, axis=1))
        up = affine(f"layers.{i}.up", normal(f"layers.{i}.between", hidden))
        bent = np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3))
        hidden = hidden + affine(f"layers.{i}.down", 0.5 * up * (1 + bent))
    return affine("score", normal("norm", hidden)) + view.features @ w["skip"].T


def table_attention(mixed: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Queries, keys and values (n, 3, w) to (n, w), with a null key of score 0 and value 0."""
    q, k, v = mixed.swapaxes(0, 1)
    score = np.where(table, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    score = np.concatenate([score, np.zeros((len(q), 1))], axis=1)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return (weight / weight.sum(axis=1, keepdims=True))[:, :-1] @ v
