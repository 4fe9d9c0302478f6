#!/usr/bin/env bash
# Ingest what is not a run yet, compare the two sides, leave every output in $FOLDER.
# Takes its arguments from the environment, because text from a workflow must never become part of a script.
# Ends with 0 so that later steps can still publish; the exit code is in the output "code".
set -euo pipefail

tool=${TRACETOOL:-tracetool}
folder=${FOLDER:-energy-report}
mkdir -p "$folder"

say() { # name value: an output of the step
  if [[ -n ${GITHUB_OUTPUT:-} ]]; then printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; fi
}

stop() { # a step that could not be done
  say code "$1"
  exit "$1"
}

runs=() # of the side last brought in
bring() { # side, traces or runs, power logs: both one a line
  local side=$1 number=0 place path
  local -a paths=() logs=()
  while IFS= read -r path; do [[ -n $path ]] && paths+=("$path"); done <<<"$2"
  while IFS= read -r path; do [[ -n $path ]] && logs+=("$path"); done <<<"$3"
  runs=()
  for path in "${paths[@]}"; do
    if [[ -d $path ]]; then
      runs+=("$path")
    else
      place=$folder/$side-$number.tracetool
      local -a more=()
      [[ -n ${logs[$number]:-} ]] && more+=(--power "${logs[$number]}")
      [[ -n ${POWER_TZ:-} ]] && more+=("--tz=$POWER_TZ")
      [[ -n ${GPU:-} ]] && more+=(--gpu "$GPU")
      "$tool" ingest "$path" "${more[@]}" -o "$place" -q || stop $?
      runs+=("$place")
    fi
    number=$((number + 1))
  done
}

arguments=(diff)
bring head "${HEAD_RUNS:-}" "${HEAD_POWER:-}"
for run in "${runs[@]}"; do arguments+=(--head "$run"); done
if [[ -n ${BASELINE:-} ]]; then
  arguments+=(--baseline "$BASELINE" --branch "${BASELINE_BRANCH:-main}")
else
  bring base "${BASE_RUNS:-}" "${BASE_POWER:-}"
  for run in "${runs[@]}"; do arguments+=(--base "$run"); done
fi
while IFS= read -r limit; do
  [[ -n $limit ]] && arguments+=(--fail-on "$limit")
done <<<"${FAIL_ON:-}"
[[ -n ${ENERGY:-} ]] && arguments+=(--energy "$ENERGY")
[[ -n ${GPU:-} ]] && arguments+=(--gpu "$GPU")
[[ -n ${CLOCK:-} ]] && arguments+=(--clock "$CLOCK")
[[ ${STRICT:-} == true ]] && arguments+=(--strict)
for suffix in md json xml sarif html parquet; do arguments+=(-o "$folder/report.$suffix"); done

code=0
"$tool" "${arguments[@]}" --annotate || code=$?
if [[ $code -gt 1 ]]; then stop "$code"; fi

say code "$code"
say folder "$folder"
say verdict "$(sed -n 's/^ *"verdict": "\([a-z]*\)",$/\1/p' "$folder/report.json" | head -n 1)"
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then cat "$folder/report.md" >>"$GITHUB_STEP_SUMMARY"; fi
