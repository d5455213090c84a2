#!/usr/bin/env bash
# Run once by Gradescope, when it builds the image: installs tensorgrade beside the autograder.
# The zip holds this file, run_autograder, exercise.txt, constraints.txt and a wheel of tensorgrade (docs/ci.md).
set -euo pipefail

root=${AUTOGRADER_ROOT:-/autograder}
source=$root/source
# An index with builds of torch without CUDA, which PyTorch's own page names; without one pip downloads several GB.
index=${TENSORGRADE_TORCH_INDEX:-}

new_enough() {
    command -v "$1" >/dev/null && "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=
for each in python3.13 python3.12 python3.11 python3; do
    if new_enough "$each"; then
        python=$each
        break
    fi
done
if [[ -z $python ]]; then
    # Older images have an older Python as their own, and a newer one beside it.
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3.11 python3.11-venv
    python=python3.11
fi

"$python" -m venv "$root/venv"
pip=("$root/venv/bin/python" -m pip install --no-cache-dir -c "$source/constraints.txt")
if [[ -n $index ]]; then
    "${pip[@]}" --index-url "$index" --no-deps "$(grep '^torch==' "$source/constraints.txt")"
fi
"${pip[@]}" "$source"/tensorgrade-*.whl
