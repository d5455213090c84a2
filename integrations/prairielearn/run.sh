#!/usr/bin/env bash
# The entry point of a PrairieLearn external grader: grades student/EXERCISE.py and writes results/results.json.
#
# The exercise is the first argument, else the first word of the question's tests/exercise.txt. A question may bring an
# exercise of its own in tests/exercises and tests/reference.
set -uo pipefail

root=${GRADE_ROOT:-/grade}
bin=${TENSORGRADE_BIN:-$(dirname -- "$(command -v grade || echo /usr/local/bin/grade)")}
results=$root/results/results.json

mkdir -p "$root/results"
rm -f "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Texts of this file alone, so that nothing needs escaping. What is not gradable costs neither points nor an attempt.
write_not_gradable() {
    printf '{"gradable": false, "format_errors": ["%s"]}\n' "$1" >"$results"
}

exercise=${1:-$(grep -Eo -m 1 '^[A-Za-z_][A-Za-z0-9_]*' "$root/tests/exercise.txt" 2>/dev/null)}
if [[ ! $exercise =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
    write_not_gradable "This question names no exercise. It is not your fault: tell the course staff."
    exit 0
fi
file=$root/student/$exercise.py
if [[ ! -e $file && ! -L $file ]]; then
    write_not_gradable "There is no file $exercise.py in what you handed in."
    exit 0
fi
options=(--format prairielearn)
if [[ -d $root/tests/exercises ]]; then
    options+=(--exercises "$root/tests/exercises")
fi
# From here upwards exercises are looked for: never in what was handed in.
cd "$work" || exit 1
"$bin/grade" "$exercise" "$file" "${options[@]}" >"$work/results.json"
code=$?
if [[ $code =~ ^[013]$ ]] && "$bin/python" -I -m json.tool "$work/results.json" >/dev/null; then
    cp "$work/results.json" "$results"
else
    write_not_gradable "The grader could not grade this. It is not your fault: tell the course staff."
fi
