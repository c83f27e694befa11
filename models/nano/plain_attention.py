"""Plain kernels for torch's variable-length attention operator: to try training on a CPU, and to check the GPU's kernel."""
import torch
from torch.nn.attention import varlen


def _documents(cu):
    bounds = sorted(set(cu.tolist()))
    return zip(bounds, bounds[1:])


def _probabilities(q, k, scale):
    """Causal softmax of one document  # [heads, n, n]"""
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    n = len(q)
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1), float("-inf")).softmax(-1)


def _forward(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, scale=None, window_size=None):
    out = torch.zeros_like(query)
    for a, b in _documents(cu_seq_q):
        out[a:b] = torch.einsum("hij,jhd->ihd", _probabilities(query[a:b], key[a:b], scale), value[a:b])
    return out, query.new_zeros(query.shape[1], query.shape[0], dtype=torch.float), torch.zeros(2, dtype=torch.uint64)


def _backward(grad_out, query, key, value, out, lse, cu_seq_q, cu_seq_k, max_q, max_k, is_causal, rng_state, scale=None,
              window_size=None):
    dq, dk, dv = (torch.zeros_like(t) for t in (query, key, value))
    for a, b in _documents(cu_seq_q):
        p = _probabilities(query[a:b], key[a:b], scale)
        dp = torch.einsum("ihd,jhd->hij", grad_out[a:b], value[a:b])
        ds = p * (dp - (dp * p).sum(-1, keepdim=True)) * scale
        dq[a:b] = torch.einsum("hij,jhd->ihd", ds, key[a:b])
        dk[a:b] = torch.einsum("hij,ihd->jhd", ds, query[a:b])
        dv[a:b] = torch.einsum("hij,ihd->jhd", p, grad_out[a:b])
    return dq, dk, dv


def install():
    """Make the operator work on CPU tensors."""
    varlen._varlen_attn.register_kernel("cpu")(_forward)
    varlen._varlen_attn_backward.register_kernel("cpu")(_backward)


def check(device):
    """Compare the device's kernel with the plain one, masks and scale included."""
    torch.manual_seed(0)
    cu = torch.tensor([0, 100, 256, 256], dtype=torch.int32, device=device)
    q, k, v = (torch.randn(256, 8, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    got = varlen.varlen_attn(q, k, v, cu, cu, 200, 200, scale=0.2, window_size=(-1, 0)).float()
    want = _forward(q.float(), k.float(), v.float(), cu, cu, 200, 200, True, 0.2)[0]
    error = ((got - want).norm() / want.norm()).item()
    if not error < 0.02:
        raise SystemExit(f"variable-length attention differs from the reference: {error}")
