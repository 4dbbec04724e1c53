"""CMA-ES (Hansen and Ostermeier, 2001; Hansen, 2016): a normal law that moves towards what does better.

All state is arrays, and draws come from a generator whose state is kept, so a search resumes exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.model.graph import Floats
from weft.policies.tensors import Array


class CMAES:
    """Minimises a function of a vector from values of a drawn population.

    Parameters
    ----------
    mean
        Where to begin (n,).
    sigma
        Standard deviation at the start, in units of ``scale``.
    scale
        What a step of one means in every coordinate (n,).
    population
        Vectors per generation.
    """

    def __init__(self, mean: Floats, sigma: float, scale: Floats, population: int, seed: int) -> None:
        n = len(mean)
        self.n, self.population, self._scale = n, population, scale
        self._parents = population // 2
        raw = np.log((population + 1) / 2) - np.log(np.arange(1, self._parents + 1))
        self._weights = raw / raw.sum()
        self._mass = 1.0 / float((self._weights**2).sum())
        mass = self._mass
        self._c_sigma = (mass + 2) / (n + mass + 5)
        self._damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self._c_one = 2 / ((n + 1.3) ** 2 + mass)
        self._c_mu = min(1 - self._c_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self._length = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        """Expected length of a normal vector."""
        self.mean = mean / scale
        self.sigma = float(sigma)
        self._covariance = np.eye(n)
        self._path_sigma = np.zeros(n)
        self._path = np.zeros(n)
        self.generation = 0
        self._rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, n])))
        self._steps = np.zeros((0, n))

    @property
    def best(self) -> Floats:
        """The mean of the law, as a vector of the function (n,)."""
        return self.mean * self._scale

    def ask(self) -> Floats:
        """Vectors (population, n) to be judged; pairs mirror one another, which halves the noise of the mean."""
        values, axes = np.linalg.eigh(self._covariance)
        root = axes * np.sqrt(np.maximum(values, 1e-20))
        half = self._rng.standard_normal(((self.population + 1) // 2, self.n)) @ root.T
        self._steps = np.concatenate([half, -half])[: self.population]
        return (self.mean + self.sigma * self._steps) * self._scale

    def tell(self, costs: Floats) -> None:
        """Move the law by the costs (population,) of what was asked."""
        order = np.argsort(costs, kind="stable")[: self._parents]
        steps = self._steps[order]
        step = self._weights @ steps
        self.mean = self.mean + self.sigma * step
        values, axes = np.linalg.eigh(self._covariance)
        whitened = axes @ ((axes.T @ step) / np.sqrt(np.maximum(values, 1e-20)))
        c_sigma, c_path, mass = self._c_sigma, self._c_path, self._mass
        self._path_sigma = (1 - c_sigma) * self._path_sigma + np.sqrt(
            c_sigma * (2 - c_sigma) * mass
        ) * whitened
        self.generation += 1
        length = float(np.linalg.norm(self._path_sigma))
        settled = np.sqrt(1 - (1 - c_sigma) ** (2 * self.generation))
        is_stalled = length / settled < (1.4 + 2 / (self.n + 1)) * self._length
        self._path = (1 - c_path) * self._path
        if is_stalled:
            self._path = self._path + np.sqrt(c_path * (2 - c_path) * mass) * step
        missed = 0.0 if is_stalled else c_path * (2 - c_path)
        one, mu = self._c_one, self._c_mu
        self._covariance = (
            (1 - one - mu + one * missed) * self._covariance
            + one * np.outer(self._path, self._path)
            + mu * (steps.T * self._weights) @ steps
        )
        self.sigma *= float(np.exp(min(1.0, c_sigma / self._damping * (length / self._length - 1))))

    def state(self) -> dict[str, Array]:
        """Everything that the next generation depends on."""
        words = self._rng.bit_generator.state["state"]
        return {
            "mean": self.mean.copy(),
            "sigma": np.array(self.sigma),
            "covariance": self._covariance.copy(),
            "path_sigma": self._path_sigma.copy(),
            "path": self._path.copy(),
            "generation": np.array(self.generation),
            "random": np.array(
                [(words[key] >> (64 * k)) & (2**64 - 1) for key in ("state", "inc") for k in (0, 1)],
                dtype=np.uint64,
            ).view(np.int64),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.mean = state["mean"].astype(np.float64)
        self.sigma = float(state["sigma"])
        self._covariance = state["covariance"].astype(np.float64)
        self._path_sigma = state["path_sigma"].astype(np.float64)
        self._path = state["path"].astype(np.float64)
        self.generation = int(state["generation"])
        low = [int(word) for word in state["random"].astype(np.int64).view(np.uint64)]
        whole = dict(self._rng.bit_generator.state)
        whole["state"] = {"state": low[0] | low[1] << 64, "inc": low[2] | low[3] << 64}
        whole["has_uint32"], whole["uinteger"] = 0, 0
        self._rng.bit_generator.state = whole
