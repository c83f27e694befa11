"""Teaches a trained nano look-ups whose question precedes the list, on a CPU: python finetune.py --minutes 11 --out DIR."""
import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

import export
import lookup
import model
from chat import PAD, FastEncoder, render
from data import LONG_WEIGHT, Layout, Region, Sampler, document_arrays
from optim import Parameters
from train import MTP_WEIGHT

HERE = Path(__file__).parent
WARMUP_STEPS, CLIP = 20, 1.0
VALIDATION = 6  # batches of 8 documents
ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_a_layernorm", "kv_a_layernorm", "input_layernorm")


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--checkpoint", default=HERE / "model.safetensors")
    p.add_argument("--out", default="out")
    p.add_argument("--minutes", type=float, default=11, help="wall-clock time, over which the learning rate falls to 0")
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--tokens", type=int, default=2048, help="most tokens of a batch")
    p.add_argument("--first-share", type=float, default=0.5, help="part of a batch's tokens for questions before the list")
    p.add_argument("--part", type=float, default=0.5, help="part of the learned change that is written: less of it forgets less")
    p.add_argument("--seed", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--check-s", type=float, default=120, help="seconds between validations")
    return p.parse_args()


def document_attention(q, k, v, cu, _cu_k, _longest, _longest_k, scale, window_size):
    """Stands in for torch's varlen_attn, which has no CPU kernel: causal attention document by document."""
    assert window_size == (-1, 0)
    bounds = sorted(set(cu.tolist()))
    parts = [[t[a:b].transpose(0, 1)[None] for t in (q, k, v)] for a, b in zip(bounds, bounds[1:])]
    return torch.cat([F.scaled_dot_product_attention(*p, is_causal=True, scale=scale)[0].transpose(0, 1) for p in parts])


def stored(layer, name, value):
    """What the checkpoint has for one of the training code's weights."""
    if name.startswith("experts."):
        kind = name.split(".")[1]
        places = [f"experts.{e}" for e in range(len(value) - 1)] + ["shared_experts"]
        parts = [layer[f"mlp.{place}.{kind}_proj.weight"] for place in places]
        return torch.stack([p.t() if kind == "down" else p for p in parts])
    if name in export.NORMS or name == "eh_proj":
        return layer[f"{name}.weight"]
    return layer[f"mlp.{name}.weight" if name in ("gate", "gate_proj", "up_proj", "down_proj") else f"self_attn.{name}.weight"]


def load_checkpoint(cfg, path):
    """The checkpoint's weights as the training code holds them, in float32."""
    saved, params = load_file(path), Parameters(cfg, 0, "cpu")
    with torch.no_grad():
        for name, stored_name in (("embed", "model.embed_tokens"), ("head", "lm_head"), ("norm", "model.norm")):
            params.globals[name].copy_(saved[f"{stored_name}.weight"])
        for i, weights in enumerate(params.layers):
            prefix = f"model.layers.{i}."
            layer = {k[len(prefix):]: v for k, v in saved.items() if k.startswith(prefix)}
            for name, value in weights.items():
                value.copy_(stored(layer, name, value))
            if i:
                params.bias[i - 1].copy_(layer["mlp.gate.e_score_correction_bias"])
    again = export.tensors(cfg, params.tree())
    assert again.keys() == saved.keys() and all(torch.equal(again[k], saved[k]) for k in saved)
    return params


def trainable(cfg, params):
    """Attention and its norms in the main layers may change; everything else gets no gradient."""
    tree = params.tree()
    for w in [tree[k] for k in ("embed", "head", "norm")] + [w for layer in params.layers for w in layer.values()]:
        w.requires_grad_(False)
    chosen = [layer[name] for layer in params.layers[:cfg.num_hidden_layers] for name in ATTENTION]
    for w in chosen:
        w.requires_grad_(True)
        w.grad = None
    return chosen


class Batches:
    """Documents for the fine-tuning, and held-out question-first lists for its validation."""

    def __init__(self, seed, tokens, first_share):
        self.encoder = FastEncoder(Tokenizer.from_file(str(HERE / "tokenizer.json")))
        self.rng, self.tokens, self.first_share = random.Random(seed), tokens, first_share
        self.sampler = Sampler(seed + 1, Layout(), self.encoder)
        self.pad_id = self.encoder.special[PAD]

    def question_first(self, held_out=False):
        """A list of up to 600, at times 1,000 tokens after its one question, which is for a line."""
        most = 1000 if self.rng.random() < 0.06 else 600
        while True:
            length = int(60 * (most / 60) ** self.rng.random() ** 0.7)  # long ones a little oftener than short ones
            table, asked, _ = lookup.document(self.rng, self.encoder, length, 1)
            if held_out:
                table = self.until_held_out(table)
            if asked[0][2] == "line" and lookup.held_out(table) == held_out:
                ids, weight = document_arrays(self.encoder, render(lookup.messages(table, asked, True)))
                return ids, [LONG_WEIGHT * w for w in weight]

    def until_held_out(self, table):
        """The list, most often with its lines in an order that is never trained on."""
        lines = table.split("\n")
        head, lines = [x for x in lines if ": " not in x], [x for x in lines if ": " in x]
        for _ in range(100):  # a short list may have no such order
            if lookup.held_out(table):
                break
            self.rng.shuffle(lines)
            table = "\n".join(head + lines)
        return table

    def usual(self):
        """A document of the kinds that the model was trained on."""
        r = self.rng.random()
        if r < 0.85:
            return self.sampler.short()
        return self.sampler.long(self.rng.randint(100, 600) if r < 0.98 else self.rng.randint(600, self.tokens - 100))

    def pack(self, documents):
        """The batch that model.forward takes, and its regions."""
        region = Region(sum(len(ids) for ids, _ in documents), len(documents) + 1, 0, self.pad_id, self.rng)
        for document in documents:
            region.add(*document)
        batch = {k: torch.tensor(getattr(region, k)) for k in ("tokens", "pos", "weight", "mtp_weight", "keep")}
        return batch, ((0, region.size, torch.tensor(region.cu), region.size),)

    def draw(self):
        documents, used = [], 0
        while True:
            first = used < self.first_share * self.tokens
            document = self.question_first() if first else self.usual()
            if used + len(document[0]) > self.tokens and documents:
                return self.pack(documents)
            documents.append(document)
            used += len(document[0])


def answers_right(cfg, params, tables, batch, regions):
    """Whether each document's answer is what greedy decoding gives."""
    tree, pos = params.tree(), batch["pos"]
    cos, sin = (t[pos][:, None] for t in tables)
    x = model.dense_block(cfg, tree["layers"][0], tree["embed"][batch["tokens"]].bfloat16(), cos, sin, regions)
    for i in range(1, cfg.num_hidden_layers):
        x, _, _ = model.moe_block(cfg, tree["layers"][i], x, tree["bias"][i - 1], cos, sin, regions)
    choice = model.linear(model.rms(x, tree["norm"]), tree["head"]).argmax(-1)
    wrong = (choice != batch["tokens"].roll(-1)) & (batch["weight"] > 0)
    cu = regions[0][2].tolist()
    return [not wrong[a:b].any().item() for a, b in zip(cu, cu[1:])]


@torch.no_grad()
def validate(cfg, params, tables, packs):
    """Part of the held-out question-first lists answered rightly."""
    right = [r for batch, regions in packs for r in answers_right(cfg, params, tables, batch, regions)]
    return round(sum(right) / len(right), 4)


class Log:
    """Mean losses since the last line, printed and as JSON lines in finetune.jsonl."""

    def __init__(self, folder):
        self.file, self.begin, self.recent = open(folder / "finetune.jsonl", "w", encoding="utf-8"), time.time(), []

    def add(self, *losses):
        self.recent.append(losses)

    def write(self, **row):
        means = torch.tensor(self.recent).mean(0).tolist() if self.recent else (None, None)
        row |= {"loss": means[0], "mtp_loss": means[1], "t": round(time.time() - self.begin, 1)}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        print(row, flush=True)
        self.recent = []


def train(args, cfg, params, batches, packs, folder):
    tables, fn, log = model.rope_table(cfg, "cpu"), model.Functions(False), Log(folder)
    weights = trainable(cfg, params)
    optimiser = torch.optim.AdamW(weights, lr=args.lr, betas=(0.9, 0.98), weight_decay=0.0)
    begin, checked, step, tokens, progress = time.time(), 0.0, 0, 0, 0.0
    while progress < 1.0:
        if time.time() - checked > args.check_s:
            log.write(step=step, tokens=tokens, right=validate(cfg, params, tables, packs))
            export.save_model(cfg, params.tree(), folder / "partial.safetensors")
            checked = time.time()
        progress = min(1.0, (time.time() - begin) / (60 * args.minutes))
        optimiser.param_groups[0]["lr"] = args.lr * min(1.0, (step + 1) / WARMUP_STEPS) * (1 - progress)
        batch, regions = batches.draw()
        main, draft, _, _ = model.forward(cfg, fn, params.tree(), batch, regions, tables, torch.bfloat16)
        optimiser.zero_grad()
        (main + MTP_WEIGHT * draft).backward()
        torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimiser.step()
        step, tokens = step + 1, tokens + len(batch["tokens"])
        log.add(main.item(), draft.item())
    log.write(step=step, tokens=tokens, right=validate(cfg, params, tables, packs))


def main():
    args = arguments()
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    model.varlen_attn = document_attention
    cfg = model.Config()
    params = load_checkpoint(cfg, args.checkpoint)
    held = Batches(args.seed + 1000, args.tokens, 1.0)
    packs = [held.pack([held.question_first(held_out=True) for _ in range(8)]) for _ in range(VALIDATION)]
    before = [w.detach().clone() for w in trainable(cfg, params)]
    train(args, cfg, params, Batches(args.seed, args.tokens, args.first_share), packs, folder)
    with torch.no_grad():
        for old, new in zip(before, trainable(cfg, params)):
            new.copy_(torch.lerp(old, new, args.part))
    print("right as written:", validate(cfg, params, model.rope_table(cfg, "cpu"), packs), flush=True)
    export.save_model(cfg, params.tree(), folder / "model.safetensors")


if __name__ == "__main__":
    main()
