"""The shape of a net that picks a ready task. Loads neither torch nor numba."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError

MAX_WIDTH = 1024


@dataclass(frozen=True)
class PickArchitecture:
    """Messages from children to parents, summaries of jobs and of all of them, one scorer for all ready tasks.

    After Decima (Mao et al., 2019) and Lachesis (Luo et al., 2021).
    """

    node: int
    """Fixed features of every task."""
    job: int
    """Features of every job in the system."""
    pick: int
    """Features of every ready task."""
    world: int
    """Features of the whole."""
    hidden: int = 16
    """Width of every embedding."""
    style: str = "decima"
    """Which columns are seen, and whether embeddings are pooled as sums or as means."""
    net: str = "picks"

    def __post_init__(self) -> None:
        for name in ("node", "job", "pick", "world", "hidden"):
            size = getattr(self, name)
            if type(size) is not int or not 1 <= size <= MAX_WIDTH:
                raise InputError(f"expected a whole number from 1 to {MAX_WIDTH}, got {size!r}", field=name)
        if self.style not in ("decima", "lachesis"):
            raise InputError(f"expected decima or lachesis, got {self.style!r}", field="style")
        if self.net != "picks":
            raise InputError(f"expected 'picks', got {self.net!r}", field="net")

    @property
    def num_features(self) -> int:
        """Distinct features; how many numbers they make depends on the problem."""
        return self.node + self.job + self.pick + self.world

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        sizes = dict.fromkeys(("features", "scales", "ranges"), self.num_features)
        return sizes | {"heads": 0, "choices": 0}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""
        h = self.hidden
        return {
            "node_weight": (h, self.node),
            "node_bias": (h,),
            "send_weight": (h, h),
            "send_bias": (h,),
            "take_weight": (h, h),
            "take_bias": (h,),
            "pool_weight": (h, h),
            "pool_node_weight": (h, self.node),
            "pool_bias": (h,),
            "job_weight": (h, h),
            "job_own_weight": (h, self.job),
            "job_bias": (h,),
            "world_weight": (h, h),
            "world_own_weight": (h, self.world),
            "world_bias": (h,),
            "score_node_weight": (h, h),
            "score_job_weight": (h, h),
            "score_world_weight": (h, h),
            "score_pick_weight": (h, self.pick),
            "score_bias": (h,),
            "score_out": (1, h),
            "score_direct": (1, self.pick),
            "score_job_direct": (1, self.job),
        }
