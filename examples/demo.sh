#!/bin/sh
# What `make demo` runs: plan, learn, stream, report. Stop it and start it again as you like.
set -eu
WEFT=${WEFT:-weft} OUT=${OUT:-out}
PLANNERS=heft,cpop,peft,min-min,perturbed
mkdir -p "$OUT"

step() { printf '\n%s\n' "== $*"; }
look() { printf '%s\n' "-> $*"; }
run() { echo "\$ weft $*" && "$WEFT" "$@"; }

step "1/4 Plan: a workflow of 37 tasks on 2 GPUs and 4 CPUs, by five planners (the first run compiles kernels)"
run compare examples/pipeline.json -c examples/cluster.toml -s $PLANNERS
run schedule examples/pipeline.json -c examples/cluster.toml -s perturbed --out "$OUT/plan.json" --gantt "$OUT/plan.png" --quiet
look "'above bound' is the most by which a plan can miss the best possible one; $OUT/plan.png is the winner's Gantt chart"

step "2/4 Learn: a policy that decides, while workflows keep arriving, which task starts where (about a minute)"
run train examples/policy.toml --out "$OUT/policy" --resume
look "'against the best rule' compares mean job times on streams it was not trained on; below 0 it is ahead of every rule"

step "3/4 Stream: 60 workflows arrive on the same machines; four rules and the policy face the same arrivals"
rm -rf "$OUT/stream"
run evaluate examples/stream.toml -s fifo,srw,heft-job,priced,"$OUT/policy@best" --seed 1000 --seeds 12 --out "$OUT/stream" --quiet
look "mean time of a job from arrival to end, lower is better; the last column says which differences are more than chance"

step "4/4 Report: the plans, the stream and the training on one page"
rm -rf "$OUT/plans"
run evaluate examples/pipeline.json -c examples/cluster.toml -s $PLANNERS --out "$OUT/plans" --quiet > /dev/null
run report "$OUT/stream" "$OUT/plans" "$OUT/policy" --subject "$OUT/policy@best" --out "$OUT/report.html" --quiet
look "open $OUT/report.html in a browser: who wins, where it loses, plans side by side, the training curve, every row"

times > "$OUT/.times"   # not in a pipe: it would count the children of a subshell
awk 'NR == 2 { for (k = 1; k <= 2; k++) { split($k, t, "[ms]"); s += 60 * t[1] + t[2] } printf "\nprocessor time: %.0f s\n", s }' "$OUT/.times"
rm -f "$OUT/.times"
