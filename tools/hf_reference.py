#!/usr/bin/env python3
"""Write a reference file for `fathom verify MODEL --reference FILE` with Hugging Face transformers.

Needs torch, transformers (5.x) and safetensors:   pip install torch transformers safetensors
    python tools/hf_reference.py path/to/model reference.safetensors
    fathom verify path/to/model --reference reference.safetensors

Everything is computed by transformers' own modules in float32 on the CPU, from the weights as stored (bf16
and fp16 widened, FP8 multiplied by its block scales). Weights are read when a layer runs and freed after
it; of a mixture of experts only the experts that a token chose are read, one at a time. So a model may be
much larger than memory; one that fits stays loaded, and greedy continuations are written too.
"""
import argparse
import json
import pathlib
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

FP8_BLOCK = 128  # rows and columns of one scale in published FP8 checkpoints
TEXT = ("The quick brown fox jumps over the lazy dog. 1 + 1 = 2, 中文也可以。def add(a, b):\n    return a + b\n"
        "A model that answers must first have read; a reader that doubts must first have understood. ")


class Checkpoint:
    """Tensors of a model folder by name, read when asked for, as float32."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = {}  # name -> file
        self.open_files = {}
        for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
            index = self.folder / f"{stem}.{suffix}.index.json"
            single = self.folder / f"{stem}.{suffix}"
            if single.exists():
                for name in self._names(single):
                    self.files[name] = single
            elif index.exists():
                for name, file in json.loads(index.read_text())["weight_map"].items():
                    self.files[name] = self.folder / file
            if self.files:
                return
        raise SystemExit(f"{folder} has no model.safetensors, pytorch_model.bin or index of shards.")

    def _open(self, path):
        if path not in self.open_files:
            if path.suffix == ".safetensors":
                self.open_files[path] = safe_open(path, framework="pt")
            else:
                self.open_files[path] = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        return self.open_files[path]

    def _names(self, path):
        return self._open(path).keys()

    def __contains__(self, name):
        return name in self.files

    def stored(self, name):
        opened = self._open(self.files[name])
        return opened[name] if isinstance(opened, dict) else opened.get_tensor(name)

    def get(self, name):
        """The tensor in float32; FP8 blocks are row // 128 and column // 128, whatever the grid's size."""
        if name not in self.files:
            raise SystemExit(f"The checkpoint has no tensor {name}.")
        value = self.stored(name)
        scale_name = name + "_scale_inv"
        if scale_name not in self.files:
            return value.to(torch.float32)
        scale = self.stored(scale_name).to(torch.float32)
        rows = torch.arange(value.shape[0]) // FP8_BLOCK
        columns = torch.arange(value.shape[1]) // FP8_BLOCK
        return value.to(torch.float32) * scale[rows][:, columns]

    def float_bytes(self):
        """What all tensors take in float32."""
        total = 0
        for path in set(self.files.values()):
            opened = self._open(path)
            for name in self._names(path):
                shape = opened[name].shape if isinstance(opened, dict) else opened.get_slice(name).get_shape()
                count = 4
                for size in shape:
                    count *= size
                total += count
        return total


class StreamedExperts(torch.nn.Module):
    """Stands in for the routed experts of a layer; holds no weights, reads an expert when a token chose it."""

    def __init__(self, checkpoint, prefix, act_fn, keep):
        super().__init__()
        self.checkpoint, self.prefix, self.act_fn = checkpoint, prefix, act_fn
        self.kept = {} if keep else None

    def weights(self, expert):
        if self.kept is not None and expert in self.kept:
            return self.kept[expert]
        read = [self.checkpoint.get(f"{self.prefix}{expert}.{part}_proj.weight") for part in ("gate", "up", "down")]
        if self.kept is not None:
            self.kept[expert] = read
        return read

    def forward(self, hidden_states, top_k_index, top_k_weights):
        out = torch.zeros_like(hidden_states)
        for expert in top_k_index.unique().tolist():
            token, slot = torch.where(top_k_index == expert)
            gate, up, down = self.weights(expert)
            x = hidden_states[token]
            y = torch.nn.functional.linear(
                self.act_fn(torch.nn.functional.linear(x, gate)) * torch.nn.functional.linear(x, up), down)
            out.index_add_(0, token, y * top_k_weights[token, slot, None])
        return out


def build_model(folder):
    """transformers' model without weights, and its config."""
    raw = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if raw.get("model_type") == "deepseek":
        return build_deepseek_moe(raw)
    config = transformers.AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # weights arrive here in float32
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", dtype=torch.float32)
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.eval(), config


def build_deepseek_moe(raw):
    """DeepSeekMoE-16B is not native in transformers: its Llama model with its DeepSeek-V2 MoE block."""
    from transformers.models.deepseek_v2.configuration_deepseek_v2 import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe

    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "rms_norm_eps", "vocab_size", "max_position_embeddings", "hidden_act", "tie_word_embeddings")
    config = transformers.LlamaConfig(
        rope_parameters={"rope_type": "default", "rope_theta": float(raw.get("rope_theta", 10000))},
        **{key: raw[key] for key in keys if key in raw})
    config._attn_implementation = "eager"
    moe = DeepseekV2Config(
        topk_method="greedy", routed_scaling_factor=1.0, n_group=1, topk_group=1,
        **{key: raw[key] for key in ("hidden_size", "moe_intermediate_size", "n_routed_experts", "n_shared_experts",
                                     "num_experts_per_tok", "hidden_act", "num_attention_heads")})
    if raw.get("norm_topk_prob"):
        raise SystemExit("norm_topk_prob of a `deepseek` config is not handled here.")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
        for i, layer in enumerate(model.model.layers):
            if i >= raw.get("first_k_dense_replace", 0) and i % raw.get("moe_layer_freq", 1) == 0:
                layer.mlp = DeepseekV2Moe(moe)
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.float().eval(), config


class Streamer:
    """Fills a module's weights before it runs and takes them away afterwards (unless they may stay)."""

    def __init__(self, model, checkpoint, keep):
        self.checkpoint, self.keep = checkpoint, keep
        for i, layer in enumerate(model.model.layers):
            if hasattr(layer.mlp, "experts"):
                layer.mlp.experts = StreamedExperts(
                    checkpoint, f"model.layers.{i}.mlp.experts.", layer.mlp.experts.act_fn, keep)
            self._attach(layer, f"model.layers.{i}.", f"layer {i + 1} of {len(model.model.layers)}")
        self._attach(model.model.embed_tokens, "model.embed_tokens.", "embedding")
        self._attach(model.model.norm, "model.norm.", "norm")
        head = "lm_head." if "lm_head.weight" in checkpoint else "model.embed_tokens."
        self._attach(model.lm_head, head, "head")

    def _attach(self, module, prefix, label):
        module.register_forward_pre_hook(lambda *_: self._fill(module, prefix, label))
        if not self.keep:
            module.register_forward_hook(lambda *_: (module.to("meta"), None)[1])

    def _fill(self, module, prefix, label):
        if not any(value.is_meta for value in module.state_dict().values()):
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{label}", end="", file=sys.stderr, flush=True)
        names = module.state_dict().keys()
        module.load_state_dict({name: self.checkpoint.get(prefix + name) for name in names}, strict=True, assign=True)


class Tap:
    """Records embedding, layer outputs, final norm and router decisions of one forward pass."""

    def __init__(self, model):
        self.values, self.handles = {}, []
        self._hook(model.model.embed_tokens, "hidden.embed")
        self._hook(model.model.norm, "hidden.norm")
        for i, layer in enumerate(model.model.layers):
            self._hook(layer, f"hidden.{i}")
            if hasattr(layer.mlp, "experts"):
                self._hook(layer.mlp.gate, f"router.{i}")

    def _hook(self, module, name):
        def record(_module, _inputs, output):
            single = isinstance(output, tuple) and not name.startswith("router")
            self.values[name] = output[0] if single else output
        self.handles.append(module.register_forward_hook(record))

    def close(self):
        for handle in self.handles:
            handle.remove()


def run(model, ids):
    """One pass over ids [B, S]: a dictionary with the file's names."""
    tap = Tap(model)
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        tap.close()
    shape = tuple(ids.shape)
    out = {"logits": logits}
    for name, value in tap.values.items():
        if not name.startswith("router"):
            out[name] = value
            continue
        scores, weights, chosen = value
        order = chosen.argsort(-1)  # ascending ids
        out[name + ".logits"] = scores.reshape(*shape, -1)
        out[name + ".ids"] = chosen.gather(-1, order).reshape(*shape, -1).to(torch.int32)
        out[name + ".weights"] = weights.gather(-1, order).reshape(*shape, -1)
    return {name: value.detach().to(value.dtype if value.dtype == torch.int32 else torch.float32).clone().contiguous()
            for name, value in out.items()}


def greedy(model, prompt, count):
    """Continues a prompt; every token from a full pass, so no cache enters. Never stops at EOS."""
    ids, margins, logprobs = list(prompt), [], []
    for _ in range(count):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].double()
        best = logits.topk(2)
        ids.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        logprobs.append(float(logits.log_softmax(-1)[ids[-1]]))
    return ids[len(prompt):], margins, logprobs


def token_ids(folder, text, vocab_size, count):
    """The text's ids, repeated to `count`; pseudo-random ids where there is no tokenizer."""
    path = pathlib.Path(folder) / "tokenizer.json"
    if path.exists():
        from tokenizers import Tokenizer
        ids = [i for i in Tokenizer.from_file(str(path)).encode(text, add_special_tokens=False).ids if i < vocab_size]
        if ids:
            return (ids * (count // len(ids) + 1))[:count]
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, vocab_size, (count,), generator=generator).tolist()


def free_memory():
    for line in open("/proc/meminfo", encoding="ascii"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def long_positions(count):
    """As in the goldens: every tenth, and both sides of every edge where an engine may cut."""
    edges = [0, 15, 16, 17, 63, 64, 126, 127, 128, 129, 254, 255, 256, 257]
    return sorted({p for p in list(range(9, count, 10)) + edges if p < count})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder with config.json and the weights")
    parser.add_argument("output", help="reference file to write (.safetensors)")
    parser.add_argument("--text", default=TEXT, help="the prompt (repeated to the lengths below)")
    parser.add_argument("--tokens", type=int, default=16, help="tokens whose logits and hidden states are all kept")
    parser.add_argument("--long", type=int, default=300, help="tokens of the long prompt; 0 = none")
    parser.add_argument("--generate", type=int, default=-1,
                        help="tokens of each greedy continuation; default: 32 if the model fits into memory, else 0")
    parser.add_argument("--stream", action="store_true", help="free weights after use even if all would fit")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    checkpoint = Checkpoint(arguments.model)
    keep = not arguments.stream and checkpoint.float_bytes() < 0.7 * free_memory()
    model, config = build_model(arguments.model)
    Streamer(model, checkpoint, keep)
    generate = arguments.generate if arguments.generate >= 0 else (32 if keep else 0)

    vocab = config.vocab_size
    count = max(2, arguments.tokens)
    total = token_ids(arguments.model, arguments.text, vocab, max(2 * count, arguments.long, 64))
    ids = torch.tensor(total[:2 * count]).reshape(2, count)
    out = {"input_ids": ids, **run(model, ids)}
    if arguments.long > 0:
        long_ids = torch.tensor([total[:arguments.long]])
        positions = long_positions(arguments.long)
        record = run(model, long_ids)
        out["long.input_ids"], out["long.positions"] = long_ids, torch.tensor(positions)
        out["long.logits"] = record["logits"][:, positions].contiguous()
        for name, value in record.items():
            if name.startswith("router") and not name.endswith(".logits"):
                out["long." + name] = value
    if generate > 0:
        for j, length in enumerate((1, 7, 33, 60)):
            prompt = total[:length]
            chosen, margins, logprobs = greedy(model, prompt, generate)
            out[f"gen.{j}.prompt_ids"] = torch.tensor(prompt)
            out[f"gen.{j}.output_ids"] = torch.tensor(chosen)
            out[f"gen.{j}.margin"] = torch.tensor(margins, dtype=torch.float32)
            out[f"gen.{j}.logprobs"] = torch.tensor(logprobs, dtype=torch.float32)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    save_file(out, arguments.output, metadata={"made_with": f"transformers {transformers.__version__}, "
                                                            f"torch {torch.__version__}, float32"})
    print(f"{arguments.output}: {len(out)} tensors; weights {'kept in memory' if keep else 'streamed'}, "
          f"{generate} tokens of each continuation.")


if __name__ == "__main__":
    main()
