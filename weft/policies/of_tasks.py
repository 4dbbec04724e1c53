"""From a policy on disk to a dispatcher of single tasks, whatever kind of net it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.policies.candidates.dispatcher import load_dispatcher
from weft.policies.candidates.pipelines import load_pipeline_policy
from weft.policies.checkpoint import card_file, read_card
from weft.policies.picks.architecture import PickArchitecture
from weft.policies.picks.dispatcher import load_picker
from weft.policies.weights.architecture import WeightsArchitecture
from weft.policies.weights.dispatcher import load_weights
from weft.sim.tasks.pipeline_features import PIPELINE_VERSION

if TYPE_CHECKING:
    from weft.schedulers.dispatchers.tasks import RuleDispatcher


def load_task_policy(name: str) -> RuleDispatcher:
    """The policy of a weights file, of its card or of a run folder, if it acts on single tasks."""
    card = card_file(name)
    found = read_card(card) if card.is_file() else None
    shape = None if found is None else found.architecture
    if found is not None and found.feature_version == PIPELINE_VERSION:
        return load_pipeline_policy(name)
    if isinstance(shape, WeightsArchitecture):
        return load_weights(name)
    return load_picker(name) if isinstance(shape, PickArchitecture) else load_dispatcher(name)
