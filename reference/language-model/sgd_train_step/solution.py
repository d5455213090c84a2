"""One step of stochastic gradient descent on the loss of a one-block decoder, PyTorch.

The loss is that of "Decoder-Only Transformer Forward Pass" (Continuous Function), equations 1 to 7; the step
is theta - lr * gradient (Robbins and Monro 1951; Goodfellow et al. 2016, algorithm 8.1, with one batch).
"""

import math

import torch

EPSILON = 1e-5
IGNORED = -100


def layer_norm(x):
    """(..., d) -> (..., d), without scale or shift; population variance (Ba et al. 2016, equation 3)."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, correction=0)
    return (x - mean) / torch.sqrt(variance + EPSILON)


def causal_attention(x, w_q, w_k, w_v, w_o):
    """(B, T, d) -> (B, T, d): softmax(q k^T / sqrt(d) + mask) v w_o (Vaswani et al. 2017, equation 1)."""
    T, d = x.shape[-2:]
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)
    future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return weights @ v @ w_o


def mlp(x, w_1, w_2):
    """(B, T, d) -> (B, T, d) through a hidden layer of any width."""
    return torch.tanh(x @ w_1) @ w_2


def decoder_forward(p, ids):
    """Parameters by name, (B, T) ids -> (B, T, V) logits."""
    h = p["tok_emb"][ids] + p["pos_emb"]
    h = h + causal_attention(layer_norm(h), p["w_q"], p["w_k"], p["w_v"], p["w_o"])
    h = h + mlp(layer_norm(h), p["w_1"], p["w_2"])
    return layer_norm(h) @ p["w_u"] + p["b_u"]


def masked_cross_entropy(logits, labels):
    """(B, T, V), (B, T) -> scalar: the mean of -log p(label) over the labels that are not -100."""
    active = labels != IGNORED
    log_probs = torch.log_softmax(logits, dim=-1)[active]
    rows = torch.arange(len(log_probs), device=logits.device)
    return -log_probs[rows, labels[active]].mean()


def sgd_train_step(params, ids, labels, lr):
    """The parameters after one step of gradient descent, and the loss before it.

    params: dict with tok_emb (V, d), pos_emb (T, d), w_q, w_k, w_v, w_o (d, d), w_1 (d, f), w_2 (f, d),
    w_u (d, V), b_u (V,); ids and labels (B, T) int64, labels shifted, -100 not counted; lr a number.
    Returns (dict like params, detached; loss, a 0-d tensor).
    """
    leaves = {name: tensor.detach().clone().requires_grad_(True) for name, tensor in params.items()}
    loss = masked_cross_entropy(decoder_forward(leaves, ids), labels)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    updated = {}
    for (name, tensor), gradient in zip(leaves.items(), gradients):
        updated[name] = tensor.detach() - lr * gradient
    return updated, loss.detach()
