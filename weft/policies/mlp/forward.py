"""Decisions of a trained policy in NumPy: no torch, no compilation, microseconds each.

A head's choice is the greatest logit that the mask allows, or a draw from the masked softmax when a
generator is given (the Gumbel-max trick: add noise, take the greatest).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.policies.checkpoint import Architecture, Card, Floats32, check_weights, load_policy
from weft.policies.products import MOST_BY_VECTOR, product
from weft.policies.tensors import Array

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Narrow = Callable[[Bools, int, Ints], None]
"""Called as (mask (B, H, K), head, choices (B,)) after each head: may rule out choices of later heads."""

_NEVER = np.float32(-np.inf)
_LEAST = np.float32(1e-30)
"""A draw of 0 would make the noise infinite."""


class MlpPolicy:
    """A multi-layer perceptron that decides; one object per thread, since it reuses its buffers."""

    def __init__(
        self, weights: Mapping[str, Array], architecture: Architecture, card: Card | None = None
    ) -> None:
        self._weights = known = check_weights(weights, architecture)
        self.architecture = architecture
        self.card = card
        names = [f"policy.{i}" for i in range(len(architecture.hidden))]
        self._matrices = [_folded(known, name) for name in names]
        self._out = _folded(known, "policy.out")  # (H * K, hidden + 1)
        *self._turned, self._turned_out = [_turned(known, name) for name in (*names, "policy.out")]
        self._prefix = known.get("policy.prefix")  # (H * K, hidden)
        self._activate = np.tanh if architecture.activation == "tanh" else relu
        self._shape = (architecture.num_heads, architecture.num_choices)
        self._make_buffers()

    def _make_buffers(self) -> None:
        """One vector per layer with a trailing 1, so that biases are a column of the matrices."""
        widths = (self.architecture.num_features, *self.architecture.hidden)
        vectors = [np.ones(width + 1, np.float32) for width in widths]
        self._observation = vectors[0][:-1]  # (F,)
        self._layers = [
            (_parts(matrix, source, target[:-1]), target[:-1])
            for matrix, source, target in zip(self._matrices, vectors, vectors[1:], strict=False)
        ]
        num_heads, num_choices = self._shape
        self._rows = [slice(h * num_choices, (h + 1) * num_choices) for h in range(num_heads)]
        self._last = vectors[-1]  # (hidden + 1,)
        flat = np.empty(self._out.shape[0], np.float32)  # (H * K,)
        self._last_parts = _parts(self._out, self._last, flat)
        self._logits = flat.reshape(self._shape)  # (H, K)
        self._barred = np.empty(self._shape, np.bool_)  # (H, K)

    def clone(self) -> MlpPolicy:
        """The same policy with buffers of its own, for another thread."""
        return MlpPolicy(self._weights, self.architecture, self.card)

    @classmethod
    def load(cls, path: str | Path) -> MlpPolicy:
        """The policy of a weights file or its card."""
        weights, card = load_policy(path)
        return cls(weights, card.perceptron, card)

    def decide(
        self,
        observation: Floats32,  # (F,)
        mask: Bools,  # (H, K)
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:  # (H,)
        """One choice per head: the best allowed one, or a draw if ``rng`` is given."""
        if narrow is not None:
            return self.decide_batch(observation[None], mask[None], rng, narrow)[0]
        self._observation[:] = observation
        np.logical_not(mask, out=self._barred)
        activate = self._activate
        for parts, hidden in self._layers[:-1]:
            _multiply(parts)
            activate(hidden, hidden)
        parts, hidden = self._layers[-1]
        _multiply(parts)
        if self._prefix is not None:
            return self._decide_in_turn(self._prefix, rng)
        activate(hidden, hidden)
        _multiply(self._last_parts)
        np.copyto(self._logits, _NEVER, where=self._barred)
        if rng is not None:
            self._logits += gumbel(rng, self._shape)
        return self._logits.argmax(axis=1)

    def _decide_in_turn(self, prefix: Floats32, rng: np.random.Generator | None) -> Ints:
        """The choices of heads that see those before them, from the layers already computed."""
        hidden = self._last[:-1]
        before = hidden.copy()
        noise = gumbel(rng, self._shape) if rng is not None else None
        actions = np.empty(self._shape[0], np.int64)
        for head, rows in enumerate(self._rows):
            self._activate(before, hidden)
            scores = np.dot(self._out[rows], self._last)
            scores[self._barred[head]] = _NEVER
            if noise is not None:
                scores += noise[head]
            choice = scores.argmax()
            actions[head] = choice
            before += prefix[rows.start + choice]
        return actions

    def decide_batch(
        self,
        observation: Floats32,  # (B, F)
        mask: Bools,  # (B, H, K)
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:  # (B, H)
        """Choices for many observations at once; ``mask`` is left as it is."""
        noise = gumbel(rng, mask.shape) if rng is not None else np.zeros((), np.float32)
        if self._prefix is None and narrow is None:
            return np.where(mask, self.logits(observation) + noise, _NEVER).argmax(axis=2)
        before = self._before_last(observation)
        allowed = mask.copy()
        actions = np.empty(mask.shape[:2], np.int64)
        for head in range(self._shape[0]):
            scores = self._head_logits(before, head) + (noise[:, head] if rng is not None else noise)
            actions[:, head] = np.where(allowed[:, head], scores, _NEVER).argmax(axis=1)
            self._add_choice(before, head, actions[:, head])
            if narrow is not None:
                narrow(allowed, head, actions[:, head])
        return actions

    def logits(self, observation: Floats32, actions: Ints | None = None) -> Floats32:
        """Logits (B, H, K) before the mask; autoregressive heads also need the choices (B, H)."""
        before = self._before_last(observation)
        if self._prefix is None:
            flat = _affine(self._turned_out, self._activate(before))
            return flat.reshape(len(flat), *self._shape)
        if actions is None:
            raise InputError("autoregressive heads have logits only for given choices", field="actions")
        logits = np.empty((len(before), *self._shape), np.float32)
        for head in range(self._shape[0]):
            logits[:, head] = self._head_logits(before, head)
            self._add_choice(before, head, actions[:, head])
        return logits

    def _before_last(self, observation: Floats32) -> Floats32:
        """The last hidden layer (B, hidden) before its activation."""
        *first, last = self._turned
        for layer in first:
            values = _affine(layer, observation)
            observation = self._activate(values, values)
        return _affine(last, observation)

    def _head_logits(self, before: Floats32, head: int) -> Floats32:
        rows = self._rows[head]
        layer = _Turned(self._turned_out.weight[:, rows], self._turned_out.bias[rows])
        return _affine(layer, self._activate(before))

    def _add_choice(self, before: Floats32, head: int, actions: Ints) -> None:
        if self._prefix is not None:
            before += self._prefix[head * self._shape[1] + actions]


class _Turned(NamedTuple):
    """A layer as batches take it."""

    weight: Floats32  # (in, out)
    bias: Floats32  # (out,)


class _Part(NamedTuple):
    """Some rows of a matrix, what they are multiplied with and where the result goes."""

    matrix: Floats32  # (rows, size)
    source: Floats32  # (size,)
    target: Floats32  # (rows,)


def _parts(matrix: Floats32, source: Floats32, target: Floats32) -> list[_Part]:
    """A product of a matrix and a vector, in parts that no BLAS shares between threads."""
    rows = max(1, MOST_BY_VECTOR // matrix.shape[1])
    cuts = [slice(first, first + rows) for first in range(0, len(matrix), rows)]
    return [_Part(matrix[at], source, target[at]) for at in cuts]


def _multiply(parts: Sequence[_Part]) -> None:
    for matrix, source, target in parts:
        np.dot(matrix, source, out=target)


def _folded(weights: Mapping[str, Floats32], name: str) -> Floats32:
    """Weight (out, in) and bias as one matrix (out, in + 1)."""
    return np.column_stack([weights[f"{name}.weight"], weights[f"{name}.bias"]])


def _turned(weights: Mapping[str, Floats32], name: str) -> _Turned:
    return _Turned(np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"])


def _affine(layer: _Turned, inputs: Floats32) -> Floats32:
    out = product(inputs, layer.weight)
    out += layer.bias
    return out


def relu(values: Floats32, out: Floats32 | None = None) -> Floats32:
    """The positive part."""
    return np.maximum(values, np.float32(0.0), out=out)


def gumbel(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats32:
    """Noise that makes the greatest sum a draw from the softmax."""
    drawn = rng.standard_exponential(shape, np.float32)
    return -np.log(np.maximum(drawn, _LEAST, out=drawn))
