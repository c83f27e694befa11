"""Parameters in a few stacked buffers, stepped by Muon (matrices) and AdamW (the rest) without host synchronisation."""
import math

import torch

from model import Config

ADAM_LR, ROUTER_LR, MUON_LR = 3e-3, 1e-3, 0.02
ADAM_DECAY, MUON_DECAY = 0.01, 0.02
BETA1, BETA2, EPS, MOMENTUM = 0.9, 0.95, 1e-10, 0.95


def layer_shapes(cfg: Config, i):
    """Matrices and vectors of layer i: (matrix name -> shape, vector name -> length)."""
    h, nh, e = cfg.hidden_size, cfg.num_attention_heads, cfg.n_routed_experts + 1
    matrices = {
        "q_a_proj": (cfg.q_lora_rank, h), "q_b_proj": (nh * (cfg.qk_nope_head_dim + cfg.qk_rope_head_dim), cfg.q_lora_rank),
        "kv_a_proj_with_mqa": (cfg.kv_lora_rank + cfg.qk_rope_head_dim, h),
        "kv_b_proj": (nh * (cfg.qk_nope_head_dim + cfg.v_head_dim), cfg.kv_lora_rank), "o_proj": (h, nh * cfg.v_head_dim)}
    vectors = {"input_layernorm": h, "post_attention_layernorm": h, "q_a_layernorm": cfg.q_lora_rank, "kv_a_layernorm": cfg.kv_lora_rank}
    if i == 0:
        matrices |= {"gate_proj": (cfg.intermediate_size, h), "up_proj": (cfg.intermediate_size, h), "down_proj": (h, cfg.intermediate_size)}
    else:
        # experts.down is stored transposed, hidden units first; the shared expert is the last slice
        matrices |= {f"experts.{k}": (e, cfg.moe_intermediate_size, h) for k in ("gate", "up", "down")}
    if i == cfg.num_hidden_layers:
        matrices["eh_proj"] = (h, 2 * h)
        vectors |= {"enorm": h, "hnorm": h, "shared_head.norm": h}
    return matrices, vectors


def muon_scale(name, shape):
    """Update scale sqrt(max(1, rows / columns)) of the matrix as it multiplies its input."""
    rows, cols = shape[-2:]
    if name == "experts.down":
        rows, cols = cols, rows
    return math.sqrt(max(1.0, rows / cols))


def orthogonalise(g):
    """Five Newton-Schulz steps on a stack of matrices, in bfloat16  # [N, rows, cols]"""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).bfloat16() + 1e-7)
    for _ in range(5):
        y = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(y, y, y, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).float()


class Parameters:
    """Weights as views of stacked buffers: one buffer per (matrix name), one flat buffer for all AdamW weights."""

    def __init__(self, cfg, seed, device):
        self.cfg, self.device = cfg, device
        self.muon, self.scale = {}, {}     # name -> [weights, gradient, momentum], each [N, rows, cols]
        self.layers = [{} for _ in range(cfg.layers)]
        generator = torch.Generator().manual_seed(seed)
        self._make_matrices(generator)
        self._make_flat(generator)
        self.bias = torch.zeros(cfg.layers - 1, cfg.n_routed_experts, device=device)
        self.steps = torch.zeros((), device=device)

    def _make_matrices(self, generator):
        groups = {}
        for i in range(self.cfg.layers):
            for name, shape in layer_shapes(self.cfg, i)[0].items():
                groups.setdefault(name, []).append((i, shape))
        for name, members in groups.items():
            shape = members[0][1]
            count = shape[0] if len(shape) == 3 else 1
            weights = torch.randn(len(members) * count, *shape[-2:], generator=generator) * shape[-1] ** -0.5
            if name in ("o_proj", "down_proj", "experts.down"):
                weights.zero_()
            self.muon[name] = [t.to(self.device) for t in (weights, torch.zeros_like(weights), torch.zeros_like(weights))]
            self.scale[name] = muon_scale(name, shape)
            for k, (i, _) in enumerate(members):
                part = slice(k * count, (k + 1) * count)
                value, grad = (t[part] if count > 1 else t[k] for t in self.muon[name][:2])
                self.layers[i][name] = self._parameter(value, grad)

    def _make_flat(self, generator):
        cfg, h = self.cfg, self.cfg.hidden_size
        entries = [("embed", None, torch.randn(cfg.vocab_size, h, generator=generator) * 0.5, ADAM_LR, ADAM_DECAY),
                   ("head", None, torch.randn(cfg.vocab_size, h, generator=generator) * 0.02, ADAM_LR, ADAM_DECAY),
                   ("norm", None, torch.ones(h), ADAM_LR, 0.0)]
        for i in range(cfg.layers):
            entries += [(name, i, torch.ones(n), ADAM_LR, 0.0) for name, n in layer_shapes(cfg, i)[1].items()]
            if i:
                router = torch.randn(cfg.n_routed_experts, h, generator=generator) * 0.5 * h ** -0.5
                entries.append(("gate", i, router, ROUTER_LR, 0.0))
        flat = torch.cat([e[2].flatten() for e in entries]).to(self.device)
        per_weight = [torch.cat([torch.full((e[2].numel(),), e[k]) for e in entries]).to(self.device) for k in (3, 4)]
        self.flat = [flat, *(torch.zeros_like(flat) for _ in range(3))]  # weights, gradient, first and second moment
        self.flat_lr, self.flat_decay = per_weight
        self.globals, at = {}, 0
        for name, i, value, _, _ in entries:
            views = [t[at:at + value.numel()].view(value.shape) for t in self.flat[:2]]
            (self.globals if i is None else self.layers[i])[name] = self._parameter(*views)
            at += value.numel()

    @staticmethod
    def _parameter(value, grad):
        p = torch.nn.Parameter(value)
        p.grad = grad
        return p

    def tree(self):
        """What model.forward takes."""
        return dict(self.globals, layers=self.layers, bias=self.bias)

    def state(self):
        """Everything that training changes, for a resumable checkpoint."""
        return {"muon": {k: (v[0], v[2]) for k, v in self.muon.items()}, "flat": [self.flat[0], self.flat[2], self.flat[3]],
                "bias": self.bias, "steps": self.steps}

    def load(self, state):
        for name, (weights, momentum) in state["muon"].items():
            self.muon[name][0].copy_(weights)
            self.muon[name][2].copy_(momentum)
        for mine, saved in zip((self.flat[0], self.flat[2], self.flat[3]), state["flat"]):
            mine.copy_(saved)
        self.bias.copy_(state["bias"])
        self.steps.copy_(state["steps"])

    def zero_grad(self):
        torch._foreach_zero_([v[1] for v in self.muon.values()] + [self.flat[1]])

    @torch.no_grad()
    def step(self, lr):
        """One update; lr is a 0-dim tensor in 0..1 that scales every learning rate."""
        self.steps += 1
        for name, (weights, grad, momentum) in self.muon.items():
            momentum.lerp_(grad, 1 - MOMENTUM)
            update = orthogonalise(torch.lerp(grad, momentum, MOMENTUM)) * self.scale[name]
            weights.mul_(1 - lr * MUON_LR * MUON_DECAY).sub_(update * (lr * MUON_LR))
        weights, grad, first, second = self.flat
        grad.mul_((1.0 / (grad.norm() + 1e-6)).clamp(max=1.0))
        first.lerp_(grad, 1 - BETA1)
        second.lerp_(grad.square(), 1 - BETA2)
        update = first / (1 - BETA1 ** self.steps) / ((second / (1 - BETA2 ** self.steps)).sqrt() + EPS)
        weights.sub_((update + self.flat_decay * weights) * self.flat_lr * lr)

    @torch.no_grad()
    def balance(self, loads, speed):
        """Router bias towards equal loads  # loads [MoE layers, E]"""
        self.bias += speed * torch.sign(loads.mean(-1, keepdim=True) - loads)
