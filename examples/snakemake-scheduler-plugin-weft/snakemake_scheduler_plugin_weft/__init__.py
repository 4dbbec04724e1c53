"""A scheduler of Snakemake that follows a plan by weft: ``snakemake --scheduler weft --scheduler-weft-ranks FILE``."""

# No postponed annotations: Snakemake makes options of the types of the settings.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

from snakemake_scheduler_plugin_weft.ranks import Ranks, chosen, graph_of, write_json


@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    """Options of the command line, each with ``--scheduler-weft-`` in front."""

    ranks: Optional[Path] = field(  # noqa: UP045
        default=None,
        metadata={"help": "File that weft export --to snakemake wrote.", "required": False},
    )
    strict: bool = field(
        default=False,
        metadata={"help": "Start nothing of a later rank while an earlier ready job does not fit."},
    )
    record: Optional[Path] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Write the jobs here as a graph that weft reads, to be planned.",
            "required": False,
        },
    )


class Scheduler(SchedulerBase):
    """Starts the ready jobs that fit, earliest planned first."""

    def __post_init__(self) -> None:
        settings = self.settings
        path = settings.ranks if isinstance(settings, SchedulerSettings) else None
        try:
            self._ranks = Ranks.read(path) if path is not None else Ranks([])
        except (OSError, ValueError) as error:
            raise WorkflowError(f"--scheduler-weft-ranks {path}: {error}") from None
        self._is_strict = isinstance(settings, SchedulerSettings) and settings.strict
        self._unknown: set[str] = set()
        if isinstance(settings, SchedulerSettings) and settings.record is not None:
            write_json(graph_of(self.dag), settings.record)

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> Sequence[Any]:
        """The ready jobs to start now; Snakemake takes their resources off."""
        for job in selectable_jobs:
            if self._ranks.of(job) is None and str(job) not in self._unknown and len(self._ranks):
                self._unknown.add(str(job))
                self.logger.warning(f"weft: {job} is not in the plan, it comes after all that is")
        return chosen(selectable_jobs, available_resources, self._ranks, is_strict=self._is_strict)
