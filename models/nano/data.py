"""Training batches: documents packed into a long and a short region, made by worker processes."""
import multiprocessing as mp
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import lookup
import tasks
from chat import PAD, FastEncoder, render
from tools import unneeded

HERE = Path(__file__).parent
LONG_WEIGHT = 1.5  # answers of look-up documents count this much more


@dataclass(frozen=True)
class Layout:
    """Sizes of a batch and where its parts lie in one flat int32 array."""
    n_long: int = 16384
    n_short: int = 32768
    max_long: int = 4000      # longest document of the long region
    max_short: int = 640      # longest document of the short region
    docs_long: int = 256      # cumulative-length entries, unused ones are empty
    docs_short: int = 1280
    curriculum: int = 2200    # batches over which the longest list grows to its full length
    first_cap: int = 300
    last_cap: int = 3780
    question_first: float = 0.0  # share of short documents that are lists with the question before them

    @property
    def n(self):
        return self.n_long + self.n_short

    def parts(self):
        """name -> (begin, end) in int32 words; weights are float32 bits."""
        sizes = [("tokens", self.n), ("pos", self.n), ("weight", self.n), ("mtp_weight", self.n), ("keep", self.n),
                 ("cu_long", self.docs_long + 1), ("cu_short", self.docs_short + 1)]
        out, at = {}, 0
        for name, size in sizes:
            out[name] = (at, at + size)
            at += (size + 3) // 4 * 4
        return out, at


def document_arrays(encoder, pieces):
    """ids, and per token the loss weight it has as a target (0 outside answers)."""
    ids, weight = [], []
    for text, is_answer in pieces:
        part = encoder.encode(text)
        ids += part
        weight += [len(part) ** -0.5 if is_answer else 0.0] * len(part)
    return ids, weight


class Sampler:
    """Draws training documents of one worker."""

    def __init__(self, seed, layout, encoder):
        self.rng, self.layout, self.encoder = random.Random(seed), layout, encoder

    def short(self):
        """A chat of one unit, or of two to four, with a system prompt or unneeded tools at times."""
        rng = self.rng
        if self.layout.question_first and rng.random() < self.layout.question_first:
            return self.question_first()
        while True:
            units = [tasks.draw(rng) for _ in range(rng.randint(2, 4) if rng.random() < 0.25 else 1)]
            schemas = [t for u in units for t in u.tools]
            if len(units) > 1 and schemas:
                units, schemas = units[:1], units[0].tools
            if not schemas and rng.random() < 0.06:
                schemas = unneeded(rng)
            messages = [m for u in units for m in u.messages]
            if rng.random() < 0.15:
                messages = [{"role": "system", "content": rng.choice(tasks.SYSTEM_PROMPTS)}] + messages
            ids, weight = document_arrays(self.encoder, render(messages, schemas))
            if len(ids) <= self.layout.max_short:
                return ids, weight

    def question_first(self):
        """A list that follows its one question."""
        while True:
            table, asked, first = lookup.document(self.rng, self.encoder, self.rng.randint(60, self.layout.max_short - 20), 1, ask_first=1.0)
            if first and not lookup.held_out(table):
                ids, weight = document_arrays(self.encoder, render(lookup.messages(table, asked, first)))
                if len(ids) <= self.layout.max_short:
                    return ids, weight

    def long(self, length):
        """A look-up document of about `length` tokens with several questions, from a list that is not held out."""
        rng = self.rng
        most = max(1, min(16, length // 60))
        while True:
            questions = rng.randint(1 if rng.random() < 0.3 else (most + 1) // 2, most)
            table, asked, first = lookup.document(rng, self.encoder, length, questions)
            if not lookup.held_out(table):
                break
        ids, weight = document_arrays(self.encoder, render(lookup.messages(table, asked, first)))
        weight = [LONG_WEIGHT * x for x in weight]
        assert len(ids) <= self.layout.max_long, len(ids)
        return ids, weight


class Region:
    """One packed stretch of tokens and its cumulative document lengths."""

    def __init__(self, size, doc_slots, doc_limit, pad_id, rng):
        self.size, self.doc_slots, self.doc_limit, self.pad_id, self.rng = size, doc_slots, doc_limit, pad_id, rng
        self.tokens, self.pos, self.weight, self.mtp_weight, self.keep, self.cu = [], [], [], [], [], [0]

    def room(self):
        """Tokens left, none once only the slots that padding may need are free."""
        left = self.size - len(self.tokens)
        return left if len(self.cu) + left // self.doc_limit + 2 < self.doc_slots else 0

    def add(self, ids, weight):
        n = len(ids)
        self.tokens += ids
        self.pos += range(n)
        self.weight += weight[1:] + [0.0]
        self.mtp_weight += [b if a and b else 0.0 for a, b in zip(weight[1:], weight[2:])] + [0.0] * min(n, 2)
        self.keep += [0.0 if self.rng.random() < 0.5 else 1.0] + [1.0] * (n - 1)
        self.cu.append(len(self.tokens))

    def finish(self):
        while len(self.tokens) < self.size:
            n = min(self.doc_limit, self.size - len(self.tokens))
            self.add([self.pad_id] * n, [0.0] * n)
        self.cu += [self.size] * (self.doc_slots + 1 - len(self.cu))
        assert len(self.tokens) == self.size and len(self.cu) == self.doc_slots + 1


class Packer:
    """Fills batches; a document that does not fit is carried over to the next one."""

    def __init__(self, seed, layout):
        self.layout = layout
        self.encoder = FastEncoder(Tokenizer.from_file(str(HERE / "tokenizer.json")))
        self.sampler = Sampler(seed, layout, self.encoder)
        self.rng = self.sampler.rng
        self.pad_id = self.encoder.special[PAD]
        self.carried_long = self.carried_short = None

    def long_length(self, cap):
        if self.rng.random() < 0.6:
            return self.rng.randint(cap // 2, cap)
        return self.rng.randint(100, max(101, cap // 2))

    def fill_long(self, cap):
        la = self.layout
        region = Region(la.n_long, la.docs_long, la.max_long, self.pad_id, self.rng)
        while True:
            doc = self.carried_long or self.sampler.long(self.long_length(cap))
            self.carried_long = None
            if len(doc[0]) > region.room():
                self.carried_long = doc
                break
            region.add(*doc)
        while region.room() > 250:
            doc = self.sampler.long(min(cap, region.room() - 100))
            if len(doc[0]) > region.room():
                break
            region.add(*doc)
        region.finish()
        return region

    def fill_short(self):
        la = self.layout
        region = Region(la.n_short, la.docs_short, la.max_short, self.pad_id, self.rng)
        while True:
            doc = self.carried_short or self.sampler.short()
            self.carried_short = None
            if len(doc[0]) > region.room():
                self.carried_short = doc
                break
            region.add(*doc)
        region.finish()
        return region

    def batch(self, index):
        """The flat int32 array of batch `index`."""
        la = self.layout
        cap = int(la.first_cap + (la.last_cap - la.first_cap) * min(1.0, index / la.curriculum))
        a, b = self.fill_long(cap), self.fill_short()
        parts, size = la.parts()
        flat = np.zeros(size, np.int32)
        for name, dtype in (("tokens", np.int32), ("pos", np.int32), ("weight", np.float32), ("mtp_weight", np.float32), ("keep", np.float32)):
            begin, end = parts[name]
            flat[begin:end].view(dtype)[:] = getattr(a, name) + getattr(b, name)
        for name, region in (("cu_long", a), ("cu_short", b)):
            begin, end = parts[name]
            flat[begin:end] = region.cu
        return flat


def _work(seed, layout, worker, workers, first, queue):
    packer = Packer(seed * 1000 + worker + 7919 * first, layout)
    for index in range(first + worker, 1 << 30, workers):
        queue.put(packer.batch(index))


class Loader:
    """Batches in order, from `workers` processes; start it before the GPU is touched."""

    def __init__(self, seed, layout, workers, first=0, depth=6):
        context = mp.get_context("fork")
        self.queues = [context.Queue(depth) for _ in range(workers)]
        self.processes = [context.Process(target=_work, args=(seed, layout, i, workers, first, q), daemon=True)
                          for i, q in enumerate(self.queues)]
        for p in self.processes:
            p.start()
        self.turn = 0

    def next(self):
        batch = self.queues[self.turn % len(self.queues)].get(timeout=60)
        self.turn += 1
        return batch

    def close(self):
        for p in self.processes:
            p.terminate()
