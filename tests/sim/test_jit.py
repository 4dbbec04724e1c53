"""The cache of compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from weft.sim.jit import kernel_sources


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


def test_hash_is_of_the_files_that_make_kernels_and_of_their_constants(tmp_path: Path):
    files = {
        "sim/tasks/moves.py": "from weft.model.names import DONE, task\n@lean_kernel\ndef move(): ...\n",
        "sim/helper.py": "from weft.model.words import HELLO\n",
        "model/names.py": "from weft.model.numbers import (\n    DONE as DONE,\n)\nfrom weft.model.words import say\n",
        "model/numbers.py": "DONE = 0\n",
        "model/words.py": "HELLO = 1\n",
        "schedulers/plain.py": "from weft.sim.tasks.state.moves import move\n",
        "schedulers/with_kernel.py": "@kernel\ndef choose(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / "weft" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "weft" / name).write_text(text)
    found = [path.relative_to(tmp_path / "weft").as_posix() for path in kernel_sources(tmp_path / "weft")]
    assert found == ["model/names.py", "model/numbers.py", "schedulers/with_kernel.py", "sim/tasks/moves.py"]
