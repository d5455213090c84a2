"""The files of a new exercise, as texts: for `torch` and `numpy` a weighted mean, for `python` padding of a list."""

from __future__ import annotations

# What differs between torch and numpy in an exercise that is otherwise the same.
_WORDS = {
    "torch": {
        "IMPORT": "import torch",
        "ARRAY": "torch.Tensor",
        "KIND": "tensor",
        "A_KIND": "A tensor",
        "AXIS": "dim",
        "SAFE": "torch.where(total == 0, torch.ones_like(total), total)",
        "ZEROS": "x.new_zeros(len(x))",
        "DEVICE": "- The result has the dtype and the device of `x`. Graded in float64 and float32.",
        "MORE_CHECKS": """\
  - {kind: device}
  - {kind: gradients, advisory: true}       # advisory: run and shown, and never counts
""",
    },
    "numpy": {
        "IMPORT": "import numpy as np",
        "ARRAY": "np.ndarray",
        "KIND": "array",
        "A_KIND": "An array",
        "AXIS": "axis",
        "SAFE": "np.where(total == 0, np.ones_like(total), total)",
        "ZEROS": "np.zeros(len(x), dtype=x.dtype)",
        "DEVICE": "- The result has the dtype of `x`. Graded in float64 and float32.",
        "MORE_CHECKS": """\
  - {kind: strided, advisory: true}         # advisory: run and shown, and never counts
""",
    },
}

_MEAN_YAML = """\
@MODELINE@
schema: 1
title: @TITLE@
summary: The mean of each row of numbers, in which every number has a weight.
framework: @FRAMEWORK@
builds_on: []               # exercises to do before this one
dtypes: [float64, float32]  # every case runs in each of these

# Sizes, drawn anew for each random case. No two of them are equal in one case, so that no mistake hides behind that.
dims:
  N: 2..4                   # a range, both ends included; also [2, 4, 8] to choose from, or 2 * M from earlier dims
  d: 5..8

# The arguments, in the order of the signature. An array is normal(0, 1) unless you say otherwise.
inputs:
  x: {shape: [N, d], about: one row of numbers per example}
  weights: {shape: [N, d], distribution: uniform, low: 0.1, high: 1.0, about: a weight for each number}

# Names for the axes of the result: messages then say "only where example >= 1".
output: {axes: [example], shape: [N]}

cases:
  random: 6
  edge:                     # always run, and each a line of its own in the report
    no_weight:
      title: a row whose weights are all zero
      adjust: ["weights[0] = 0"]            # assignments on the drawn arrays, as in NumPy
      points: 2
      help: Such a row has no mean; the statement says what stands in its place.
    one_number:
      title: rows of one number (d = 1)
      dims: {d: 1}                          # instead of the range above
      help: An axis of one number is still an axis; its mean is that number.
    far_from_zero:
      title: numbers around a thousand
      inputs: {x: {offset: 1000}}           # merged over the input above
      help: The mean lies among the numbers, wherever they are.
  examples:                 # worked by hand; the reference must agree
    two_rows:
      title: the worked example
      inputs: {x: [[1, 2, 3], [4, 0, 2]], weights: [[1, 1, 2], [0.5, 0, 0.5]]}
      expected: [2.25, 3.0]
      tolerance: 1e-6

# What is asked, in the order in which a student reads it.
checks:
  - {kind: values, cases: examples}
  - {kind: values, cases: random, dtypes: [float64], id: values_float64, points: 4, title: "random shapes, float64"}
  - {kind: values, cases: random, dtypes: [float32], id: values_float32, points: 2, title: "random shapes, float32"}
  - {kind: values, cases: edge}             # one check per edge case
  - {kind: inputs_unchanged}
  - {kind: repeatable}
  - kind: independent
    title: one row does not reach another
    inputs: {x: 0, weights: 0}              # input: the axis along which its examples lie
    output: 0
    help: Sum along the numbers of a row, never along the rows.
@MORE_CHECKS@

hints:                      # from where to look to the line that most people miss; never the solution
  - Work one row out by hand, with weights that are not all equal.
  - Two sums run along the same axis. Which one divides the other?
  - A row without any weight divides by zero; give the division something harmless there.
"""

_MEAN_README = """\
# @TITLE@

A mean in which some numbers count for more than others. Attention is one: the weights say how much
each position matters.

## Signature

```python
def @NAME@(x: @ARRAY@, weights: @ARRAY@) -> @ARRAY@: ...
```

## Inputs

- `x`: @KIND@ of shape (N, d), one row of numbers per example.
- `weights`: @KIND@ of shape (N, d), a weight for each number of `x`; none is negative, and all weights of
  a row may be zero.

## Output

- @A_KIND@ of shape (N,): the weighted mean of each row.

## What to compute

```
              sum_j  weights[n, j] * x[n, j]
y[n]  =  ------------------------------------
                  sum_j  weights[n, j]
```

## Conventions that are graded

- A row whose weights are all zero gives exactly 0.
@DEVICE@
- `x` and `weights` are not modified, and the same call gives the same result every time.

## Worked example

```
x = [[1, 2, 3],        weights = [[1.0, 1.0, 2.0],        result = [2.2500, 3.0000]
     [4, 0, 2]]                   [0.5, 0.0, 0.5]]
```

In the first row (1 + 2 + 6) / 4 is 2.25.

## Where this fits

Builds on: nothing but sums along an axis.
"""

_MEAN_SOLUTION = '''\
@IMPORT@


def @NAME@(x: @ARRAY@, weights: @ARRAY@) -> @ARRAY@:
    """sum_j weights_j x_j / sum_j weights_j for each row, and 0 for a row without any weight.

    x, weights: (N, d). Returns (N,), in the dtype of x. The definition of the weighted arithmetic mean.
    """
    total = weights.sum(@AXIS@=1)
    weighted = (weights * x).sum(@AXIS@=1)
    divisor = @SAFE@
    return weighted / divisor
'''

_MEAN_MISCONCEPTIONS = """\
# Mistakes that a student could really make, each as a patch of solution.py. One is named in the report only where the
# patched reference gives the student's own numbers.
schema: 1
misconceptions:
  - id: not_divided
    says: the weighted sum is never divided by the sum of the weights.
    help: The weights of a row need not sum to one; their sum is the divisor.
    patch:
      - {find: "weighted / divisor", replace: "weighted"}
  - id: divided_by_the_count
    says: the weighted sum is divided by the number of entries, not by the sum of the weights.
    patch:
      - {find: "weighted / divisor", replace: "weighted / x.shape[1]"}
"""

_MEAN_RIGHT = """\
# right: one row after the other
@IMPORT@


def @NAME@(x, weights):
    result = @ZEROS@
    for n in range(len(x)):
        total = weights[n].sum()
        if total > 0:
            result[n] = (weights[n] / total * x[n]).sum()
    return result
"""

_MEAN_WRONG = """\
# wrong: the weighted sum is never divided
# fails: values_float64, values_float32, two_rows
# misconception: not_divided
@IMPORT@


def @NAME@(x, weights):
    return (x * weights).sum(-1)
"""

_PAD_YAML = """\
@MODELINE@
schema: 1
title: @TITLE@
summary: Bring a list of ids to a given length, by cutting its end or by adding a padding id.
framework: python
builds_on: []               # exercises to do before this one
dtypes: [float64]           # a python exercise always says this

# Whole numbers, drawn anew for each random case. Dims that shape arrays are never equal in one case; `free` lifts that.
dims:
  n: {range: 2..6, free: true}              # a range, both ends included
  missing: {range: 1..4, free: true}

# The arguments, in the order of the signature.
inputs:
  ids:
    kind: list
    count: n
    of: {choices: [1, 2, 3, 4, 5, 6, 7, 8, 9]}
    type: "list[int]"                       # the annotation in the stub
    about: the ids, none of them pad_id
  length: {value: n + missing, about: the length of the result}
  pad_id: {choices: [0, -1], about: what is added}

output: {kind: python}      # any Python value: numbers within the tolerance, everything else exactly

cases:
  random: 8
  edge:                     # always run, and each a line of its own in the report
    long_enough:
      title: a list that has the length already
      dims: {missing: 0}                    # instead of the range above
      help: Nothing is added and nothing is cut; the result is still a new list.
    too_long:
      title: a list that is longer than length
      inputs: {length: {value: n - 1}}      # merged over the input above
      points: 2
      help: The result has `length` ids, so the last ones are left out.
    empty_list:
      title: no ids at all
      dims: {n: 0}
      help: The result then consists of padding alone.
    length_zero:
      title: length = 0
      inputs: {length: {value: 0}}
      help: A list of length 0 is the empty list.
  examples:                 # worked by hand; the reference must agree
    two_missing:
      title: the worked example
      inputs: {ids: [5, 3], length: 4, pad_id: 0}
      expected: [5, 3, 0, 0]

# What is asked, in the order in which a student reads it.
checks:
  - {kind: values, cases: examples}
  - {kind: values, cases: random, id: values, points: 4, title: lists of any length}
  - {kind: values, cases: edge}             # one check per edge case
  - {kind: inputs_unchanged}
  - {kind: repeatable}

hints:                      # from where to look to the line that most people miss; never the solution
  - Two things can be needed, cutting and padding. Can both be needed in one call?
  - How many times is pad_id added, in terms of the two lengths?
  - Build a new list; the caller still needs the one handed in.
"""

_PAD_README = """\
# @TITLE@

Lists of ids in one batch must be equally long. What is missing is filled with an id that stands for
nothing, and what is too much is cut.

## Signature

```python
def @NAME@(ids: list[int], length: int, pad_id: int) -> list[int]: ...
```

## Inputs

- `ids`: a list of ints, of any length, 0 included.
- `length`: an int, at least 0: the length of the result.
- `pad_id`: an int that does not occur in `ids`.

## Output

- A new list of `length` ints: the first ids, in order, and then `pad_id` as often as needed.

## What to compute

```
result[i]  =  ids[i]    where i < len(ids)
              pad_id    everywhere else            for i = 0 … length - 1
```

## Conventions that are graded

- Padding stands at the end; cutting leaves the first ids.
- The result is a new list of ints, and `ids` is not modified.
- The same call gives the same result every time.

## Worked example

```
ids = [5, 3]    length = 4    pad_id = 0        result = [5, 3, 0, 0]
```

## Where this fits

Builds on: nothing but lists.
"""

_PAD_SOLUTION = '''\
def @NAME@(ids: list[int], length: int, pad_id: int) -> list[int]:
    """The first ids, and pad_id after them, `length` in all.

    ids: any number of ints. length: at least 0. Returns a new list.
    """
    kept = ids[:length]
    padding = [pad_id] * (length - len(kept))
    return kept + padding
'''

_PAD_MISCONCEPTIONS = """\
# Mistakes that a student could really make, each as a patch of solution.py. One is named in the report only where the
# patched reference gives the student's own results.
schema: 1
misconceptions:
  - id: padding_first
    says: the padding stands before the ids.
    patch:
      - {find: "kept + padding", replace: "padding + kept"}
  - id: never_cut
    says: a list that is too long is not cut.
    help: The result has exactly `length` ids.
    patch:
      - {find: "ids[:length]", replace: "list(ids)"}
"""

_PAD_RIGHT = """\
# right: one place after the other
def @NAME@(ids, length, pad_id):
    return [ids[i] if i < len(ids) else pad_id for i in range(length)]
"""

_PAD_WRONG = """\
# wrong: pads the caller's own list
# fails: inputs_unchanged
# cause: inputs_changed
def @NAME@(ids, length, pad_id):
    while len(ids) < length:
        ids.append(pad_id)
    return ids[:length]
"""


def texts(framework: str, name: str, modeline: str) -> dict[str, str]:
    """The text of each file of a new exercise, by the file's name; `right name` and `wrong name` name the fixtures."""
    title = name.replace("_", " ").capitalize()
    if framework == "python":
        found = {
            "exercise.yaml": _PAD_YAML,
            "README.md": _PAD_README,
            "solution.py": _PAD_SOLUTION,
            "misconceptions.yaml": _PAD_MISCONCEPTIONS,
            "right": _PAD_RIGHT,
            "wrong": _PAD_WRONG,
        }
        names = {"right name": "place_by_place.py", "wrong name": "pads_in_place.py"}
        words: dict[str, str] = {}
    else:
        found = {
            "exercise.yaml": _MEAN_YAML,
            "README.md": _MEAN_README,
            "solution.py": _MEAN_SOLUTION,
            "misconceptions.yaml": _MEAN_MISCONCEPTIONS,
            "right": _MEAN_RIGHT,
            "wrong": _MEAN_WRONG,
        }
        names = {"right name": "row_by_row.py", "wrong name": "not_divided.py"}
        words = _WORDS[framework]
    words = {**words, "MODELINE": modeline, "FRAMEWORK": framework, "TITLE": title, "NAME": name}
    return {key: _fill(text, words) for key, text in found.items()} | names


def track(title: str, name: str) -> str:
    """A track file with one exercise."""
    return f"title: {title}\nabout: One sentence on what these exercises lead to.\norder:\n  - {name}\n"


def _fill(text: str, words: dict[str, str]) -> str:
    for word, meant in words.items():
        # Some of what is filled in ends its own line.
        text = text.replace(f"@{word}@\n" if meant.endswith("\n") else f"@{word}@", meant)
    return text
