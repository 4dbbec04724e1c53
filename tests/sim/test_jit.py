"""The cache of compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_cache_of_a_process_without_a_home_is_removed_at_its_end(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    places = {"WEFT_CACHE": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", "from weft.sim.jit import CACHE; print(CACHE.is_dir(), CACHE)"],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    was_there, folder = done.stdout.split(maxsplit=1)
    assert was_there == "True" and folder.startswith(places["TMPDIR"])
    assert list((tmp_path / "temporary").iterdir()) == []
