"""From a policy on disk to a dispatcher of single tasks, whatever kind of net it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.policies.candidates.dispatcher import load_dispatcher
from weft.policies.checkpoint import card_file, read_card
from weft.policies.weights.architecture import WeightsArchitecture
from weft.policies.weights.dispatcher import load_weights

if TYPE_CHECKING:
    from weft.schedulers.dispatchers.tasks import RuleDispatcher


def load_task_policy(name: str) -> RuleDispatcher:
    """The policy of a weights file, of its card or of a run folder, if it acts on single tasks."""
    card = card_file(name)
    if card.is_file() and isinstance(read_card(card).architecture, WeightsArchitecture):
        return load_weights(name)
    return load_dispatcher(name)
