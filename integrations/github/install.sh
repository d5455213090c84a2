#!/usr/bin/env bash
# Installs tensorgrade from TENSORGRADE_SOURCE into TENSORGRADE_VENV, at the versions that it was tested with.
set -euo pipefail

source=${TENSORGRADE_SOURCE:?the folder of tensorgrade}
venv=${TENSORGRADE_VENV:?the folder to install into}
constraints=$source/constraints.txt

"${TENSORGRADE_PYTHON:-python3}" -m venv "$venv"
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet -c "$constraints")
if [[ -n ${TENSORGRADE_TORCH_INDEX:-} ]]; then
    # By itself first: this index is for torch alone, and its builds without CUDA are a tenth of the size.
    "${pip[@]}" --index-url "$TENSORGRADE_TORCH_INDEX" --no-deps "$(grep '^torch==' "$constraints")"
fi
"${pip[@]}" "$source"
