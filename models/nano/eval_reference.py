"""Scores a checkpoint on probe.jsonl with the numpy reference: python eval_reference.py [--folder DIR] [--probe FILE]."""
import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from chat import EOS, FastEncoder, render
from reference import Reference

HERE = Path(__file__).parent


def score(model, encoder, entry):
    """(right?, smallest top-1 minus top-2 margin over the answer, drafts that agree, drafts).

    One pass over prompt and answer: the greedy continuation is the answer if and only if every answer token is the arg max.
    """
    prompt = encoder.encode("".join(text for text, _ in render(entry["messages"], entry.get("tools"))))
    ids = np.array(prompt + encoder.encode(entry["answer"] + EOS))
    begin = len(prompt) - 1
    hidden, logits = model.forward(ids[:-1])
    choice = logits[begin:].argmax(-1)
    top = np.sort(logits[begin:], -1)
    drafted = model.draft(ids[:-1], hidden)[begin:].argmax(-1)
    return bool((choice == ids[begin + 1:]).all()), float((top[:, -1] - top[:, -2]).min()), int((drafted == choice[1:]).sum()), len(drafted)


class Tally:
    def __init__(self):
        self.right, self.count, self.agree, self.drafts, self.margins = defaultdict(int), defaultdict(int), 0, 0, []

    def add(self, entry, right, margin, agree, drafts):
        groups = ["overall", entry["task"]]
        if "length_class" in entry:
            groups += [f"lookup {entry['length_class']}", f"lookup {entry['form']}"]
        for g in groups:
            self.right[g] += right
            self.count[g] += 1
        self.agree += agree
        self.drafts += drafts
        if right:
            self.margins.append(margin)

    def print(self):
        for g in self.count:
            print(f"{g:16} {self.right[g]:4}/{self.count[g]:<4} {100 * self.right[g] / self.count[g]:6.2f}%")
        print(f"{'MTP agreement':16} {self.agree:4}/{self.drafts:<4} {100 * self.agree / self.drafts:6.2f}%")
        print(f"smallest margin of a right answer: {min(self.margins):.3f}, 1st percentile {np.percentile(self.margins, 1):.2f}, "
              f"median {np.median(self.margins):.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--folder", default=HERE)
    p.add_argument("--weights", default="model.safetensors")
    p.add_argument("--probe", default=HERE / "probe.jsonl")
    p.add_argument("--show", action="store_true", help="print every wrong answer's question")
    args = p.parse_args()
    model = Reference(args.folder, args.weights)
    encoder = FastEncoder(Tokenizer.from_file(str(HERE / "tokenizer.json")))
    tally = Tally()
    for line in open(args.probe, encoding="utf-8"):
        entry = json.loads(line)
        result = score(model, encoder, entry)
        tally.add(entry, *result)
        if args.show and not result[0]:
            print("wrong:", entry["id"], entry["task"], entry.get("length_class", ""), repr(entry["messages"][-1]["content"][-90:]), repr(entry["answer"]))
    tally.print()


if __name__ == "__main__":
    main()
