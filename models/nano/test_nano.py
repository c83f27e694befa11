"""Checks of the training code that need no GPU: python -m pytest models/nano."""
import json
import random
import zlib
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

import export
import finetune
import lookup
import model
import plain_attention
import tasks
from chat import BOS, TEMPLATE, FastEncoder, assistant_text, render
from data import Layout, Packer
from optim import Parameters
from reference import Reference

HERE = Path(__file__).parent
LAYOUT = Layout(n_long=1024, n_short=1024, max_long=1024, last_cap=600, docs_long=32, docs_short=64)


@pytest.fixture(scope="module")
def encoder():
    return FastEncoder(Tokenizer.from_file(str(HERE / "tokenizer.json")))


def test_fast_encoder_equals_the_tokenizer(encoder):
    rng = random.Random(1)
    texts = ["".join(t for t, _ in render(u.messages, u.tools)) for u in (tasks.draw(rng) for _ in range(300))]
    texts += ["".join(t for t, _ in render(lookup.messages(*lookup.document(rng, encoder, 600, 3))))]
    for text in texts:
        ids = encoder.encode(text)
        assert ids == encoder.tokenizer.encode(text, add_special_tokens=False).ids
        assert encoder.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_chat_template_renders_the_training_text():
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)
    template = env.from_string(TEMPLATE)
    assert json.loads((HERE / "tokenizer_config.json").read_text())["chat_template"] == TEMPLATE
    rng = random.Random(2)
    for _ in range(300):
        unit = tasks.draw(rng)
        text = "".join(t for t, _ in render(unit.messages, unit.tools))
        assert template.render(messages=unit.messages, tools=unit.tools, bos_token=BOS) == text
        prompt = template.render(messages=unit.messages[:-1], tools=unit.tools, bos_token=BOS, add_generation_prompt=True)
        assert prompt == "".join(t for t, _ in render(unit.messages[:-1], unit.tools))


def test_batches_are_packed_whole_and_labelled_inside_answers():
    packer = Packer(3, LAYOUT)
    parts, _ = LAYOUT.parts()
    eos, ends = packer.encoder.special["<｜end▁of▁sentence｜>"], 0
    for index in range(3):
        flat = packer.batch(index)
        get = {k: flat[a:b].view(np.float32 if k in ("weight", "mtp_weight", "keep") else np.int32) for k, (a, b) in parts.items()}
        for cu, begin, size, most in (("cu_long", 0, LAYOUT.n_long, LAYOUT.max_long), ("cu_short", LAYOUT.n_long, LAYOUT.n_short, LAYOUT.max_short)):
            lengths = np.diff(get[cu])
            assert get[cu][-1] == size and 0 <= lengths.min() and lengths.max() <= most
            for a, b in zip(get[cu], get[cu][1:]):
                assert (get["pos"][begin + a:begin + b] == np.arange(b - a)).all()
                assert a == b or get["weight"][begin + b - 1] == 0
        labels = get["tokens"][1:][get["weight"][:-1] > 0]
        ends += (labels == eos).sum()
        assert (get["mtp_weight"] > 0).sum() < (get["weight"] > 0).sum()
    assert ends > 10


def test_probe_is_held_out():
    entries = [json.loads(line) for line in open(HERE / "probe.jsonl", encoding="utf-8")]
    assert len(entries) == 500
    for e in entries:
        users = [m["content"] for m in e["messages"] if m["role"] == "user"]
        if e["task"] == "lookup":
            continue  # its list is held out, which the drawing asserts
        assert zlib.crc32("\n".join(users).encode()) % tasks.HELD_OUT == 0


def test_answers_are_what_the_messages_say():
    rng = random.Random(5)
    for task in tasks.PROBE_TASKS:
        unit = tasks.draw(rng, True, task)
        assert unit.held_out() and assistant_text(unit.messages[-1])


def test_export_computes_what_training_computes(tmp_path):
    plain_attention.install()
    cfg, generator = model.Config(), torch.Generator().manual_seed(1)
    params = Parameters(cfg, 3, "cpu")
    with torch.no_grad():
        for weights, _, _ in params.muon.values():
            weights.copy_((torch.randn(weights.shape, generator=generator) * weights.shape[-1] ** -0.5).bfloat16())
        params.flat[0].copy_(params.flat[0].bfloat16())
        params.bias.copy_(torch.randn(params.bias.shape, generator=generator) * 0.05 - 0.5)
    export.write(cfg, params.tree(), tmp_path)
    ids = torch.randint(0, cfg.vocab_size, (60,), generator=generator)
    hidden, logits = Reference(tmp_path).forward(ids.numpy())
    draft = Reference(tmp_path).draft(ids.numpy(), hidden)
    want = [torch.nn.functional.cross_entropy(torch.tensor(a), b) for a, b in ((logits[:-1], ids[1:]), (draft[:-1], ids[2:]))]
    ones = torch.ones(60)
    batch = {"tokens": ids.int(), "pos": torch.arange(60).int(), "weight": ones.clone(), "mtp_weight": ones.clone(), "keep": ones}
    batch["weight"][-1] = 0
    batch["mtp_weight"][-2:] = 0
    cu = torch.tensor([0, 60, 60], dtype=torch.int32)
    with torch.no_grad():
        got = model.forward(cfg, model.Functions(False), params.tree(), batch, ((0, 60, cu, 60),), model.rope_table(cfg, "cpu"), torch.float32)
    assert abs(got[0] - want[0]) < 1e-5 and abs(got[1] - want[1]) < 1e-5


def test_optimiser_lowers_the_loss():
    plain_attention.install()
    cfg, params = model.Config(), Parameters(model.Config(), 0, "cpu")
    ids = torch.randint(3, 40, (64,), generator=torch.Generator().manual_seed(2))
    batch = {"tokens": ids.int(), "pos": torch.arange(64).int(), **{k: torch.ones(64) for k in ("weight", "mtp_weight", "keep")}}
    cu, losses = torch.tensor([0, 64], dtype=torch.int32), []
    for _ in range(8):
        params.zero_grad()
        out = model.forward(cfg, model.Functions(False), params.tree(), batch, ((0, 64, cu, 64),), model.rope_table(cfg, "cpu"), torch.float32)
        (out[0] + out[1]).backward()
        params.step(torch.tensor(0.3))
        params.balance(out[3], torch.tensor(1e-3))
        losses.append(out[0].item())
    assert losses[-1] < 0.8 * losses[0]


def test_fine_tuning_starts_from_the_checkpoint_and_keeps_lists_apart():
    cfg = model.Config()
    params = finetune.load_checkpoint(cfg, HERE / "model.safetensors")  # checks that its export is the same file again
    chosen = finetune.trainable(cfg, params)
    assert len(chosen) == 8 * cfg.num_hidden_layers and not params.globals["embed"].requires_grad
    batches = finetune.Batches(7, 700, 0.5)
    batch, ((begin, end, cu, _),) = batches.draw()
    assert begin == 0 and end == len(batch["tokens"]) == cu[-1] <= 700 and batch["weight"].sum() > 0
    for wanted in (False, True):
        text = batches.encoder.tokenizer.decode(batches.question_first(wanted)[0], skip_special_tokens=False)
        asked = text.split("<｜User｜>")[1].split("<｜Assistant｜>")[0]
        assert lookup.held_out(asked.split("\n", 1)[1]) == wanted


def test_document_attention_equals_the_plain_kernel():
    q, k, v = torch.randn(3, 50, 8, 64, generator=torch.Generator().manual_seed(4))
    cu = torch.tensor([0, 20, 50, 50], dtype=torch.int32)
    got = finetune.document_attention(q, k, v, cu, cu, 30, 30, scale=0.2, window_size=(-1, 0))
    assert torch.allclose(got, plain_attention._forward(q, k, v, cu, cu, 30, 30, True, 0.2)[0], atol=1e-5)
