"""A guard ends what carries the mark of its Ray, and nothing else."""

import os
import subprocess
import sys

from weft.execute import ray_guard

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_guard_kills_marked_processes_when_its_input_is_closed(tmp_path):
    folder = tmp_path / "ray"
    folder.mkdir()
    own = subprocess.Popen(SLEEP, env={**os.environ, ray_guard.MARK: str(folder)})
    other = subprocess.Popen(SLEEP, env={**os.environ, ray_guard.MARK: f"{folder}-other"})
    guard = ray_guard.start(folder)
    try:
        assert guard.poll() is None
        guard.communicate(timeout=30)
        assert own.wait(timeout=30) < 0
        assert other.poll() is None
        assert not folder.exists()
    finally:
        for process in (own, other):
            process.kill()
            process.wait()
