"""Writes a trained model as a released DeepSeek-V3 checkpoint: config.json, generation_config.json, model.safetensors."""
import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def config_json(cfg):
    return {
        "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0,
        "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": cfg.hidden_size,
        "initializer_range": 0.02, "intermediate_size": cfg.intermediate_size, "kv_lora_rank": cfg.kv_lora_rank,
        "max_position_embeddings": cfg.max_position_embeddings, "model_type": "deepseek_v3",
        "moe_intermediate_size": cfg.moe_intermediate_size, "moe_layer_freq": 1, "n_group": cfg.n_group,
        "n_routed_experts": cfg.n_routed_experts, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_attention_heads": cfg.num_attention_heads, "num_experts_per_tok": cfg.num_experts_per_tok,
        "num_hidden_layers": cfg.num_hidden_layers, "num_key_value_heads": cfg.num_attention_heads, "num_nextn_predict_layers": 1,
        "q_lora_rank": cfg.q_lora_rank, "qk_nope_head_dim": cfg.qk_nope_head_dim, "qk_rope_head_dim": cfg.qk_rope_head_dim,
        "rms_norm_eps": cfg.rms_norm_eps,
        "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 4, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": cfg.yarn_original, "type": "yarn"},
        "rope_theta": 10000, "routed_scaling_factor": cfg.routed_scaling_factor, "scoring_func": "sigmoid",
        "tie_word_embeddings": False, "topk_group": cfg.topk_group, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
        "use_cache": True, "v_head_dim": cfg.v_head_dim, "vocab_size": cfg.vocab_size,
    }


GENERATION = {"bos_token_id": 0, "eos_token_id": 1, "do_sample": False, "max_new_tokens": 256}
NORMS = ("input_layernorm", "post_attention_layernorm", "enorm", "hnorm", "shared_head.norm")


def layer_tensors(cfg, i, weights, bias):
    """Released names of one layer's weights."""
    out = {}
    for name, value in weights.items():
        if name in NORMS or name == "eh_proj":
            out[f"{name}.weight"] = value
        elif name == "gate":
            out["mlp.gate.weight"] = value
        elif name.startswith("experts."):
            kind = name.split(".")[1]
            for e, expert in enumerate(value):
                place = "mlp.shared_experts" if e == cfg.n_routed_experts else f"mlp.experts.{e}"
                out[f"{place}.{kind}_proj.weight"] = expert.t() if kind == "down" else expert
        elif name in ("gate_proj", "up_proj", "down_proj"):
            out[f"mlp.{name}.weight"] = value
        else:
            out[f"self_attn.{name}.weight"] = value
    out = {f"model.layers.{i}.{k}": v.detach().to(torch.bfloat16) for k, v in out.items()}
    if i:
        out[f"model.layers.{i}.mlp.gate.e_score_correction_bias"] = bias[i - 1].detach().float()
    return out


def tensors(cfg, params):
    embed, head = (params[k].detach().to(torch.bfloat16) for k in ("embed", "head"))
    out = {"model.embed_tokens.weight": embed, "model.norm.weight": params["norm"].detach().to(torch.bfloat16), "lm_head.weight": head}
    for i, weights in enumerate(params["layers"]):
        out |= layer_tensors(cfg, i, weights, params["bias"])
    mtp = f"model.layers.{cfg.num_hidden_layers}."
    out |= {mtp + "embed_tokens.weight": embed.clone(), mtp + "shared_head.head.weight": head.clone()}
    return {k: v.cpu().contiguous() for k, v in out.items()}


def save_model(cfg, params, path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors(cfg, params), path, metadata={"format": "pt"})


def write(cfg, params, folder):
    folder = Path(folder)
    save_model(cfg, params, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(cfg), indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION, indent=2) + "\n")
