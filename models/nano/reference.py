"""A float32 numpy forward pass of the exported checkpoint, written for clarity: main logits and MTP logits of one sequence."""
import json
import math
import struct
from pathlib import Path

import numpy as np


def load_safetensors(path):
    """name -> float32 array."""
    blob = Path(path).read_bytes()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, info in json.loads(blob[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + n + o for o in info["data_offsets"])
        if info["dtype"] == "BF16":
            values = (np.frombuffer(blob[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            assert info["dtype"] == "F32", info["dtype"]
            values = np.frombuffer(blob[begin:end], "<f4")
        out[name] = values.reshape(info["shape"])
    return out


def silu(x):
    return x / (1 + np.exp(-x))


class Reference:
    def __init__(self, folder, weights="model.safetensors"):
        self.c = json.loads((Path(folder) / "config.json").read_text())
        self.w = load_safetensors(Path(folder) / weights)
        self.cos, self.sin = self._rope_tables()
        g = 0.1 * math.log(self.c["rope_scaling"]["factor"]) + 1
        self.scale = (self.c["qk_nope_head_dim"] + self.c["qk_rope_head_dim"]) ** -0.5 * g * g

    def _rope_tables(self):
        c, y = self.c, self.c["rope_scaling"]
        d, theta = c["qk_rope_head_dim"], c["rope_theta"]
        i = np.arange(d // 2)
        f = theta ** (-2.0 * i / d)

        def correction(rotations):
            return d * math.log(y["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (2 * math.log(theta))

        low, high = max(math.floor(correction(y["beta_fast"])), 0), min(math.ceil(correction(y["beta_slow"])), d - 1)
        ramp = np.clip((i - low) / (high - low), 0, 1)
        angle = np.arange(c["max_position_embeddings"])[:, None] * (f / y["factor"] * ramp + f * (1 - ramp))
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def rope(self, x):
        """x [heads, T, rope], pairs (2i, 2i+1)."""
        cos, sin = self.cos[:x.shape[1]], self.sin[:x.shape[1]]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 1::2] * cos + x[..., 0::2] * sin
        return out

    def attention(self, x, p):
        c, t = self.c, len(x)
        nh, dn, dr, dv, r = (c[k] for k in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))
        q = self.linear(self.norm(self.linear(x, p + "q_a_proj"), p + "q_a_layernorm"), p + "q_b_proj")
        q = q.reshape(t, nh, dn + dr).transpose(1, 0, 2)
        kv_a = self.linear(x, p + "kv_a_proj_with_mqa")
        kv = self.linear(self.norm(kv_a[:, :r], p + "kv_a_layernorm"), p + "kv_b_proj").reshape(t, nh, dn + dv).transpose(1, 0, 2)
        k_rope = self.rope(np.ascontiguousarray(kv_a[None, :, r:]))
        q = np.concatenate((q[..., :dn], self.rope(q[..., dn:])), -1) * np.float32(self.scale)
        k = np.concatenate((kv[..., :dn], np.broadcast_to(k_rope, (nh, t, dr))), -1)
        v = kv[..., dn:]
        out = np.empty((t, nh, dv), np.float32)
        for h in range(nh):
            for a in range(0, t, 512):  # queries in pieces; a piece sees the keys up to its end
                b = min(t, a + 512)
                s = q[h, a:b] @ k[h, :b].T
                s[np.arange(b)[None, :] > np.arange(a, b)[:, None]] = -np.inf
                s = np.exp(s - s.max(-1, keepdims=True))
                out[a:b, h] = s @ v[h, :b] / s.sum(-1, keepdims=True)
        return self.linear(out.reshape(t, nh * dv), p + "o_proj")

    def mlp(self, x, p):
        return self.linear(silu(self.linear(x, p + "gate_proj")) * self.linear(x, p + "up_proj"), p + "down_proj")

    def router(self, x, p):
        """Chosen experts and their weights  # [T, k] each"""
        c = self.c
        scores = 1 / (1 + np.exp(-self.linear(x, p + "gate")))
        biased = scores + self.w[p + "gate.e_score_correction_bias"]
        groups = np.sort(biased.reshape(len(x), c["n_group"], -1), -1)[..., -2:].sum(-1)
        kept = np.argsort(-groups, -1, kind="stable")[:, :c["topk_group"]]
        allowed = np.zeros(groups.shape, bool)
        np.put_along_axis(allowed, kept, True, -1)
        masked = np.where(np.repeat(allowed, c["n_routed_experts"] // c["n_group"], -1), biased, -np.inf)
        chosen = np.argsort(-masked, -1, kind="stable")[:, :c["num_experts_per_tok"]]
        weight = np.take_along_axis(scores, chosen, -1)
        return chosen, weight / (weight.sum(-1, keepdims=True) + 1e-20) * c["routed_scaling_factor"]

    def moe(self, x, p):
        chosen, weight = self.router(x, p)
        y = self.mlp(x, p + "shared_experts.")
        for e in range(self.c["n_routed_experts"]):
            token, slot = np.where(chosen == e)
            y[token] += weight[token, slot][:, None] * self.mlp(x[token], f"{p}experts.{e}.")
        return y

    def layer(self, x, i):
        p = f"model.layers.{i}."
        x = x + self.attention(self.norm(x, p + "input_layernorm"), p + "self_attn.")
        h = self.norm(x, p + "post_attention_layernorm")
        return x + (self.mlp(h, p + "mlp.") if i < self.c["first_k_dense_replace"] else self.moe(h, p + "mlp."))

    def forward(self, ids):
        """Normed hidden states [T, hidden] and logits [T, vocab]."""
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(x, i)
        x = self.norm(x, "model.norm")
        return x, self.linear(x, "lm_head")

    def draft(self, ids, hidden):
        """MTP logits: row i guesses token i + 2 from token i + 1 and the hidden state at i  # [T - 1, vocab]"""
        p = f"model.layers.{self.c['num_hidden_layers']}."
        following = self.norm(self.w[p + "embed_tokens.weight"][ids[1:]], p + "enorm")
        x = self.linear(np.concatenate((following, self.norm(hidden[:-1], p + "hnorm")), -1), p + "eh_proj")
        x = self.layer(x, self.c["num_hidden_layers"])
        return self.linear(self.norm(x, p + "shared_head.norm"), p + "shared_head.head")
