"""What a person may say about an export besides its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from weft.errors import InputError
from weft.io import clusters, json_files, toml_files
from weft.io.sources import located, read_bytes, shown

AFFINITIES = ("required", "preferred")
GROUPS = ("task", "kind")
QUEUEING = ("slurm", "sge")
PLACEHOLDER = "example.invalid/your-image:latest"


@dataclass(frozen=True)
class Options:
    """Settings of formats; each is of the formats that name it in the table."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """Device -> node of Kubernetes; empty: pods go by a label of the nodes."""
    affinity: str = "required"
    """Whether a pod must (``required``) or should (``preferred``) run where it is planned."""
    image: str = PLACEHOLDER
    gpu_classes: tuple[str, ...] = ()
    """Classes whose devices are GPUs."""
    by: str = ""
    """What a process of Nextflow is, ``task`` or ``kind``; empty: kinds, where tasks have any."""
    executor: str = ""
    """Queueing system behind Nextflow that understands priorities: ``slurm`` or ``sge``; empty: none."""

    def __post_init__(self) -> None:
        _one_of(self.affinity, AFFINITIES, "affinity")
        _one_of(self.by, ("", *GROUPS), "by")
        _one_of(self.executor, ("", *QUEUEING), "executor")
        if not self.image or not self.image.isprintable() or " " in self.image:
            raise InputError(f"expected the name of an image, got {shown(self.image)}", field="image")

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the settings that are not as usual."""
        usual = {one.name: getattr(USUAL, one.name) for one in fields(self)}
        return tuple(name for name, value in usual.items() if getattr(self, name) != value)


def _one_of(value: str, known: tuple[str, ...], name: str) -> None:
    if value not in known:
        names = ", ".join(one for one in known if one)
        raise InputError(f"expected one of {names}, got {shown(value)}", field=name)


USUAL = Options()


def read_nodes(path: str | Path) -> dict[str, str]:
    """Device -> node, from the table ``[nodes]`` of a file, or ``[workers]`` of a cluster file."""
    with located(path):
        data = read_bytes(path)
        is_json = json_files.detect(data, Path(path))
        document = json_files.parse_json(data, path) if is_json else toml_files.parse_toml(data, path)
        table = document.get("nodes", document.get("workers"))
        if not isinstance(table, dict) or not table:
            raise InputError("expected a table that says the node of every device", field="nodes")
        for device, node in table.items():
            if not isinstance(node, str) or not node:
                raise InputError(f"expected the name of a node, got {shown(node)}", field=f"nodes.{device}")
        return dict(table)


def cluster_workers(cluster: object) -> dict[str, str]:
    """Device -> worker as a cluster file says; empty for a built-in cluster and for an object."""
    from weft.io.workers import read_workers

    if not isinstance(cluster, str | Path) or clusters.is_builtin(str(cluster)):
        return {}
    return read_workers(cluster)
