"""Tail areas and quantiles of the normal and Student's t distribution. Standard library only."""

from __future__ import annotations

import math
from statistics import NormalDist

_SQRT_HALF = math.sqrt(0.5)
_MAX_TERMS = 100_000


def normal_cdf(z: float) -> float:
    """Area of the standard normal below z."""
    return 0.5 * math.erfc(-z * _SQRT_HALF)


def normal_two_sided(z: float) -> float:
    """Area of the standard normal farther from zero than z."""
    return math.erfc(abs(z) * _SQRT_HALF)


def normal_quantile(area: float) -> float:
    """The z with this area below it; area strictly between 0 and 1."""
    return NormalDist().inv_cdf(area)


def t_two_sided(t: float, df: float) -> float:
    """Area of Student's t with df degrees of freedom farther from zero than t.

    The regularised incomplete beta function I_x(df/2, 1/2) at x = df / (df + t²), by its continued
    fraction; logarithms keep the far tails accurate.
    """
    scaled = abs(t) / math.sqrt(df)
    if scaled == 0.0:
        return 1.0
    if math.isinf(scaled):
        return 0.0
    half = 0.5 * df
    log_ratio = 2.0 * math.log(scaled)
    log_x = -_log1p_exp(log_ratio)
    log_rest = log_ratio + log_x
    front = math.exp(half * log_x + 0.5 * log_rest + _log_gamma_step(half) - 0.5 * math.log(math.pi))
    x = math.exp(log_x)
    if x < (half + 1.0) / (half + 2.5):
        return front * _beta_fraction(half, 0.5, x) / half
    return 1.0 - front * _beta_fraction(0.5, half, math.exp(log_rest)) / 0.5


def t_quantile(outside: float, df: float) -> float:
    """The t > 0 with this area farther from zero than it; area strictly between 0 and 1.

    Newton's method from the normal quantile: the area is convex in t and the start lies left of the
    root, so the steps only ever go right until rounding stops them.
    """
    t = max(-normal_quantile(0.5 * outside), 0.0)
    while True:
        following = t + (t_two_sided(t, df) - outside) / (2.0 * _t_density(t, df))
        if not following > t * (1.0 + 1e-15):
            return t
        t = following


def _t_density(t: float, df: float) -> float:
    log_tail = 0.5 * (df + 1.0) * math.log1p(t * t / df)
    return math.exp(_log_gamma_step(0.5 * df) - 0.5 * math.log(math.pi * df) - log_tail)


def _log1p_exp(value: float) -> float:
    """log(1 + exp(value)) without overflow."""
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _log_gamma_step(a: float) -> float:
    """log(gamma(a + 1/2) / gamma(a)); a series where the difference of lgamma would lose digits."""
    if a < 50.0:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    inverse = 1.0 / (a * a)
    series = -1 / 8 + inverse * (1 / 192 + inverse * (-1 / 640 + inverse * 17 / 14336))
    return 0.5 * math.log(a) + series / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, by the modified Lentz method."""
    upper, lower = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        before = value
        for term in (even, odd):
            lower = 1.0 / (1.0 + term * lower)
            upper = 1.0 + term / upper
            value *= lower * upper
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return value
