"""The schedulers that weft brings, by name: where each lives, what it acts on and what it is good at.

Entries are strings that ``weft.catalog`` resolves on use, so listing them imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.kinds import ELASTIC, PROBLEMS, QUEUES, TASKS


@dataclass(frozen=True)
class Entry:
    """One named scheduler: where it lives and what it is good at."""

    target: str
    summary: str
    is_search: bool = False
    """Whether it searches, and so is left out of a comparison unless asked for."""
    uses: tuple[str, ...] = ()
    """Names of planners it is made with."""

    @property
    def acts_on(self) -> tuple[str, ...]:
        """A planner sees whole problems."""
        return (PROBLEMS.name,)

    def home(self, kind: str) -> str:
        """Where it lives, whatever acts there."""
        return self.target


@dataclass(frozen=True)
class Views:
    """One named dispatcher: what it is good at, and where each of its views lives; empty: it has none."""

    summary: str
    queues: str = ""
    """Its rule on queues by kind, for streams of one repeated job."""
    tasks: str = ""
    """Its rule on single tasks, for everything else: several jobs, transfers, capacities, noise."""
    elastic: str = ""
    """The allocator of elastic tasks."""

    @property
    def acts_on(self) -> tuple[str, ...]:
        """The names of its views."""
        return tuple(name for name in (QUEUES.name, TASKS.name, ELASTIC.name) if self.home(name))

    def home(self, kind: str) -> str:
        """Where its view of a kind of run lives; empty: it has none."""
        return {QUEUES.name: self.queues, TASKS.name: self.tasks, ELASTIC.name: self.elastic}[kind]

    @property
    def may_put_last(self) -> bool:
        """Whether it is a rule for deadlines that can put tasks last."""
        return self.tasks.startswith(f"{_DEADLINES}:")

    @property
    def may_profile(self) -> bool:
        """Whether it has a rule on single tasks that can learn run times."""
        return self.tasks.startswith(f"{_TASKS}:")


# fmt: off
PLANNERS: dict[str, Entry] = {
    "heft": Entry("weft.schedulers.planners.lists:Heft", "upward rank, insertion, earliest finish; the standard to beat"),
    "cpop": Entry("weft.schedulers.planners.lists:Cpop", "keeps the critical path on one device; good when it dominates"),
    "peft": Entry("weft.schedulers.planners.lists:Peft", "a cost table looks ahead to the exit; wide clusters, high CCR"),
    "lookahead": Entry("weft.schedulers.planners.lists:Lookahead", "HEFT that tries each device on the children; fan-in graphs"),
    "deft": Entry("weft.schedulers.planners.lists:Deft", "HEFT order, may copy one parent per step; strong and cheap at high CCR"),
    "fifo-deft": Entry("weft.schedulers.planners.lists:FifoDeft", "ready order with copies; a baseline of learned schedulers"),
    "tdca": Entry("weft.schedulers.planners.tdca:Tdca", "clustering with copies, a reconstruction; trees, high CCR"),
    "min-min": Entry("weft.schedulers.planners.lists:MinMin", "always the task that can finish first; independent tasks"),
    "random": Entry("weft.schedulers.planners.lists:Random", "random order and devices; the floor of any comparison"),
    "perturbed": Entry("weft.schedulers.planners.lists:Perturbed", "best of many HEFTs with noisy ranks; cheap search", True),
    "spt": Entry("weft.schedulers.planners.rules:spt", "shortest task first; mean flow time"),
    "mwkr": Entry("weft.schedulers.planners.rules:mwkr", "most work remaining first; the classic job-shop rule"),
    "mopnr": Entry("weft.schedulers.planners.rules:mopnr", "most operations remaining first; job shops of equal tasks"),
    "cp": Entry("weft.schedulers.planners.rules:cp", "critical path first, others may overtake; pools and stage graphs"),
    "cp-wait": Entry("weft.schedulers.planners.rules:cp_wait", "critical path first, nobody overtakes; big tasks in a pool"),
    "cp-area": Entry("weft.schedulers.planners.rules:cp_area", "critical path plus heaviest path; crowded pools"),
    "ratio": Entry("weft.schedulers.planners.rules:ratio", "smallest share of the work left first; best one-line job-shop rule"),
    "tabu": Entry("weft.schedulers.planners.tabu:Tabu", "tabu search on device orders; job shops, tasks with given devices", True),
    "search": Entry("weft.schedulers.planners.search:Search", "improves priorities, devices and copies until the limit", True),
    "exact": Entry("weft.schedulers.exact.planner:Exact", "CP-SAT: proofs to some 50 tasks, bounds to some 200; 15x15 job shops", True, ("oneshot+search",)),
    "oneshot": Entry("weft.policies.oneshot.planner:OneShot", "learned priorities and devices in one pass, best of --samples draws"),
    "oneshot+search": Entry("weft.policies.oneshot.planner:OneShotSearch", "oneshot, then tabu or local search from its best", True),
    "auto": Entry("weft.schedulers.planners.auto:Auto", "the best of all of these for the time there is", True, ("oneshot",)),
}

_DISPATCH = "weft.schedulers.dispatchers.queues"
_TASKS = "weft.schedulers.dispatchers.tasks"
_PEERS = "weft.schedulers.dispatchers.peers"
DISPATCHERS: dict[str, Views] = {
    "fifo": Views("oldest job first; fair, and hard to beat when little is heavy", f"{_DISPATCH}:fifo", f"{_TASKS}:fifo"),
    "mru": Views("stays with the kind served last; few changes of kind", f"{_DISPATCH}:mru"),
    "depth-first": Views("kinds deepest in the graph first; finishes what was begun", f"{_DISPATCH}:depth_first"),
    "random": Views("anything that waits; the floor of any comparison", f"{_DISPATCH}:random", f"{_TASKS}:random"),
    "top-first": Views("kinds highest in the graph first; large batches, long queues", f"{_DISPATCH}:top_first"),
    "round-robin": Views("kinds in turn; no kind starves", f"{_DISPATCH}:round_robin"),
    "shortest-first": Views("shortest run time first; many short tasks", f"{_DISPATCH}:shortest_first", f"{_TASKS}:shortest_first"),
    "longest-first": Views("kinds with the longest run time first; heavy tasks on time", f"{_DISPATCH}:longest_first"),
    "batch-fifo": Views("oldest job first, on the smallest device its queue fills", f"{_DISPATCH}:batch_fifo"),
    "batch-mru": Views("the kind served last, on the smallest device its queue fills", f"{_DISPATCH}:batch_mru"),
    "batch-depth": Views("deepest kind, on the smallest device its queue fills", f"{_DISPATCH}:batch_depth"),
    "heavy-last": Views("heavy kinds on the largest device only; unequal devices and tasks", f"{_DISPATCH}:heavy_last"),
    "heavy-last-1": Views("heavy-last from one waiting heavy task on", f"{_DISPATCH}:heavy_last_1"),
    "heavy-last-3": Views("heavy-last, one small device helps; when heavy tasks are rare", f"{_DISPATCH}:heavy_last_3"),
    "heavy-last-5": Views("heavy-last from three waiting on; when heavy tasks are common", f"{_DISPATCH}:heavy_last_5"),
    "edf": Views("earliest deadline first; with equal deadlines the oldest job", f"{_DISPATCH}:edf", f"{_TASKS}:edf"),
    "eft": Views("oldest job to the device where it finishes first, or wait for it", f"{_DISPATCH}:eft", f"{_TASKS}:eft"),
    "srw": Views("shortest expected remaining work first, to the earliest finish; mean job time", f"{_DISPATCH}:srw", f"{_TASKS}:srw"),
    "heft-expected": Views("upward rank as an expectation over branches; makespan", f"{_DISPATCH}:heft_expected"),
    "heft-estimated": Views("heft-expected with branch probabilities as observed so far", f"{_DISPATCH}:heft_estimated"),
    "heft": Views("one global upward rank, to the earliest finish on any device; a single job under noise", tasks=f"{_TASKS}:heft"),
    "heft-job": Views("plans each arriving job with HEFT around what is committed", tasks="weft.schedulers.dispatchers.replanning:heft_job"),
    "fifo-deft": Views("oldest job first, to the earliest finish on any device, with copies; a baseline of learned ones", tasks=f"{_PEERS}:fifo_deft"),
    "deft": Views("oldest job, then upward rank, to the earliest finish on any device, with copies; slow links", tasks=f"{_PEERS}:deft"),
    "dask-like": Views("the rule of Dask's scheduler: where the data is, unless that device is busy; equal devices", tasks=f"{_PEERS}:dask_like"),
    "priced": Views("srw with critical paths, prices of scarce devices, late starts; the strongest hand-made rule", tasks=f"{_TASKS}:priced"),
}
_DEADLINES = "weft.schedulers.dispatchers.deadlines"
_ORDERS = {
    "edf": "earliest deadline", "rm": "shortest period", "llf": "least laxity", "fifo": "oldest release",
    "ledf": "earliest local deadline",
}
_PLACES = {
    "gpu-first": "on the accelerator, waiting for it", "fastest-idle": "on the idle device where it ends first",
    "eft": "where it ends first, waiting if busy", "pinned": "on the class its pipeline is pinned to by hand",
    "random": "on any idle device",
}
DISPATCHERS |= {
    f"{order}-{place}": Views(f"{first} first, {where}; periodic pipelines", tasks=f"{_DEADLINES}:{order}_{place.replace('-', '_')}")
    for order, first in _ORDERS.items()
    for place, where in _PLACES.items()
}
DISPATCHERS |= {
    name: Views(f"{name}-fastest-idle, by its short name", tasks=f"{_DEADLINES}:{name}") for name in ("rm", "llf")
}
DISPATCHERS |= {
    "static-map": Views("every stage on one class, by local search for each combination of periods; slow", tasks="weft.schedulers.dispatchers.static_map:static_map"),
    "static-map-all": Views("one searched map for all combinations of periods of adas-tx2", tasks="weft.schedulers.dispatchers.static_map:static_map_all"),
}
"""``NAME+wait`` is the variant of a rule on queues that waits for the next event where the rule idles;
``NAME+profile`` that of a rule on single tasks that learns run times; ``plan:NAME`` has a planner plan the jobs as they arrive."""

_ALLOCATE = "weft.schedulers.allocators.rules"
ALLOCATORS: dict[str, Views] = {
    "random": Views("any pending task with any units; the floor of any comparison", elastic=f"{_ALLOCATE}:random"),
    "min": Views("any pending task with what it needs; long queues where speed depends on units", elastic=f"{_ALLOCATE}:minimum"),
    "static-5": Views("any pending task; five units of what makes its type faster", elastic=f"{_ALLOCATE}:static_5"),
    "static-10": Views("the same with ten; two lines that are hard to beat", elastic=f"{_ALLOCATE}:static_10"),
    "static-k": Views("the same with units per type, tuned on other episodes", elastic="weft.schedulers.allocators.running:static_k"),
    "shortest-first": Views("the task that ends first with its best units; clusters pick in turn", elastic=f"{_ALLOCATE}:shortest_first"),
    "optimus": Views("units where a fitted speed gains the most; gives running tasks new units", elastic=f"{_ALLOCATE}:optimus"),
    "optimus-swapped": Views("the same with CPUs and GPUs swapped in the fit, as once published", elastic=f"{_ALLOCATE}:optimus_swapped"),
    "tiresias": Views("GPUs to the tasks that have had the least, as many as they may have", elastic=f"{_ALLOCATE}:tiresias"),
    "tiresias-min": Views("the same with no more GPUs than a task needs", elastic=f"{_ALLOCATE}:tiresias_min"),
    "drf": Views("equal shares of what each task needs most of; gives running tasks new units", elastic=f"{_ALLOCATE}:drf"),
}
"""``static-K`` is static-5 with K units; ``+lowest`` settles its conflicts by index instead of by Bayes."""
# fmt: on

WAIT = "+wait"
"""Suffix of a dispatcher of queues that waits where it would idle."""
PROFILE = "+profile"
"""Suffix of a rule on single tasks that learns run times from those it observes."""
SHORTLIST = "+shortlist"
"""Suffix of a rule with weights that chooses from a shortlist of urgent tasks."""
PLAN = "plan:"
"""Prefix of a planner that acts as a dispatcher."""
AGAIN = "+again"
"""Suffix of such a planner that plans all again at every event."""
PUT_LAST = {"+late": "late", "+hopeless": "hopeless"}
"""Suffixes of rules for deadlines that put what is late, or cannot be in time any more, behind all others."""
SEARCH = "+search"
"""Suffix of weights or a run whose best draw is improved by search."""
VARIANTS = {
    f"NAME{WAIT}": f"a dispatcher that acts on {QUEUES} and waits for the next event where NAME idles",
    f"NAME{PROFILE}": f"a rule or policy that acts on {TASKS} and corrects stated run times, per kind and class, by those observed",
    "NAME+late": "a rule for deadlines such as edf-pinned that puts what is late behind all others",
    "NAME+hopeless": "the same for what cannot be in time any more, even on the fastest devices",
    f"NAME{SHORTLIST}": f"weights that choose from a shortlist of {TASKS}, the most urgent ones; for thousands of tasks at a time",
    f"{PLAN}NAME": f"a planner as a dispatcher of {TASKS}: plans each arriving job, and again on drift",
    f"{PLAN}NAME{AGAIN}": "the same, all that has not started planned again at every event; for few jobs at a time and noisy run times",
    "static-K": f"an allocator of {ELASTIC} tasks that gives K units of what makes a type faster; +lowest: no Bayes",
}
"""How further dispatchers are named, and what they do."""
ROLES: dict[str, Mapping[str, Entry | Views]] = {
    "planner": PLANNERS,
    "dispatcher": DISPATCHERS,
    "allocator": ALLOCATORS,
}


POLICIES: dict[str, Entry | Views] = {
    "conditional-ppo": Views(
        "PPO policy trained on the conditional stream", "weft/policies/zoo/conditional-ppo.json"
    ),
    "ppo": Views(
        "conditional-ppo where queues are seen, adas-ppo where tasks are",
        "weft/policies/zoo/conditional-ppo.json",
        "weft/policies/zoo/adas-ppo.json",
    ),
    "conditional-graph": Views(
        "graph net for any conditional graph and cluster", "weft/policies/zoo/conditional-graph.json"
    ),
    "workflow-es": Views(
        "29 tuned weights of a rule for streams of workflows; the strongest dispatcher of single tasks",
        tasks="weft/policies/zoo/workflow-es.json",
    ),
    "es": Views("the same, by its short name", tasks="weft/policies/zoo/workflow-es.json"),
    "decima-deft": Views(
        "graph net that picks tasks as Decima does, placed by DEFT with copies",
        tasks="weft/policies/zoo/decima-deft.json",
    ),
    "lachesis": Views(
        "graph net that picks tasks as Lachesis does, placed by DEFT with copies",
        tasks="weft/policies/zoo/lachesis.json",
    ),
    "edge-multi": Views(
        "agents of edge clusters: graph attention, a pointer to a task, and its units",
        elastic="weft/policies/zoo/edge-multi.json",
    ),
    "edge-single": Views(
        "the same where clusters take one task per step", elastic="weft/policies/zoo/edge-single.json"
    ),
    "tapfinger": Views("edge-multi, by the name of the study", elastic="weft/policies/zoo/edge-multi.json"),
    "edge-mappo": Views("the same, by its algorithm", elastic="weft/policies/zoo/edge-multi.json"),
    "adas-ppo": Views(
        "PPO policy for periodic pipelines with deadlines, trained on adas-tx2",
        tasks="weft/policies/zoo/adas-ppo.json",
    ),
    "adas-dqn": Views(
        "DQN policy for the same pipelines, as the study proposes; misses more than adas-ppo",
        tasks="weft/policies/zoo/adas-dqn.json",
    ),
    "dqn": Views("the same, by its short name", tasks="weft/policies/zoo/adas-dqn.json"),
    "jobshop-oneshot": Entry("weft/policies/zoo/jobshop-oneshot.json", "one-shot planner of job shops"),
    "graphs-oneshot": Entry("weft/policies/zoo/graphs-oneshot.json", "one-shot planner for operator graphs"),
    "pools-oneshot": Entry("weft/policies/zoo/pools-oneshot.json", "one-shot planner for shared pools"),
    "workflows-oneshot": Entry(
        "weft/policies/zoo/workflows-oneshot.json", "one-shot planner of workflows with transfers"
    ),
}
"""Policies that ship: name to card, relative to the package's parent."""
