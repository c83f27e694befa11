"""The DeepSeek-V3 forward pass used for training: packed documents, MLA, noaux_tc MoE as one masked wide MLP, one MTP layer."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention.varlen import varlen_attn


@dataclass(frozen=True)
class Config:
    vocab_size: int = 512
    hidden_size: int = 256
    intermediate_size: int = 512
    moe_intermediate_size: int = 64
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    q_lora_rank: int = 128
    kv_lora_rank: int = 64
    qk_nope_head_dim: int = 32
    qk_rope_head_dim: int = 32
    v_head_dim: int = 32
    n_routed_experts: int = 12
    num_experts_per_tok: int = 4
    n_group: int = 4
    topk_group: int = 2
    routed_scaling_factor: float = 2.5
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    max_position_embeddings: int = 4096
    yarn_factor: float = 4.0
    yarn_original: int = 1024
    yarn_beta_fast: float = 32.0
    yarn_beta_slow: float = 1.0

    @property
    def softmax_scale(self):
        g = 0.1 * math.log(self.yarn_factor) + 1.0
        return (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5 * g * g

    @property
    def layers(self):
        """All layers, the MTP layer last."""
        return self.num_hidden_layers + 1


def yarn_frequencies(cfg):
    """Rotation per position of each rope pair."""
    d = cfg.qk_rope_head_dim
    i = torch.arange(d // 2, dtype=torch.float64)
    f = cfg.rope_theta ** (-2 * i / d)

    def correction(rotations):
        return d * math.log(cfg.yarn_original / (rotations * 2 * math.pi)) / (2 * math.log(cfg.rope_theta))

    low = max(math.floor(correction(cfg.yarn_beta_fast)), 0)
    high = min(math.ceil(correction(cfg.yarn_beta_slow)), d - 1)
    ramp = ((i - low) / max(high - low, 0.001)).clamp(0, 1)
    return f / cfg.yarn_factor * ramp + f * (1 - ramp)


def rope_table(cfg, device):
    """cos, sin of every position  # [max_position, rope/2] each"""
    angle = torch.arange(cfg.max_position_embeddings, dtype=torch.float64)[:, None] * yarn_frequencies(cfg)
    return angle.cos().float().to(device), angle.sin().float().to(device)


def rms(x, w, eps=1e-6):
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * w).to(x.dtype)


def linear(x, w):
    return F.linear(x, w.to(x.dtype))


def rope(x, cos, sin):
    """Rotate the pairs (2i, 2i+1) of x [T, heads, rope] by cos, sin [T, 1, rope/2]."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)


def attention(cfg, w, x, cos, sin, regions):
    """MLA of packed documents; regions: (begin, end, cumulative lengths, longest) each."""
    nh, dn, dr, dv = cfg.num_attention_heads, cfg.qk_nope_head_dim, cfg.qk_rope_head_dim, cfg.v_head_dim
    q = linear(rms(linear(x, w["q_a_proj"]), w["q_a_layernorm"]), w["q_b_proj"]).unflatten(-1, (nh, dn + dr))
    kv_a = linear(x, w["kv_a_proj_with_mqa"])
    latent, k_rope = kv_a.split((cfg.kv_lora_rank, dr), -1)
    kv = linear(rms(latent, w["kv_a_layernorm"]), w["kv_b_proj"]).unflatten(-1, (nh, dn + dv))
    k_nope, v = kv.split((dn, dv), -1)
    q = torch.cat((q[..., :dn], rope(q[..., dn:], cos, sin)), -1)
    k = torch.cat((k_nope, rope(k_rope[:, None], cos, sin).expand(-1, nh, -1)), -1)
    v = F.pad(v, (0, dn + dr - dv))  # the kernel wants one head size
    out = torch.cat([varlen_attn(q[a:b], k[a:b], v[a:b], cu, cu, longest, longest, scale=cfg.softmax_scale, window_size=(-1, 0))
                     for a, b, cu, longest in regions])
    return linear(out[..., :dv].flatten(1), w["o_proj"])


def top_mask(scores, k):
    """1 where a score is among the k largest of its row; equal scores: the lower index wins."""
    n = scores.shape[-1]
    a, b = scores[..., :, None], scores[..., None, :]
    index = torch.arange(n, device=scores.device)
    beats = (b > a) | ((b == a) & (index[None, :] < index[:, None]))
    return beats.sum(-1) < k


def route(cfg, scores, bias):
    """The chosen experts of each token  # bool [T, E]"""
    biased = (scores + bias).unflatten(-1, (cfg.n_group, -1))
    second = torch.where(top_mask(biased, 2), biased, 0.0).sum(-1)
    groups = top_mask(second, cfg.topk_group)
    masked = torch.where(groups[..., None], biased, float("-inf")).flatten(-2)
    return top_mask(masked, cfg.num_experts_per_tok)


def moe(cfg, w, x, bias):
    """All experts as one wide MLP whose hidden units are weighted by the router: (output, load [E], balance loss)."""
    scores = torch.sigmoid(F.linear(x.float(), w["gate"]))
    with torch.no_grad():
        chosen = route(cfg, scores, bias)
    picked = scores * chosen
    weight = picked / (picked.sum(-1, keepdim=True) + 1e-20) * cfg.routed_scaling_factor
    weight = torch.cat((weight, torch.ones_like(weight[:, :1])), -1).to(x.dtype)  # the shared expert comes last
    hidden = F.silu(linear(x, w["experts.gate"].flatten(0, 1))) * linear(x, w["experts.up"].flatten(0, 1))
    hidden = (hidden.unflatten(-1, (-1, cfg.moe_intermediate_size)) * weight[..., None]).flatten(-2)
    load = chosen.float().mean(0)
    share = (scores / scores.sum(-1, keepdim=True)).mean(0)
    balance = cfg.n_routed_experts / cfg.num_experts_per_tok * (load * share).sum()
    return hidden @ w["experts.down"].flatten(0, 1).to(x.dtype), load, balance


def dense_block(cfg, w, x, cos, sin, regions):
    x = x + attention(cfg, w, rms(x, w["input_layernorm"]), cos, sin, regions)
    h = rms(x, w["post_attention_layernorm"])
    return x + linear(F.silu(linear(h, w["gate_proj"])) * linear(h, w["up_proj"]), w["down_proj"])


def moe_block(cfg, w, x, bias, cos, sin, regions):
    x = x + attention(cfg, w, rms(x, w["input_layernorm"]), cos, sin, regions)
    y, load, balance = moe(cfg, w, rms(x, w["post_attention_layernorm"]), bias)
    return x + y, load, balance


def embed(table, tokens, dtype):
    """Embedding as a product with one-hot rows, whose backward pass needs no atomic additions."""
    one_hot = tokens[:, None] == torch.arange(table.shape[0], device=tokens.device)
    return one_hot.to(dtype) @ table.to(dtype)


def mtp_input(enorm, hnorm, eh_proj, embedded, hidden, keep):
    """eh_proj of the next token's embedding and this position's normed hidden state."""
    following = embedded.roll(-1, 0) * keep[:, None].to(embedded.dtype)
    return linear(torch.cat((rms(following, enorm), rms(hidden, hnorm)), -1), eh_proj)


def head_loss(norm, head, x, target, weight):
    """Weighted mean cross-entropy of the head over x; also the normed hidden state."""
    h = rms(x, norm)
    loss = F.cross_entropy(linear(h, head).float(), target, reduction="none")
    return (loss * weight).sum() / weight.sum(), h


class Functions:
    """The pieces of the forward pass, compiled or plain."""

    def __init__(self, compiled):
        wrap = (lambda f: torch.compile(f, dynamic=False, fullgraph=True)) if compiled else (lambda f: f)
        self.dense, self.moe, self.mtp_input, self.head_loss = (wrap(f) for f in (dense_block, moe_block, mtp_input, head_loss))


MTP_ONLY = ("eh_proj", "enorm", "hnorm", "shared_head.norm")


def forward(cfg, fn, params, batch, regions, tables, dtype):
    """Losses of one batch: (main loss, MTP loss, balance loss, loads [MoE layers, E]).

    params: {"embed", "head", "norm", "layers": [dict], "bias": [MoE layers, E]}; layer index num_hidden_layers is the MTP layer.
    """
    tokens, pos = batch["tokens"].long(), batch["pos"].long()
    cos, sin = (t[pos][:, None] for t in tables)
    embedded = embed(params["embed"], tokens, dtype)
    loads, balances = [], []

    def run_moe(i, x):
        weights = {k: v for k, v in params["layers"][i].items() if k not in MTP_ONLY}
        x, load, balance = fn.moe(cfg, weights, x, params["bias"][i - 1], cos, sin, regions)
        loads.append(load)
        balances.append(balance)
        return x

    x = fn.dense(cfg, params["layers"][0], embedded, cos, sin, regions)
    for i in range(1, cfg.num_hidden_layers):
        x = run_moe(i, x)
    main, h = fn.head_loss(params["norm"], params["head"], x, tokens.roll(-1), batch["weight"])
    mtp = params["layers"][cfg.num_hidden_layers]
    y = fn.mtp_input(mtp["enorm"], mtp["hnorm"], mtp["eh_proj"], embedded, h, batch["keep"])
    draft, _ = fn.head_loss(mtp["shared_head.norm"], params["head"], run_moe(cfg.num_hidden_layers, y), tokens.roll(-2), batch["mtp_weight"])
    return main, draft, torch.stack(balances).mean(), torch.stack(loads)
