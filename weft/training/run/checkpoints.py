"""Checkpoints of a run: numbered files, each with a manifest that proves it whole.

The tensors are written first and the manifest last, both all or nothing, so that a process may die
at any moment. A checkpoint whose manifest is missing or does not fit is passed over for the one
before it. No pickle is involved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from weft.errors import InputError, WeftError
from weft.policies.tensors import Array, decode_tensors, encode_tensors, read_bytes, sha256, write_atomic

SCHEMA = "weft.checkpoint/1"
KEPT = 3
"""How many of the newest checkpoints stay."""

Notice = Callable[[str], None]
"""Gets one line for a person."""


class CorruptError(WeftError):
    """A run folder holds checkpoints, but none that can be trusted."""

    code = "corrupt"
    exit_code = 3


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is written beside a checkpoint."""

    update: int
    samples: int
    config_hash: str = ""
    sha256: str = ""
    """Hash of the tensors' file; like that of the configuration, filled in when it is written."""
    metrics_bytes: int
    """Length of the metrics at that moment; later rows are not part of the checkpoint."""
    seconds: float
    cpu_seconds: float
    best_score: float | None
    """Score of the best policy so far."""

    def to_json(self) -> str:
        """The manifest with a hash over itself."""
        body = {"schema": SCHEMA, **asdict(self)}
        return json.dumps({**body, "check": _digest(body)}, indent=2, allow_nan=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in this file, if its hash is right."""
        try:
            body = json.loads(read_bytes(path).decode())
        except (ValueError, RecursionError) as error:
            raise InputError(f"the manifest is not JSON: {error}", file=str(path)) from None
        if not isinstance(body, dict) or body.pop("check", None) != _digest(body):
            raise InputError("the manifest does not have the hash it says", file=str(path))
        if body.pop("schema", None) != SCHEMA:
            raise InputError(f"expected a manifest of {SCHEMA!r}", file=str(path))
        return cls(**body)


def _digest(body: Mapping[str, object]) -> str:
    return sha256(json.dumps(body, sort_keys=True).encode())


class Checkpoints:
    """The checkpoints in one folder, written by one process."""

    def __init__(self, folder: Path, config_hash: str) -> None:
        self._folder = folder
        self._config_hash = config_hash

    def numbers(self) -> list[int]:
        """Updates of which a file is there, whole or not, newest first."""
        files = self._folder.glob("[0-9]*.*") if self._folder.is_dir() else ()
        found = {
            int(path.stem)
            for path in files
            if path.suffix in (".json", ".safetensors") and path.stem.isdigit()
        }
        return sorted(found, reverse=True)

    def save(self, state: Mapping[str, Array], standing: Manifest) -> None:
        """Write a checkpoint of this standing durably."""
        data, update = encode_tensors(state), standing.update
        manifest = replace(standing, config_hash=self._config_hash, sha256=sha256(data))
        write_atomic(data, self._path(update, "safetensors"))
        write_atomic(manifest.to_json().encode(), self._path(update, "json"))

    def load(self, notice: Notice) -> tuple[dict[str, Array], Manifest] | None:
        """The newest checkpoint that is whole; None if the run died before its first one.

        Raises CorruptError, having changed nothing, if there are checkpoints and none is whole.
        """
        numbers = self.numbers()
        if not numbers or (numbers == [0] and not self._path(0, "json").exists()):
            return None
        for update in numbers:
            try:
                return self._read(update)
            except InputError as error:
                notice(f"checkpoint {update} cannot be used ({error}); trying the one before it")
        raise CorruptError(
            f"none of the {len(numbers)} checkpoints can be used; nothing was changed: start in another folder",
            file=str(self._folder),
        )

    def _read(self, update: int) -> tuple[dict[str, Array], Manifest]:
        manifest = Manifest.read(self._path(update, "json"))
        path = self._path(update, "safetensors")
        data = read_bytes(path)
        if sha256(data) != manifest.sha256:
            raise InputError("does not have the SHA-256 its manifest says", file=str(path))
        if manifest.config_hash != self._config_hash:
            raise InputError("belongs to another configuration", file=str(path))
        if manifest.update != update:
            raise InputError(f"is of update {manifest.update}", file=str(path))
        return decode_tensors(data, str(path)), manifest

    def prune(self, newest: int) -> None:
        """Drop all but the newest few checkpoints, and those of a future that was not whole."""
        numbers = self.numbers()
        future = [update for update in numbers if update > newest]
        for update in [*future, *numbers[len(future) + KEPT :]]:
            for suffix in ("json", "safetensors"):
                self._path(update, suffix).unlink(missing_ok=True)

    def _path(self, update: int, suffix: str) -> Path:
        return self._folder / f"{update:08d}.{suffix}"
