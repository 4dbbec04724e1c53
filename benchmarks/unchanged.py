"""Whether a fixed list of schedules, sweeps, benches, questions and training runs still gives the same bytes.

Every command line below is run in this process; of the document it prints, all times of the clock are left out
and the rest is hashed. ``--accept NAME...`` writes the hashes of these commands anew into ``unchanged.json``: for
changes that were wanted, with the reason in the change log.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from weft.cli.app import main as weft

KEPT = Path(__file__).with_name("unchanged.json")
ROWS = (
    "rows",
    "placements",
    "makespan",
    "lower_bound",
    "bound_by",
    "summary",
    "comparisons",
    "results",
    "points",
)
"""What of a document is compared, where it is there; a document without any of them as a whole."""
CLOCK = ("seconds", "cpu_seconds", "weft", "schema", "run")
"""Keys that differ from run to run or from version to version."""
PIPELINE = "examples/pipeline.json --cluster"

COMMANDS = (
    *(
        f"schedule {PIPELINE} {cluster} -s {name} --effort 200 --seed 3"
        for cluster in ("gpu-mix-8", "laptop", "gpu-nodes-16")
        for name in [
            "heft",
            "cpop",
            "peft",
            "lookahead",
            "deft",
            "fifo-deft",
            "tdca",
            "min-min",
            "random",
            "perturbed",
            "spt",
            "mwkr",
            "mopnr",
            "cp",
            "cp-wait",
            "cp-area",
            "ratio",
            "search",
            "oneshot",
            "auto",
        ]
    ),
    "schedule examples/graph.toml --cluster examples/cluster.toml -s exact",
    f"schedule {PIPELINE} gpu-mix-8 -s heft --noise 0.3 --seeds 20",
    f"schedule {PIPELINE} gpu-mix-8 -s deft --ccr 5",
    f"compare {PIPELINE} gpu-mix-16 --schedulers heft,cpop,peft,deft,perturbed,search --effort 100",
    "evaluate jobshop -s heft,ratio,tabu,oneshot --problems 2 --effort 200 --set jobs=6 --set machines=5",
    "evaluate opgraphs -s heft,cp,oneshot,random --problems 3 --effort 50 --set tasks=40 --check all",
    "evaluate tpch -s cp-wait,cp-area,heft,search --problems 2 --effort 60 --set queries=3 --seeds 2 --set noise=0.2",
    "evaluate workflows -s heft,peft,deft,oneshot --problems 7 --set tasks=20:40:20 --set ccr=[0.5,5] --effort 20",
    "evaluate workflows -s fifo,srw,eft,heft,heft-job,priced,edf,shortest-first,random,plan:heft --seeds 3"
    " --set load=[0.5,0.9] --set jobs=12 --set noise=0.3 --set tasks=15",
    "evaluate conditional -s fifo,mru,depth-first,random,top-first,round-robin,shortest-first,longest-first,batch-fifo,"
    "batch-mru,batch-depth,heavy-last,heavy-last-1,heavy-last-3,heavy-last-5,edf,eft,srw,heft-expected,heft-estimated,"
    "fifo+wait,ppo,conditional-graph --seeds 3 --set jobs=300 --set p_c=[0.2,0.8]",
    "evaluate conditional-join -s fifo,mru,heavy-last-3,conditional-graph --seeds 2 --set jobs=300 --set drift=step"
    " --set drift_to=0.9 --set p_c=0.1",
    "evaluate conditional-many -s srw,eft,fifo,conditional-graph --problems 4 --set jobs=200 --set load=[0.3,0.9]",
    "evaluate examples/pipeline.json -c gpu-mix-8 -s heft,cpop,deft --seeds 2",
    "bench jobshop-paper -s ratio",
    "bench jobshop-paper -s oneshot --samples 4",
    f"whatif {PIPELINE} gpu-mix-8 --each -s deft",
    f"pareto {PIPELINE} gpu-mix-8 --most 60",
    "explain examples/pipeline.json darks --cluster gpu-mix-8",
    "generate layered -n 60 --seed 5 --out FOLDER/graph.json",
    "train conditional-quick --out FOLDER/ppo --set samples=20000 --seed 2",
    "train conditional-many --out FOLDER/graph --seed 2 --set samples=256 --set problems=4 --set num_envs=8"
    " --set num_steps=16 --set minibatch=64 --set imitation_updates=2",
    "train oneshot-jobshop-quick --out FOLDER/shops --seed 2 --set updates=4 --set every=2 --set validation=2",
)


def hashes(folder: str) -> Iterator[tuple[str, str]]:
    """Every command with the hash of what it gives."""
    for command in COMMANDS:
        words = shlex.split(command.replace("FOLDER", folder))
        started = time.process_time()
        printed, quiet = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(quiet):
            code = weft([*words, "--json"])
        text = printed.getvalue()
        print(f"{time.process_time() - started:6.1f} s  weft {command}", file=sys.stderr, flush=True)
        if code != 0:
            yield command, f"exit code {code}: {text[:300]}{quiet.getvalue()[-300:]}"
        else:
            yield command, _hash(command, words, json.loads(text))


def _hash(command: str, words: list[str], document: dict[str, object]) -> str:
    if "--out" in words:
        return _hash_of_files(Path(words[words.index("--out") + 1]))
    kept = {key: document[key] for key in ROWS if key in document} or document
    text = json.dumps(_without_clock(kept), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_of_files(path: Path) -> str:
    """The weights of a run, or the file itself."""
    files = sorted(path.rglob("*.safetensors")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _without_clock(found: object) -> object:
    if isinstance(found, dict):
        return {key: _without_clock(value) for key, value in found.items() if key not in CLOCK}
    return [_without_clock(value) for value in found] if isinstance(found, list) else found


def main(arguments: list[str]) -> int:
    """Compare all; 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks unchanged", description=__doc__)
    parser.add_argument(
        "--accept", nargs="*", metavar="WORDS", help="keep new hashes of commands with these words"
    )
    options = parser.parse_args(arguments)
    kept: dict[str, str] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = dict(hashes(folder))
    others = [command for command in COMMANDS if kept.get(command) != found[command]]
    for command in others:
        print(f"differs: weft {command}\n    {kept.get(command)} before\n    {found[command]} now")
    print(f"{len(COMMANDS) - len(others)} of {len(COMMANDS)} commands give the same bytes as before")
    if options.accept is None:
        return 1 if others else 0
    wanted = [command for command in others if all(word in command for word in options.accept)]
    kept = {command: found[command] if command in wanted else kept.get(command, "") for command in COMMANDS}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"kept {len(wanted)} new hashes")
    return 0
