#!/usr/bin/env bash
# Grades in a step of a workflow: annotations and text to the log, the summary to GITHUB_STEP_SUMMARY, and outputs.
# What a submission prints or is called never begins a line of the log, where it could be taken for a command.
set -uo pipefail

source=${TENSORGRADE_SOURCE:?the folder of tensorgrade}
grade=${TENSORGRADE_VENV:?the folder it is installed in}/bin/grade
path=${TENSORGRADE_PATH:-.}
exercise=${TENSORGRADE_EXERCISE:-}
exercises=${TENSORGRADE_EXERCISES:-$source/exercises}
reference=${TENSORGRADE_REFERENCE:-}
temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
report=${TENSORGRADE_REPORT:-$temporary/tensorgrade-report.json}

if [[ -z $reference ]]; then
    reference=$(dirname -- "$exercises")/reference
fi
# Named outright: the repository that is graded could bring exercises of its own, easier ones.
options=(--format github --json "$report" --isolation "${TENSORGRADE_ISOLATION:-auto}"
    --exercises "$exercises" --reference "$reference")
if [[ -n ${TENSORGRADE_SEED:-} ]]; then
    options+=(--seed "$TENSORGRADE_SEED")
fi

work=$(mktemp -d "$temporary/tensorgrade.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [[ -z $exercise ]]; then
    "$grade" --all "${options[@]}" -- "$path" >"$work/out" 2>"$work/err"
else
    if [[ -d $path ]]; then
        path=$path/$exercise.py
    fi
    "$grade" "${options[@]}" -- "$exercise" "$path" >"$work/out" 2>"$work/err"
fi
code=$?

cat "$work/out"
sed -e 's/^[[:space:]]*::/: :/' -e 's/##\[/# #[/g' "$work/err" >&2
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
    grep -v '^::' "$work/out" >>"$GITHUB_STEP_SUMMARY" || true
fi
if [[ -n ${GITHUB_OUTPUT:-} ]]; then
    {
        echo "passed=$([[ $code == 0 ]] && echo true || echo false)"
        echo "graded=$([[ $code == 0 || $code == 1 ]] && echo true || echo false)"
        echo "report=${report//[$'\r\n']/}"
    } >>"$GITHUB_OUTPUT"
fi
if ((code > 1)) && [[ ! -s $work/out ]]; then
    echo "::error title=tensorgrade::nothing was graded (exit code $code); the log of this step says why"
fi
if [[ $code == 1 && ${TENSORGRADE_FAIL:-true} != true ]]; then
    exit 0
fi
exit "$code"
