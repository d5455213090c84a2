"""Mutants: each family yields what it promises, and every mutant is a compiling, distinct, single fault."""

from __future__ import annotations

import ast
import difflib
import functools
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.authoring.mutants import FAMILIES, Mutant, mutate, sample

TORCH_REFERENCE = '''
"""Forward pass of a small encoder-decoder transformer."""

import math

import torch

EPSILON = 1e-5


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """Normalise the last axis."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + EPSILON)


def gelu(u: torch.Tensor) -> torch.Tensor:
    return 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))


def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    n, length, width = x.shape
    return x.reshape(n, length, num_heads, width // num_heads).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    n, num_heads, length, head_width = x.shape
    return x.transpose(1, 2).reshape(n, length, num_heads * head_width)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_heads: int, causal: bool = False):
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(diagonal=1)
        scores = scores.masked_fill(later, float("-inf"))
    scores = scores - scores.amax(dim=-1, keepdim=True)  # so that exp stays finite
    weights = torch.exp(scores)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return merge_heads(weights @ v)


def encoder_decoder_forward(
    src_ids, tgt_ids, src_emb, tgt_emb, enc_pos_embed, dec_pos_embed,
    enc_blocks, dec_blocks, w_head, num_heads,
):
    if num_heads < 1:
        raise ValueError("num_heads must be positive")
    enc = src_emb[src_ids.long()] + enc_pos_embed
    for block in enc_blocks:
        w_q, w_k, w_v, w_o, w_mlp1, w_mlp2 = block
        q, k, v = enc @ w_q, enc @ w_k, enc @ w_v
        enc = layer_norm(enc + attention(q, k, v, num_heads) @ w_o)
        enc = layer_norm(enc + gelu(enc @ w_mlp1) @ w_mlp2)

    dec = tgt_emb[tgt_ids.long()] + dec_pos_embed
    for block in dec_blocks:
        w_q_self, w_k_self, w_v_self, w_o_self = block[:4]
        w_q_cross, w_k_cross, w_v_cross, w_o_cross = block[4:8]
        w_mlp1, w_mlp2 = block[8], block[9]
        q, k, v = dec @ w_q_self, dec @ w_k_self, dec @ w_v_self
        dec = layer_norm(dec + attention(q, k, v, num_heads, causal=True) @ w_o_self)
        q, k, v = dec @ w_q_cross, enc @ w_k_cross, enc @ w_v_cross
        dec = layer_norm(dec + attention(q, k, v, num_heads) @ w_o_cross)
        dec = layer_norm(dec + gelu(dec @ w_mlp1) @ w_mlp2)
    return dec @ w_head
'''

NUMPY_REFERENCE = """
import numpy as np


def normalize(x, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def decoder_lm_loss(ids, labels, tok_emb, pos_emb, w_q, w_k, w_v, w_o, w_1, w_2, w_u, b_u):
    T = ids.shape[1]
    d = tok_emb.shape[-1]
    h = tok_emb[ids] + pos_emb[None, :, :]
    x = normalize(h)
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    mask = np.triu(np.full((T, T), -np.inf), k=1)
    h = h + softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(d) + mask) @ v @ w_o
    h = h + np.tanh(normalize(h) @ w_1) @ w_2
    logits = normalize(h) @ w_u + b_u
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_z = np.log(np.exp(shifted).sum(axis=-1))
    active = labels != -100
    safe = np.where(active, labels, 0)
    picked = np.take_along_axis(shifted, safe[..., None], axis=-1)[..., 0]
    total = 0.0
    for row in range(ids.shape[0]):
        total += ((log_z - picked)[row] * active[row]).sum()
    return total / active.sum()
"""

TORCH = "import torch\nimport torch.nn.functional as F\n"
NUMPY = "import numpy as np\n"
MATH = "import math\n"


def wrap(body: str, parameters: str, imports: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{imports}def f({parameters}):\n{lines}"


def changes(source: str, operator: str) -> dict[str, str]:
    """`variant` -> `after` of one family; a variant that comes twice carries its column."""
    found = [m for m in mutate(source) if m.operator == operator]
    variants = Counter(variant_of(m) for m in found)
    return {
        variant_of(m) if variants[variant_of(m)] == 1 else f"{variant_of(m)}@{m.line}:{m.column}": m.after
        for m in found
    }


def variant_of(mutant: Mutant) -> str:
    return mutant.id.partition("@")[2].split(":", 2)[2]


# operator, source, every change the family must propose
EXPECTED: list[tuple[str, str, dict[str, str]]] = [
    (
        "arithmetic",
        wrap("return a + b - c", "a, b, c"),
        {"sub": "a - b", "mult": "a * b", "add": "a + b + c"},
    ),
    (
        "arithmetic",
        wrap("x //= n ** 2\nreturn x", "x, n"),
        {"div": "x /= n ** 2", "mod": "x %= n ** 2", "mult": "n * 2"},
    ),
    ("arithmetic", wrap("return x @ w", "x, w"), {"mult": "x * w"}),
    ("arithmetic", wrap("return x / n", "x, n"), {"mult": "x * n", "floordiv": "x // n"}),
    ("arithmetic", wrap("return a & b | c", "a, b, c"), {"bitor": "a | b", "bitand": "a & b & c"}),
    ("arithmetic", wrap("return 'a' + x", "x"), {}),
    ("operands", wrap("return a + b / c", "a, b, c"), {"swapped": "c / b"}),
    ("operands", wrap("return a * b + c", "a, b, c"), {}),
    ("operands", wrap("return q @ k.T", "q, k"), {"swapped": "k.T @ q", "crossed": "k @ q.T"}),
    (
        "operands",
        wrap("return q @ np.swapaxes(k, -1, -2)", "q, k", NUMPY),
        {"swapped": "np.swapaxes(k, -1, -2) @ q", "crossed": "k @ np.swapaxes(q, -1, -2)"},
    ),
    (
        "operands",
        wrap("return q @ k.transpose(-1, -2)", "q, k", TORCH),
        {"swapped": "k.transpose(-1, -2) @ q", "crossed": "k @ q.transpose(-1, -2)"},
    ),
    (
        "term",
        wrap("return x + y + 1", "x, y"),
        {"left@2:14": "x", "right": "y", "left@2:18": "x + y"},
    ),
    ("term", wrap("x += y\nreturn x", "x, y"), {"overwrite": "x = y"}),
    ("term", wrap("return a & b", "a, b"), {"left": "a", "right": "b"}),
    (
        "factor",
        wrap("return 0.5 * x / n @ w ** 2", "x, n, w"),
        {"right": "x", "left@2:20": "0.5 * x", "left@2:24": "0.5 * x / n", "left@2:28": "w"},
    ),
    ("negation", wrap("return -x + ~m * -1", "x, m"), {"dropped@2:12": "x", "dropped@2:17": "m"}),
    ("negation", wrap("return not x", "x"), {"dropped": "x"}),
    ("comparison", wrap("return j <= i", "i, j"), {"lt": "j < i", "gte": "j >= i", "gt": "j > i"}),
    ("comparison", wrap("return i > j", "i, j"), {"gte": "i >= j", "lt": "i < j", "lte": "i <= j"}),
    ("comparison", wrap("return x is None, x == 0", "x"), {"isnot": "x is not None", "noteq": "x != 0"}),
    (
        "comparison",
        wrap("return 0 <= i < n", "i, n"),
        {
            "lt": "0 < i < n", "gte@2:14": "0 >= i < n", "gt@2:14": "0 > i < n",
            "lte": "0 <= i <= n", "gt@2:19": "0 <= i > n", "gte@2:19": "0 <= i >= n",
        },
    ),
    (
        "boolean",
        wrap("return a and b and c", "a, b, c"),
        {"or": "a or b or c", "without-0": "b and c", "without-1": "a and c", "without-2": "a and b"},
    ),
    ("boolean", wrap("return a or b", "a, b"), {"and": "a and b", "without-0": "b", "without-1": "a"}),
    ("boolean", wrap("return g(x, True)", "x, g"), {"flipped": "False"}),
    ("boolean", wrap("return np.logical_and(a, b)", "a, b", NUMPY), {"without-0": "b", "without-1": "a"}),
    (
        "boolean",
        wrap("return s.masked_fill(m, 0.0)", "s, m", TORCH),
        {"inverted": "s.masked_fill(~m, 0.0)"},
    ),
    ("constant", wrap("return x + 2", "x"), {"+1": "3", "-1": "1", "x10": "20", "0": "0", "sign": "-2"}),
    ("constant", wrap("return 0", "x"), {"+1": "1", "-1": "-1"}),
    (
        "constant",
        wrap("return x * 1e-5", "x"),
        {
            "exp-1": "1e-06", "exp+1": "0.0001", "exp-7": "1e-12", "0": "0.0", "sign": "-1e-05",
            "+1%": "1.01e-05", "-1%": "9.9e-06",
        },
    ),
    (
        "constant",
        wrap("return x * -0.044715", "x"),
        {
            "+1": "0.955285", "-1": "-1.044715", "x10": "-0.44715", "0": "0.0", "sign": "0.044715",
            "+1%": "-0.04516215", "-1%": "-0.04426785", "rounded": "-0.0447",
        },
    ),
    ("constant", wrap("return (-1) ** x", "x"), {"+1": "0", "-1": "-2", "x10": "-10", "sign": "1"}),
    (
        "constant",
        "EPS = 1.0\n",
        {
            "+1": "2.0", "-1": "0.0", "x10": "10.0", "sign": "-1.0", "+1%": "1.01", "-1%": "0.99",
        },
    ),
    (
        "infinity",
        wrap("return float('-inf')", "x"),
        {"finite": "-1000000000.0", "0": "0.0", "sign": "float('inf')"},
    ),
    (
        "infinity",
        wrap("return -np.inf", "x", NUMPY),
        {"finite": "-1000000000.0", "0": "0.0", "sign": "np.inf"},
    ),
    (
        "infinity",
        wrap("return math.inf", "x", MATH),
        {"finite": "1000000000.0", "0": "0.0", "sign": "-math.inf"},
    ),
    (
        "infinity",
        wrap("return torch.finfo(x.dtype).min", "x", TORCH),
        {"finite": "-1000000000.0", "0": "0.0", "sign": "-torch.finfo(x.dtype).min"},
    ),
    ("axis", wrap("return x.sum(-1)", "x", TORCH), {"-2": "-2", "0": "0", "1": "1"}),
    ("axis", wrap("return np.sum(x, axis=-2)", "x", NUMPY), {"-1": "-1", "0": "0", "1": "1"}),
    ("axis", wrap("return x.shape[0]", "x"), {"-1": "-1", "-2": "-2", "1": "1"}),
    # an axis that stands there already would make the pair an error or no transpose at all
    (
        "axis",
        wrap("return np.sum(x, axis=(0, 2))", "x", NUMPY),
        {"-1@3:28": "-1", "-2@3:28": "-2", "1@3:28": "1", "-1@3:31": "-1", "-2@3:31": "-2", "1@3:31": "1"},
    ),
    (
        "axis",
        wrap("return np.swapaxes(x, -1, -2)", "x", NUMPY),
        {"0@3:27": "0", "1@3:27": "1", "0@3:31": "0", "1@3:31": "1"},
    ),
    ("axis", wrap("return x.permute(0, 2, 1)", "x", TORCH), {}),
    ("axis", wrap("return x.sum(axis=axis)", "x, axis"), {"-1": "-1", "0": "0"}),
    (
        "axis",
        "def softmax(x, axis=-1):\n    return x\n\n\ndef f(x):\n    return softmax(x, 1)\n",
        {"-2@1:21": "-2", "0@1:21": "0", "1": "1", "-1": "-1", "-2@6:23": "-2", "0@6:23": "0"},
    ),
    (
        "keyword",
        wrap("return x.var(axis=0, ddof=1, keepdims=True)", "x", NUMPY),
        {
            "without-axis": "x.var(ddof=1, keepdims=True)",
            "ddof=0": "x.var(axis=0, ddof=0, keepdims=True)",
            "without-ddof": "x.var(axis=0, keepdims=True)",
            "keepdims=False": "x.var(axis=0, ddof=1, keepdims=False)",
        },
    ),
    # torch refuses keepdim without dim, so the two go together
    (
        "keyword",
        wrap("return x.var(dim=-1, keepdim=True, unbiased=False)", "x", TORCH),
        {
            "without-dim": "x.var(unbiased=False)",
            "keepdim=False": "x.var(dim=-1, keepdim=False, unbiased=False)",
            "unbiased=True": "x.var(dim=-1, keepdim=True, unbiased=True)",
        },
    ),
    (
        "keyword",
        wrap("return x.var(-1)", "x", TORCH),
        {"without-axis": "x.var()", "with-correction": "x.var(-1, correction=0)"},
    ),
    (
        "keyword",
        wrap("return x.var(-1)", "x", NUMPY),
        {"without-axis": "x.var()", "with-ddof": "x.var(-1, ddof=1)"},
    ),
    (
        "keyword",
        wrap("return np.triu(x, k=1)", "x", NUMPY),
        {"k=+1": "np.triu(x, k=2)", "k=-1": "np.triu(x, k=0)", "without-k": "np.triu(x)"},
    ),
    (
        "keyword",
        wrap("return x.triu(1 + n)", "x, n", TORCH),
        {"diagonal=+1": "x.triu(1 + n + 1)", "diagonal=-1": "x.triu(1 + n - 1)"},
    ),
    (
        "keyword",
        wrap("return x.tril()", "x", TORCH),
        {"diagonal=+1": "x.tril(1)", "diagonal=-1": "x.tril(-1)"},
    ),
    (
        "keyword",
        wrap("return F.gelu(x, approximate='tanh')", "x", TORCH),
        {"approximate=none": "F.gelu(x, approximate='none')", "without-approximate": "F.gelu(x)"},
    ),
    ("keyword", wrap("return F.gelu(x)", "x", TORCH), {"with-approximate": "F.gelu(x, approximate='tanh')"}),
    ("keyword", wrap("return np.zeros(n, dtype=d)", "n, d", NUMPY), {"without-dtype": "np.zeros(n)"}),
    # `k` is a diagonal only where diagonals are drawn
    ("keyword", wrap("return g(q, k=k)", "q, k, g"), {"without-k": "g(q)"}),
    (
        "keyword",
        "def g(q, k, scale=1):\n    return q\n\n\ndef f(q):\n    return g(q, k=q, scale=q)\n",
        {"without-scale": "g(q, k=q)"},
    ),
    (
        "call",
        wrap("return np.exp(x.mean() - np.max(x))", "x", NUMPY),
        {"exp2": "np.exp2(x.mean() - np.max(x))", "sum": "x.sum()", "min": "np.min(x)"},
    ),
    (
        "call",
        wrap("return F.gelu(torch.tanh(x))", "x", TORCH),
        {"relu": "F.relu(torch.tanh(x))", "silu": "F.silu(torch.tanh(x))", "sigmoid": "torch.sigmoid(x)"},
    ),
    ("call", wrap("return np.tanh(x)", "x", NUMPY), {}),
    ("call", wrap("return math.sqrt(max(n, 1))", "n", MATH), {"min": "min(n, 1)"}),
    ("call", wrap("return sqrt(x)", "x", "from math import sqrt\n"), {}),
    (
        "call",
        wrap("return torch.zeros(n).tril() * torch.cos(p)", "n, p", TORCH),
        {"ones": "torch.ones(n)", "triu": "torch.zeros(n).triu()", "sin": "torch.sin(p)"},
    ),
    (
        "call",
        "def a(x):\n    return x\n\n\ndef b(x):\n    return x\n\n\ndef c(y, z):\n    return a(y)\n",
        {"b": "b(y)"},
    ),
    (
        "call",
        "def attend(x):\n    return x\n\n\ndef attend_back(y):\n    return y\n\n\n"
        "def norm(z):\n    return z\n\n\ndef f(z, y):\n    return attend(z)\n",
        {"attend_back": "attend_back(z)"},
    ),
    ("call", wrap("return k.repeat_interleave(g, dim=1)", "k, g", TORCH), {"tiled": "torch.cat([k] * g, 1)"}),
    ("call", wrap("return np.repeat(k, g, axis=1)", "k, g", NUMPY), {"tiled": "np.concatenate([k] * g, 1)"}),
    (
        "dropped_call",
        wrap("return torch.softmax(x.sqrt(), -1)", "x", TORCH),
        {"softmax": "x.sqrt()", "sqrt": "x"},
    ),
    ("dropped_call", wrap("return np.log(g(x))", "x, g", NUMPY), {"log": "g(x)", "g": "x"}),
    ("dropped_call", wrap("return s.masked_fill(m, 0.0)", "s, m", TORCH), {"masked_fill": "s"}),
    ("dropped_call", "def g(x, n: int):\n    return x\n\n\ndef f(x, n):\n    return g(x, n)\n", {"g": "x"}),
    # no value changes, or nothing could stand there
    (
        "dropped_call",
        wrap("return np.matmul(np.zeros(n), x.contiguous(), len(x))", "x, n", NUMPY),
        {},
    ),
    (
        "transpose",
        wrap("return x.T @ np.swapaxes(x, 0, 1)", "x", NUMPY),
        {"dropped@3:14": "x", "dropped@3:21": "x"},
    ),
    (
        "transpose",
        wrap("return x.mT.permute(1, 0)", "x", TORCH),
        {"dropped@4:14": "x", "dropped@4:17": "x.mT"},
    ),
    (
        "view",
        wrap("return x.view(n, t, h, -1).transpose(1, 2)", "x, n, t, h", TORCH),
        {"instead": "x.view(n, h, t, -1)"},
    ),
    (
        "view",
        wrap("return np.reshape(x, (n, t, h)).transpose(2, 0, 1)", "x, n, t, h", NUMPY),
        {"instead": "np.reshape(x, (h, n, t))"},
    ),
    ("view", wrap("return x.view(n, t).transpose(i, 1)", "x, n, t, i", TORCH), {}),
    (
        "arguments",
        wrap("return g(a, b, c)", "a, b, c, g"),
        {"0-1": "g(b, a, c)", "0-2": "g(c, b, a)", "1-2": "g(a, c, b)"},
    ),
    (
        "arguments",
        wrap("return x.permute(0, 2, 1)", "x", TORCH),
        {"0-1": "x.permute(2, 0, 1)", "0-2": "x.permute(1, 2, 0)", "1-2": "x.permute(0, 1, 2)"},
    ),
    ("arguments", wrap("return np.where(m, a, -np.inf)", "m, a", NUMPY), {"1-2": "np.where(m, -np.inf, a)"}),
    ("arguments", wrap("return np.maximum(a, b) + x.sum(-1) + g(x, 2)", "a, b, x, g", NUMPY), {}),
    (
        "arguments",
        "def g(x, y, n: int):\n    return x\n\n\ndef f(x, y, n):\n    return g(x, y, n)\n",
        {"0-1": "g(y, x, n)"},
    ),
    # of more than four, only neighbours and next neighbours
    (
        "arguments",
        wrap("return g(a, b, c, d, e)", "a, b, c, d, e, g"),
        {
            "0-1": "g(b, a, c, d, e)", "0-2": "g(c, b, a, d, e)", "1-2": "g(a, c, b, d, e)",
            "1-3": "g(a, d, c, b, e)", "2-3": "g(a, b, d, c, e)", "2-4": "g(a, b, e, d, c)",
            "3-4": "g(a, b, c, e, d)",
        },
    ),
    (
        "einsum",
        wrap("return torch.einsum('nhtd,nhsd->nhts', q, k)", "q, k", TORCH),
        {"term-0": "'nhdt,nhsd->nhts'", "term-1": "'nhtd,nhds->nhts'", "term-2": "'nhtd,nhsd->nhst'"},
    ),
    (
        "cast",
        wrap("y = ids.long()\nreturn [y]", "ids", TORCH),
        {"dropped": "ids"},
    ),
    (
        "cast",
        wrap("y = x.astype(np.float64)\nreturn y, 1", "x", NUMPY),
        {"dropped": "x", "float32": "np.float32", "float16": "np.float16"},
    ),
    (
        "cast",
        wrap("y = torch.zeros(3, dtype=x.dtype)\nreturn y, x.dtype == y.dtype", "x", TORCH),
        {"float32": "torch.float32", "float16": "torch.float16"},
    ),
    ("cast", wrap("y = x.to(torch.int64)\nreturn [y]", "x", TORCH), {"dropped": "x", "int16": "torch.int16"}),
    # what g returns meets other tensors inside the file, where torch would refuse the dtype
    (
        "cast",
        "import torch\n\n\ndef g(x):\n    return x\n\n\ndef f(x):\n    return g(x)\n",
        {"to-float32": "return g(x).float()", "to-float16": "return g(x).half()"},
    ),
    (
        "cast",
        wrap("return x", "x", NUMPY),
        {"to-float32": "return x.astype(np.float32)", "to-float16": "return x.astype(np.float16)"},
    ),
    ("cast", "import torch\n\n\ndef f(x) -> list[torch.Tensor]:\n    return x\n", {}),
    (
        "slice",
        wrap("return x[1:n]", "x, n"),
        {
            "shifted+1": "x[2:n + 1]", "shifted-1": "x[0:n - 1]", "lower+1": "x[2:n]",
            "lower-sign": "x[-1:n]", "lower-open": "x[:n]", "upper+1": "x[1:n + 1]",
            "upper-1": "x[1:n - 1]", "upper-open": "x[1:]",
        },
    ),
    (
        "slice",
        wrap("return x[:, -1:]", "x"),
        {"lower-1": "x[:, -2:]", "lower-sign": "x[:, 1:]", "lower-open": "x[:, :]", "upper-1": "x[:, -1:-1]"},
    ),
    (
        "slice",
        wrap("return x[:-n]", "x, n"),
        {
            "lower+1": "x[1:-n]", "upper+1": "x[:-n + 1]", "upper-1": "x[:-n - 1]",
            "upper-sign": "x[:n]", "upper-open": "x[:]",
        },
    ),
    (
        "slice",
        wrap("return x[..., 0::2]", "x"),
        {
            "step-open": "x[..., 0:]", "lower+1": "x[..., 1::2]", "lower-1": "x[..., -1::2]",
            "upper-1": "x[..., 0:-1:2]",
        },
    ),
    # what is unpacked keeps its length
    ("slice", wrap("a, b = w[2:4]\nreturn a", "w"), {"shifted+1": "w[3:5]", "shifted-1": "w[1:3]"}),
    ("slice", wrap("a, b = w[:2]\nreturn a", "w"), {"shifted+1": "w[1:3]"}),
    ("slice", wrap("return x[::-1], x[:]", "x"), {"step-open": "x[:]"}),
    ("index", wrap("return w[3]", "w"), {"+1": "w[4]", "-1": "w[2]"}),
    ("index", wrap("return table[ids]", "table, ids"), {"+1": "table[ids + 1]", "-1": "table[ids - 1]"}),
    ("index", wrap("return x[..., i - 1]", "x, i"), {"+1": "x[..., i]", "-1": "x[..., i - 2]"}),
    ("index", wrap("return x[:, None]", "x"), {"axis-moved": "x[None, :]"}),
    ("index", wrap("return x[~m], x[i > 0], p['w'], x.shape[0]", "x, m, i, p"), {}),
    (
        "range",
        wrap("return [i for i in range(n)]", "n"),
        {"stop+1": "range(n + 1)", "stop-1": "range(n - 1)", "start+1": "range(1, n)"},
    ),
    (
        "range",
        wrap("return [i for i in range(1, n, 2)]", "n"),
        {
            "stop+1": "range(1, n + 1, 2)", "stop-1": "range(1, n - 1, 2)",
            "start+1": "range(2, n, 2)", "start-1": "range(0, n, 2)",
        },
    ),
    ("range", wrap("return torch.arange(n)", "n", TORCH), {"shifted": "torch.arange(1, n + 1)"}),
    ("range", wrap("return np.arange(0, n)", "n", NUMPY), {"shifted": "np.arange(1, n + 1)"}),
    (
        "loop",
        wrap("for w in ws:\n    x = w\nreturn x", "x, ws"),
        {"without-last": "list(ws)[:-1]", "without-first": "list(ws)[1:]", "reversed": "list(ws)[::-1]"},
    ),
    ("loop", wrap("return [i for i in range(n)]", "n"), {"reversed": "list(range(n))[::-1]"}),
    ("loop", wrap("for _ in range(n):\n    x = x * 2\nreturn x", "x, n"), {}),
    (
        "conditional",
        wrap("if causal:\n    x = 0\nreturn x", "x, causal"),
        {"always": "True", "never": "False", "inverted": "not causal"},
    ),
    ("conditional", wrap("while n > 0:\n    n -= 1\nreturn n", "n"), {"never": "False"}),
    ("conditional", wrap("return a if n else b", "n, a, b"), {"always": "a", "never": "b"}),
    ("conditional", wrap("return np.where(m, a, 0.0)", "m, a", NUMPY), {"always": "a"}),
    ("conditional", wrap("return [i for i in x if i]", "x"), {"always": "True"}),
    (
        "statement",
        wrap("y = x\nx = y\nx[0] = y\nx.mul_(2)\nx += 1\nreturn x", "x"),
        {"dropped@3:5": "pass", "dropped@4:5": "pass", "dropped@5:5": "pass", "dropped@6:5": "pass"},
    ),
    ("statement", wrap("y, x = x\nreturn y", "x"), {}),
    ("statement", wrap("for i in x:\n    break\nreturn i", "x"), {"dropped": "pass"}),
    # x is there before both; y is not; z does not depend on w
    (
        "order",
        wrap("x = x + 1\nx = x * 2\ny = 3\nz = y\nw = 4\nreturn x", "x"),
        {"swapped": "x = x * 2; x = x + 1"},
    ),
    ("order", wrap("x.mul_(2)\ny = x\nreturn y", "x"), {"swapped": "y = x; x.mul_(2)"}),
    ("tuple", wrap("return a, b", "a, b"), {"0-1": "(b, a)"}),
    ("tuple", wrap("n, t, d = x.shape\nreturn n", "x"), {"0-1": "(t, n, d)", "1-2": "(n, d, t)"}),
    ("tuple", wrap("q, k = x @ a, x @ b\nreturn q", "x, a, b"), {"0-1": "(x @ b, x @ a)"}),
    ("tuple", wrap("return np.concatenate([x, y])", "x, y", NUMPY), {"0-1": "[y, x]"}),
    ("tuple", wrap("return np.transpose(x, (1, 0))", "x", NUMPY), {"0-1": "(0, 1)"}),
    ("tuple", wrap("return x.sum(axis=(0, 1)) + x[a, b]", "x, a, b", NUMPY), {}),
    ("inplace", wrap("y = x\nx = x + y\ny = y * 2\nreturn x", "x"), {"augmented": "x += y"}),
    ("variable", wrap("return q @ k", "q, k, v"), {"k": "k", "v@2:12": "v", "q": "q", "v@2:16": "v"}),
    (
        "variable",
        wrap("queries, keys, values = ws\nreturn keys", "ws"),
        {"queries": "queries", "values": "values"},
    ),
    (
        "variable",
        wrap("enc = emb[src] + p\ndec = emb[tgt] + out\nreturn enc", "emb, src, tgt, p, out"),
        {"dec": "dec"},
    ),
    # what is called counts in the likeness of two expressions, and `_` is like nothing
    (
        "variable",
        wrap("ids = list(prompt)\n_ = list(prompt)\nlogits = step(ids)\nreturn logits", "prompt, step"),
        {},
    ),
    # a size is swapped for sizes only, and a name never for one that comes later
    ("variable", wrap("n, t = x.shape\nz = x.T\nreturn n", "x"), {"t": "t"}),
    (
        "variable",
        wrap("w_q_self, w_k_self = left\nw_q_cross, w_k_cross = right\nreturn w_q_cross", "left, right"),
        {"w_k_cross": "w_k_cross", "w_q_self": "w_q_self"},
    ),
    (
        "variable",
        wrap("return src_emb[tgt_ids]", "src_ids, tgt_ids, src_emb, tgt_emb"),
        {"tgt_emb": "tgt_emb", "src_ids": "src_ids"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "source", "expected"), EXPECTED, ids=lambda v: v if isinstance(v, str) else "")
def test_family_yields_exactly(operator: str, source: str, expected: dict[str, str]) -> None:
    assert changes(source, operator) == expected


def test_every_family_has_an_example() -> None:
    assert {operator for operator, _, expected in EXPECTED if expected} == set(FAMILIES)


def test_mutant_fields() -> None:
    source = "# header\ndef f(x):\n    return 'é', x * 1e-5  # scale\n"
    mutant = next(m for m in mutate(source) if m.id == "constant@3:21:exp-7")
    assert (mutant.operator, mutant.line, mutant.column) == ("constant", 3, 21)
    assert (mutant.before, mutant.after) == ("1e-5", "1e-12")
    assert mutant.source == "def f(x):\n    return ('é', x * 1e-12)\n"


def test_lines_count_alike_with_any_newline() -> None:
    source = "def f(x):\n    y = x\n    return y + 2\n"
    unix = [(m.id, m.before) for m in mutate(source)]
    assert unix == [(m.id, m.before) for m in mutate(source.replace("\n", "\r\n"))]


def test_operator_position_skips_brackets_and_comments() -> None:
    source = "def f(a, b):\n    return ((a)  # less - than\n        - (b))\n"
    (mutant,) = [m for m in mutate(source) if m.operator == "arithmetic"]
    assert (mutant.line, mutant.column) == (3, 9)


def test_long_changes_are_cut_to_the_difference() -> None:
    terms = " + ".join(f"a{i}" for i in range(60))
    source = f"def f({', '.join(f'a{i}' for i in range(60))}):\n    return {terms}\n"
    last = next(m for m in mutate(source) if m.operator == "arithmetic" and "a59" in m.before)
    assert last.before.endswith("a58 + a59")
    assert last.after.endswith("a58 - a59")
    assert last.before.startswith("…")
    assert all(len(m.before) <= 74 and len(m.after) <= 74 and "\n" not in m.before + m.after for m in mutate(source))


def test_what_is_left_alone() -> None:
    source = '''
"""Module, 1 + 1."""
from __future__ import annotations
import numpy as np


@np.vectorize(otypes=[1 + 1])
def f(x: "1 + 1" = None, *rest: (2 + 2)) -> (3 + 3):
    """Adds 1 + 1."""
    y: (4 + 4) = x
    assert x.shape[0] == 5 + 5, "6" + "6"
    if x.ndim != 7 + 7:
        raise ValueError("8" + "8", 9 + 9)
    return f"{x + 10}"


if __name__ == "__main__":
    print(f(11 + 11))
'''
    assert [m.before for m in mutate(source)] == []


def test_guard_keeps_its_else() -> None:
    source = wrap("if n < 1:\n    raise ValueError(n)\nelse:\n    n = n + 1\nreturn n", "n")
    assert "comparison" not in {m.operator for m in mutate(source)}
    assert changes(source, "term") == {"left": "n"}


def test_one_function_and_what_it_uses() -> None:
    found = mutate(NUMPY_REFERENCE, function="softmax")
    assert {m.line for m in found} == {10, 11, 12}
    everything = {m.id: m for m in mutate(NUMPY_REFERENCE)}
    assert all(everything[m.id] == m for m in found)
    assert mutate(NUMPY_REFERENCE, function="decoder_lm_loss") == tuple(everything.values())


def test_what_a_function_does_not_use_is_left_alone() -> None:
    source = """
EPS = 1
UNUSED = 2


class Norm:
    scale = 3


def cases(rng):
    return main(4)


def norm(x):
    return Norm.scale + EPS + x


def main(x):
    return norm(x) + 5


EPS += 6
"""
    found = mutate(source, function="main")
    assert {m.before for m in found if m.operator == "constant"} == {"1", "3", "5", "6"}


def test_errors() -> None:
    with pytest.raises(ValueError, match="no top-level function 'nope'"):
        mutate(NUMPY_REFERENCE, function="nope")
    with pytest.raises(SyntaxError):
        mutate("def f(:\n")


def test_nothing_to_mutate() -> None:
    assert mutate("") == ()
    assert mutate("def f():\n    pass\n") == ()


def test_warnings_of_mutants_stay_inside() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mutate("def f(x):\n    return (x, 1)[0] is x\n")
    assert found


REFERENCES = {"torch": TORCH_REFERENCE, "numpy": NUMPY_REFERENCE}


@pytest.fixture(scope="module", params=sorted(REFERENCES))
def reference(request: pytest.FixtureRequest) -> tuple[str, tuple[Mutant, ...]]:
    source = REFERENCES[request.param]
    return source, mutate(source)


def normalised(source: str) -> str:
    return ast.dump(ast.parse(source))


def test_reference_mutants_are_sound(reference: tuple[str, tuple[Mutant, ...]]) -> None:
    source, mutants = reference
    assert_sound(source, mutants)
    assert mutants == mutate(source)


def assert_sound(source: str, mutants: Sequence[Mutant]) -> None:
    trees = {normalised(m.source) for m in mutants}
    assert len(trees) == len(mutants)
    assert normalised(source) not in trees
    assert len({m.id for m in mutants}) == len(mutants)
    assert [(m.line, m.column) for m in mutants] == sorted((m.line, m.column) for m in mutants)
    lines = source.split("\n")
    for m in mutants:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(m.source, m.id, "exec")
        assert m.operator in FAMILIES
        assert m.id.startswith(f"{m.operator}@{m.line}:{m.column}:")
        assert 1 <= m.line <= len(lines) and 1 <= m.column <= len(lines[m.line - 1]) + 1
        assert m.before != m.after


def test_reference_mutants_are_one_fault_each(reference: tuple[str, tuple[Mutant, ...]]) -> None:
    source, mutants = reference
    original = [line for line in ast.unparse(ast.parse(source)).split("\n") if line]
    for m in mutants:
        mutated = [line for line in m.source.split("\n") if line]
        changed = [
            (j1 - i1 or k2 - k1)
            for tag, i1, j1, k1, k2 in difflib.SequenceMatcher(None, original, mutated, autojunk=False).get_opcodes()
            if tag != "equal"
        ]
        assert sum(changed) == 1 or m.operator == "order", m


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        (
            "torch",
            {
                "arithmetic": 40, "operands": 20, "term": 18, "factor": 25, "constant": 30, "infinity": 3,
                "axis": 20, "keyword": 12, "call": 15, "dropped_call": 15, "transpose": 3, "view": 1,
                "arguments": 12, "cast": 3, "slice": 6, "index": 6, "loop": 6, "conditional": 3,
                "statement": 10, "order": 6, "tuple": 20, "variable": 60,
            },
        ),
        (
            "numpy",
            {
                "arithmetic": 30, "operands": 15, "term": 15, "factor": 10, "comparison": 1, "constant": 12,
                "infinity": 3, "axis": 25, "keyword": 12, "call": 10, "dropped_call": 15, "transpose": 1,
                "arguments": 2, "cast": 6, "index": 8, "range": 3, "loop": 1, "conditional": 1,
                "statement": 3, "order": 2, "tuple": 3, "variable": 20,
            },
        ),
    ],
)  # fmt: skip
def test_what_the_families_give_on_a_reference(name: str, at_least: dict[str, int]) -> None:
    counts = Counter(m.operator for m in mutate(REFERENCES[name]))
    assert 150 <= counts.total() <= 600
    assert {operator for operator in at_least if counts[operator] < at_least[operator]} == set()
    assert max(counts.values()) <= 0.3 * counts.total()


# Mistakes that students make: the text of the reference with one of these made in its first place
# must be among the mutants.
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("torch", "math.sqrt(q.shape[-1])", "q.shape[-1]"),
        ("torch", " / math.sqrt(q.shape[-1])", ""),
        ("torch", "1e-05", "1e-12"),
        ("torch", "unbiased=False", "unbiased=True"),
        ("torch", "0.044715", "0.0447"),
        ("torch", "float('-inf')", "-1000000000.0"),
        ("torch", "triu(diagonal=1)", "triu(diagonal=0)"),
        ("torch", "later, float", "~later, float"),
        ("torch", "variance + EPSILON", "variance"),
        ("torch", "block[4:8]", "block[5:9]"),
        ("torch", "dec @ w_q_cross", "dec @ w_q_self"),
        ("torch", "enc @ w_k_cross", "dec @ w_k_cross"),
        ("torch", "src_ids.long()", "src_ids"),
        ("torch", "in enc_blocks", "in list(enc_blocks)[::-1]"),
        ("torch", "scores - scores.amax(dim=-1, keepdim=True)", "scores"),
        ("torch", "weights.sum(dim=-1", "weights.sum(dim=-2"),
        ("torch", "x.transpose(1, 2).reshape", "x.reshape"),
        (
            "torch",
            "length, num_heads, width // num_heads).transpose(1, 2)",
            "num_heads, length, width // num_heads)",
        ),
        (
            "torch",
            "dec + attention(q, k, v, num_heads, causal=True)",
            "attention(q, k, v, num_heads, causal=True)",
        ),
        ("torch", "causal=True) @ w_o_self", "causal=False) @ w_o_self"),
        ("torch", "gelu(dec @ w_mlp1)", "dec @ w_mlp1"),
        ("torch", "layer_norm(dec + gelu(dec @ w_mlp1) @ w_mlp2)", "dec + gelu(dec @ w_mlp1) @ w_mlp2"),
        ("torch", "dec @ w_head", "dec"),
        ("numpy", "tok_emb[ids]", "tok_emb[ids + 1]"),
        ("numpy", "tok_emb[ids] + pos_emb[None, :, :]", "tok_emb[ids]"),
        ("numpy", "-np.inf", "0.0"),
        ("numpy", "x.var(axis=-1, keepdims=True)", "x.var(axis=-1, keepdims=True, ddof=1)"),
        ("numpy", "k=1", "k=0"),
        ("numpy", "np.swapaxes(k, -1, -2)", "k"),
        ("numpy", "normalize(h) @ w_u + b_u", "normalize(h) @ w_u"),
        ("numpy", "np.log(", "np.log2("),
        ("numpy", "active.sum()", "active.mean()"),
    ],
)
def test_known_mistakes_are_mutants(name: str, before: str, after: str) -> None:
    reference = ast.unparse(ast.parse(REFERENCES[name]))
    assert before in reference
    assert normalised(reference.replace(before, after, 1)) in normalised_mutants(name)


@functools.cache
def normalised_mutants(name: str) -> frozenset[str]:
    return frozenset(normalised(m.source) for m in mutate(REFERENCES[name]))


def torch_inputs() -> list[Any]:
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=draw, dtype=torch.float64)

    n, s, t, heads, width, v_src, v_tgt = 2, 5, 7, 3, 4, 11, 13
    d = heads * width
    return [
        torch.randint(0, v_src, (n, s), generator=draw).double(),
        torch.randint(0, v_tgt, (n, t), generator=draw).double(),
        normal(v_src, d, scale=3e-3), normal(v_tgt, d, scale=3e-3),
        normal(s, d, scale=3e-3), normal(t, d, scale=3e-3),
        normal(2, 6, d, d, scale=0.3), normal(2, 12, d, d, scale=0.3),
        normal(d, v_tgt), heads,
    ]  # fmt: skip


def numpy_inputs() -> list[Any]:
    draw = np.random.default_rng(0)
    b, t, d, v, f = 3, 6, 4, 9, 5
    labels = draw.integers(0, v, (b, t))
    labels[:, 2] = -100
    labels[0, 0] = 0
    shapes = [(v, d), (t, d), (d, d), (d, d), (d, d), (d, d), (d, f), (f, d), (d, v), (v,)]
    return [draw.integers(0, v, (b, t)), labels, *(0.3 * draw.normal(size=shape) for shape in shapes)]


@pytest.mark.parametrize(
    ("name", "function", "inputs"),
    [("torch", "encoder_decoder_forward", torch_inputs), ("numpy", "decoder_lm_loss", numpy_inputs)],
)
@pytest.mark.filterwarnings("ignore")
def test_most_mutants_change_the_result(name: str, function: str, inputs: Callable[[], list[Any]]) -> None:
    """Few mutants are equivalent and most give a wrong value: crashes alone would prove little."""
    expected = np.asarray(run(REFERENCES[name], function, inputs()))
    fates: Counter[str] = Counter()
    for mutant in mutate(REFERENCES[name]):
        try:
            actual = np.asarray(run(mutant.source, function, inputs()))
        except Exception:
            fates["crashed"] += 1
            continue
        alike = actual.shape == expected.shape and actual.dtype == expected.dtype
        fates["same" if alike and np.allclose(actual, expected, rtol=1e-11, atol=0) else "wrong"] += 1
    assert fates["wrong"] > 0.55 * fates.total()
    assert fates["same"] < 0.1 * fates.total()


def run(source: str, function: str, inputs: list[Any]) -> Any:
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, "<reference>", "exec"), names)
    return names[function](*inputs)


def test_same_mutants_in_every_process() -> None:
    script = "import sys; from grader.authoring.mutants import *; print([m.id for m in mutate(sys.stdin.read())])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=TORCH_REFERENCE,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{[m.id for m in mutate(TORCH_REFERENCE)]}\n"}


def test_sample_is_even_and_repeatable() -> None:
    mutants = mutate(TORCH_REFERENCE)
    operators = {m.operator for m in mutants}
    drawn = sample(mutants, 3 * len(operators), seed=7)
    assert len(drawn) == 3 * len(operators)
    assert drawn == sample(mutants, 3 * len(operators), seed=7)
    assert drawn != sample(mutants, 3 * len(operators), seed=8)
    assert [m.id for m in mutants if m in set(drawn)] == [m.id for m in drawn]

    counts = Counter(m.operator for m in drawn)
    available = Counter(m.operator for m in mutants)
    assert set(counts) == operators
    assert all(counts[o] >= min(3, available[o]) for o in operators)
    # the large families reach further than a few neighbouring lines
    assert len({m.line for m in drawn}) >= 0.6 * len({m.line for m in mutants})


def test_sample_bounds() -> None:
    mutants = mutate(NUMPY_REFERENCE)
    assert sample(mutants, 10**6, seed=0) == mutants
    assert sample(mutants, 0, seed=0) == ()
    assert sample((), 5, seed=0) == ()
    with pytest.raises(ValueError, match="-1"):
        sample(mutants, -1, seed=0)


names = st.sampled_from(["x", "y", "q", "w_q", "w_k", "mask", "n"])
numbers = st.one_of(st.integers(-3, 12).map(str), st.sampled_from(["0.5", "1e-5", "-0.044715", "np.inf", "1e9"]))


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operator = st.sampled_from(["+", "-", "*", "/", "//", "**", "@", "%", "<", "<=", "==", "and", "or", "&", "|"])
    return st.one_of(
        st.tuples(inner, operator, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(["-", "not ", "~"]), inner).map(lambda p: f"({p[0]}{p[1]})"),
        st.tuples(st.sampled_from(["np.exp", "np.sum", "F.gelu", "g", "max", "np.triu", "range"]), inner).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        st.tuples(inner, st.sampled_from(["mean(-1, keepdims=True)", "T", "long()", "transpose(1, 2)"])).map(
            lambda p: f"({p[0]}).{p[1]}"
        ),
        st.tuples(inner, inner, inner).map(lambda p: f"np.where({p[0]}, {p[1]}, {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}, {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}]"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]})[..., {p[1]}:{p[2]}, None, :]"),
        inner.map(lambda p: f"[i for i in {p} if i]"),
    )


expressions = st.recursive(st.one_of(names, numbers), grow, max_leaves=6)
statements = st.one_of(
    st.tuples(names, expressions).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(names, st.sampled_from(["+=", "-=", "*=", "@="]), expressions).map(lambda p: " ".join(p)),
    st.tuples(names, names, expressions).map(lambda p: f"{p[0]}, {p[1]} = {p[2]}"),
    st.tuples(names, expressions, expressions).map(lambda p: f"{p[0]}[{p[1]}] = {p[2]}"),
    st.tuples(names, expressions, names).map(lambda p: f"for {p[0]} in {p[1]}: {p[2]} += 1"),
    st.tuples(expressions, names, expressions).map(lambda p: f"if {p[0]}: {p[1]} = {p[2]}"),
    expressions.map(lambda p: f"g({p})"),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(statements, min_size=1, max_size=4), expressions)
def test_generated_snippets(body: list[str], result: str) -> None:
    imports = "import numpy as np\nimport torch.nn.functional as F\n"
    source = wrap("\n".join([*body, f"return {result}"]), "x, y, q, w_q, w_k, mask, n, g", imports)
    mutants = mutate(source)
    assert_sound(source, mutants)
    assert mutants == mutate(source)
    assert sample(mutants, 5, seed=1) == sample(mutants, 5, seed=1)
