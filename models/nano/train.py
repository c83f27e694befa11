"""Trains nano on one GPU until a wall-clock deadline and writes the checkpoint: python train.py --deadline-s 360 --out DIR."""
import time

START = time.time()

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

import plain_attention  # noqa: E402
import export  # noqa: E402
from data import Layout, Loader  # noqa: E402
from model import Config, Functions, forward, rope_table  # noqa: E402
from optim import Parameters  # noqa: E402

MTP_WEIGHT, BALANCE_WEIGHT, BIAS_SPEED = 0.3, 0.01, 5e-3
WARMUP_STEPS, CONSTANT_UNTIL, BIAS_UNTIL = 100, 0.4, 0.8
SELF_TEST_STEPS = 60
AHEAD = 4  # steps that the host may queue before the GPU has done them


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--deadline-s", type=float, default=360, help="seconds from process start to the written checkpoint")
    p.add_argument("--reserve-s", type=float, default=4, help="part of them kept for writing the checkpoint")
    p.add_argument("--mode", choices=["graph", "compiled", "eager"], default="graph")
    p.add_argument("--out", default="out")
    p.add_argument("--state", default="", help="file for resuming: read at the start if it is there, written now and then")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--steps", type=int, default=0, help="stop early after so many steps (for trials)")
    p.add_argument("--question-first", type=float, default=0.0, help="share of short documents with the question before a list")
    p.add_argument("--tiny", action="store_true", help="small batches, for trials on a CPU")
    return p.parse_args()


class Watchdog:
    """Ends the process when no step was finished for too long, so that the caller can try another mode."""

    def __init__(self, limit):
        self.limit, self.last = limit, time.time()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self, limit):
        self.limit, self.last = limit, time.time()

    def _watch(self):
        while True:
            time.sleep(1)
            if time.time() - self.last > self.limit:
                print(f"watchdog: nothing happened for {self.limit} s", flush=True)
                os._exit(4)


class Trainer:
    """Static input buffers, one training step over them, and its capture as a CUDA graph."""

    def __init__(self, args, layout):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.cfg, self.layout = Config(), layout
        self.params = Parameters(self.cfg, args.seed, self.device)
        self.fn = Functions(args.mode != "eager")
        self.tables = rope_table(self.cfg, self.device)
        self.dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        parts, size = layout.parts()
        self.flat = torch.zeros(size, dtype=torch.int32, device=self.device)
        floats = ("weight", "mtp_weight", "keep")
        self.batch = {k: self.flat[a:b].view(torch.float32 if k in floats else torch.int32) for k, (a, b) in parts.items()}
        self.regions = ((0, layout.n_long, self.batch["cu_long"], layout.max_long),
                        (layout.n_long, layout.n, self.batch["cu_short"], layout.max_short))
        self.lr, self.speed = (torch.zeros((), device=self.device) for _ in range(2))
        self.stats = torch.zeros(4, device=self.device)  # main, MTP, balance loss, largest load over mean
        self.graph = None
        self._make_staging(size)

    def _make_staging(self, size):
        cuda = self.device == "cuda"
        self.staging = [torch.zeros(size, dtype=torch.int32, pin_memory=cuda) for _ in range(AHEAD)]
        self.done = [torch.cuda.Event() if cuda else None for _ in range(AHEAD)]
        self.turn = 0

    def feed(self, batch):
        """Put a batch into the static buffer, behind the steps that are still queued."""
        slot = self.turn % AHEAD
        if self.device == "cuda" and self.turn >= AHEAD:
            self.done[slot].synchronize()
        self.staging[slot].numpy()[:] = batch
        self.flat.copy_(self.staging[slot], non_blocking=True)

    def finish_step(self):
        if self.device == "cuda":
            self.done[self.turn % AHEAD].record()
        self.turn += 1

    def step(self):
        self.params.zero_grad()
        main, draft, balance, loads = forward(self.cfg, self.fn, self.params.tree(), self.batch, self.regions, self.tables, self.dtype)
        (main + MTP_WEIGHT * draft + BALANCE_WEIGHT * balance).backward()
        self.params.step(self.lr)
        self.params.balance(loads, self.speed)
        mean_load = self.cfg.num_experts_per_tok / self.cfg.n_routed_experts
        self.stats.copy_(torch.stack([main, draft, balance, loads.max() / mean_load]).detach())

    def prepare(self, graph):
        """Compile with a learning rate of 0 and capture the step."""
        if self.device != "cuda":
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        if graph:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.step()

    def run(self, batch, lr, speed):
        self.feed(batch)
        self.lr.fill_(lr)
        self.speed.fill_(speed)
        self.graph.replay() if self.graph else self.step()
        self.finish_step()


def learning_rate(step, progress):
    """Warm-up by steps, constant, then linear to 0 at the end of the time."""
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    return warm * min(1.0, max(0.0, (1 - progress) / (1 - CONSTANT_UNTIL)))


class Clock:
    """Progress 0..1 of the training time, continued from `already` after a resume."""

    def __init__(self, end, already):
        self.begin, self.end, self.already = time.time(), end, already

    def progress(self):
        part = (time.time() - self.begin) / max(1e-3, self.end - self.begin)
        return min(1.0, self.already + (1 - self.already) * part)


def load_state(args, trainer):
    """(step, progress) to go on from."""
    if not args.state or not Path(args.state).exists():
        return 0, 0.0
    state = torch.load(args.state, map_location=trainer.device)
    trainer.params.load(state["params"])
    print(f"resumed at step {state['step']}, progress {state['progress']:.3f}", flush=True)
    return state["step"], state["progress"]


def save_state(args, trainer, step, progress):
    if args.state:
        torch.save({"params": trainer.params.state(), "step": step, "progress": progress}, args.state + ".new")
        os.replace(args.state + ".new", args.state)


class Log:
    """Loss curve: printed, and a JSON line each in log.jsonl."""

    def __init__(self, folder, tokens):
        self.file = open(folder / "log.jsonl", "a", encoding="utf-8")
        self.tokens, self.first_loss = tokens, None

    def write(self, step, progress, lr, waited, stats):
        main, draft, balance, load = stats
        row = {"step": step, "t": round(time.time() - START, 1), "progress": round(progress, 4), "lr": round(lr, 4),
               "loss": round(main, 5), "mtp_loss": round(draft, 5), "balance": round(balance, 3), "max_load": round(load, 2),
               "tokens": step * self.tokens, "waited_s": round(waited, 1)}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        print(" ".join(f"{k}={v}" for k, v in row.items()), flush=True)

    def check(self, step, loss):
        """The self-test: losses are finite, and lower after the first steps than before them."""
        if not torch.isfinite(torch.tensor(loss)):
            raise SystemExit(f"loss is not finite at step {step}")
        if self.first_loss is None:
            self.first_loss = loss
        elif step >= SELF_TEST_STEPS and loss > 0.9 * self.first_loss:
            raise SystemExit(f"self-test: loss {loss:.3f} at step {step} after {self.first_loss:.3f} at the start")


def train(args, trainer, loader, first_batch, watchdog, folder):
    """The loop; returns the number of steps done."""
    step, already = load_state(args, trainer)
    clock = Clock(START + args.deadline_s - args.reserve_s, already)
    log = Log(folder, trainer.layout.n)
    saves = [p for p in (0.25, 0.5, 0.75, 0.9) if p > already]
    begun, batch, waited, progress = step, first_batch, 0.0, already
    while progress < 1.0 and not (args.steps and step - begun >= args.steps):
        progress = clock.progress()
        lr = learning_rate(step, progress)
        trainer.run(batch, lr, BIAS_SPEED * max(0.0, 1 - progress / BIAS_UNTIL))
        step += 1
        since = time.time()
        batch = loader.next()
        waited += time.time() - since
        watchdog.beat(30)
        if step % 100 == 0 or step - begun in (1, SELF_TEST_STEPS) or step - begun == args.steps:
            stats = trainer.stats.tolist()
            log.write(step, progress, lr, waited, stats)
            log.check(step - begun if already == 0 else 0, stats[0])
        if saves and progress >= saves[0]:
            saves.pop(0)
            save_state(args, trainer, step, progress)
            export.save_model(trainer.cfg, trainer.params.tree(), folder / "partial.safetensors")
    return step


def main():
    args = arguments()
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    small = {"n_long": 1024, "n_short": 1024, "max_long": 1024, "last_cap": 600, "docs_long": 32, "docs_short": 64}
    layout = Layout(question_first=args.question_first, **(small if args.tiny else {}))
    first = 0
    if args.state and Path(args.state).exists():
        first = torch.load(args.state, map_location="cpu")["step"]
    loader = Loader(args.seed, layout, args.workers, first)
    watchdog = Watchdog(150)
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        plain_attention.check("cuda")
    else:
        plain_attention.install()
    trainer = Trainer(args, layout)
    batch = loader.next()
    trainer.feed(batch)
    trainer.prepare(args.mode == "graph")
    print(f"ready after {time.time() - START:.1f} s, mode {args.mode}", flush=True)
    steps = train(args, trainer, loader, batch, watchdog, folder)
    watchdog.beat(60)
    export.write(trainer.cfg, trainer.params.tree(), folder)
    loader.close()
    print(f"done: {steps} steps, {time.time() - START:.1f} s", flush=True)


if __name__ == "__main__":
    main()
