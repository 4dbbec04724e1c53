#!/bin/sh
# What `make demo` runs: plan, learn, stream, report. Stop it and start it again as you like.
set -eu
WEFT=${WEFT:-weft} OUT=${OUT:-out}
mkdir -p "$OUT"

step() { printf '\n\033[1m%s\033[0m\n' "$1"; }
look() { printf -- '-> %s\n' "$1"; }
run() { echo "\$ weft $*" && "$WEFT" "$@"; }

step "1/4 Plan: a workflow of 37 tasks on 2 GPUs and 4 CPUs, by five planners"
rm -rf "$OUT/plans"
run evaluate examples/pipeline.json -c examples/cluster.toml -s heft,cpop,peft,min-min,perturbed --out "$OUT/plans"
run schedule examples/pipeline.json -c examples/cluster.toml -s perturbed --out "$OUT/plan.json" --gantt "$OUT/plan.png"
look "'quality' says how far this plan can be from the best possible one; $OUT/plan.png is its Gantt chart"

step "2/4 Learn: a policy that decides which task starts where while workflows keep arriving, about a minute"
run train examples/policy.toml --out "$OUT/policy" --resume
look "the last line compares it with the best hand-written rule, on streams it was not trained on"

step "3/4 Stream: 60 workflows arriving on the same machines, four rules and the policy side by side"
rm -rf "$OUT/stream"
run evaluate examples/stream.toml -s fifo,srw,heft-job,priced,"$OUT/policy@best" --seed 1000 --seeds 12 --out "$OUT/stream"
look "mean job time from arrival to end, lower is better; the last column says which differences are more than chance"

step "4/4 Report: all of it on one page"
run report "$OUT/stream" "$OUT/plans" "$OUT/policy" --subject "$OUT/policy@best" --out "$OUT/report.html"
look "open $OUT/report.html in a browser: who wins, where it loses, plans side by side, the training curve, every row"

printf '\nprocessor time of this demo: '
times | awk 'NR == 2 { for (k = 1; k <= 2; k++) { split($k, t, "[ms]"); s += 60 * t[1] + t[2] } printf "%.0f s\n", s }'
