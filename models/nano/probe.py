"""Draws probe.jsonl: 500 held-out questions with their exact answers, by a fixed seed and without looking at any model."""
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

import lookup
import tasks
from chat import FastEncoder, assistant_text, render

SEED = 20261130
HERE = Path(__file__).parent
COUNTS = {"repeat": 40, "add": 24, "sub": 24, "sort_num": 22, "sort_word": 22, "rev_word": 22, "rev_list": 20, "count_letter": 22,
          "count_item": 22, "lookup_short": 20, "json": 20, "tool": 20, "two_turn": 22}
CLASSES = [(64, 256), (256, 512), (512, 1024), (1024, 2048), (2048, 3500)]
PER_CLASS = 40


def entry(task, messages, tools, encoder, **extra):
    """One line of the probe; the last message is the answer."""
    prompt = "".join(text for text, _ in render(messages[:-1], tools))
    out = {"task": task, "messages": messages[:-1]}
    if tools:
        out["tools"] = tools
    return out | extra | {"answer": assistant_text(messages[-1]), "prompt_tokens": len(encoder.encode(prompt))}


def short_entries(rng, encoder):
    functions = {("json" if f is tasks.json_fill else f.__name__): f for f in tasks.PROBE_TASKS}
    seen = set()
    for task, count in COUNTS.items():
        while count:
            unit = tasks.draw(rng, True, functions[task])
            if unit.key() not in seen:
                seen.add(unit.key())
                count -= 1
                yield entry(task, unit.messages, unit.tools, encoder)


def lookup_entry(rng, encoder, form, least, most):
    """A question on a held-out list whose prompt has more than `least` and at most `most` tokens."""
    while True:
        table, asked, first = lookup.document(rng, encoder, rng.randint(least, most + 30), 1)
        if asked[0][2] != form or not lookup.held_out(table):
            continue
        out = entry("lookup", lookup.messages(table, asked, first), [], encoder, form=form, question_first=first)
        if least < out["prompt_tokens"] <= most:
            return out


def lookup_entries(rng, encoder):
    """Per length class, half of the prompts are within 5% of the full length, half anywhere in the class."""
    for low, high in CLASSES:
        for i in range(PER_CLASS):
            least = int(high * 0.95) if i % 4 < 2 else low
            yield lookup_entry(rng, encoder, ("line", "value")[i % 2], least, high) | {"length_class": high}


def main():
    rng, encoder = random.Random(SEED), FastEncoder(Tokenizer.from_file(str(HERE / "tokenizer.json")))
    entries = [*short_entries(rng, encoder), *lookup_entries(rng, encoder)]
    with open(HERE / "probe.jsonl", "w", encoding="utf-8") as f:
        for i, e in enumerate(entries):
            f.write(json.dumps({"id": i} | e, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
