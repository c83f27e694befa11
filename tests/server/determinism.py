"""Same request, same bytes, whatever the load: each request alone gives the reference, then come the storms.

Usage: determinism.py [--seconds N] [--seed S] [--model nano|v2-lite|v3-fp8]. A storm is a fresh server with other
limits (memory, page size, chunk budget, threads, cache) under random clients, some of which leave. Every answer that
was read to its end must equal the reference byte for byte, log-probabilities included; only ids, times and cache
statistics may differ. FATHOM, FATHOM_SOURCE_DIR and FATHOM_TESTDATA name the binary, the sources and the unpacked
checkpoints.
"""
import argparse
import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from storm import MAX_LEN, Storm, ask, golden_cases, nano_cases
from support import FATHOM, NANO, TIMEOUT, Server, eventually

GOLDEN = pathlib.Path(os.environ["FATHOM_TESTDATA"]) / "golden"
# The first storms have what must occur in every run; those after them are drawn.
FIXED = [
    {"tight": True, "budget": 16, "block": 8, "threads": 2, "cache": True, "clients": 64},
    {"tight": True, "budget": 2048, "block": 32, "threads": 1, "cache": False, "clients": 24},
    {"tight": False, "budget": 64, "block": 128, "threads": 2, "cache": True, "clients": 64},
]
COUNTERS = {"preemptions": "fathom:num_preemptions_total", "cache hits": "fathom:prefix_cache_hits_total",
            "evictions": "fathom:prefix_cache_evictions_total", "cancelled": "fathom:requests_cancelled_total",
            "tokens": "fathom:generation_tokens_total"}


def draw(source):
    return {"tight": source.random() < 0.5, "budget": source.choice([16, 17, 48, 64, 200, 512, 2048]),
            "block": source.choice([8, 16, 32, 64, 128]), "threads": source.choice([1, 2]),
            "cache": source.random() < 0.6, "clients": source.choice([1, 2, 5, 16, 33, 64])}


class Model:
    def __init__(self, name):
        self.name = name
        self.path = NANO if name == "nano" else str(GOLDEN / name)
        self.cases = nano_cases() if name == "nano" else golden_cases(500)
        self.references = {}

    def learn(self):
        """Asks every case alone, whole and streamed, on a server without a cache."""
        with Server("--max-model-len", MAX_LEN, "--no-enable-prefix-caching", "--kv-memory", "64MiB",
                    "--log-level", "error", model=self.path) as server:
            for case in self.cases:
                for stream in (False, True):
                    self.references[case.name, stream] = ask(server, case, stream, self.path)
            metrics = server.metrics()
            self.token_bytes = metrics["fathom:kv_cache_memory_bytes"] / metrics["fathom:kv_cache_pages"] / 16
            assert server.terminate() == 0
        # Different requests must differ, but for those that hold the model to what it says anyhow.
        assert len(set(self.references.values())) > 0.8 * len(self.references)

    def storm(self, settings, seconds, seed, log=None):
        # Room for one request of the greatest length and little more: others must give way.
        longest = -(-MAX_LEN // settings["block"]) * settings["block"]
        memory = int(self.token_bytes * (longest + settings["block"])) if settings["tight"] else 64 << 20
        arguments = ["--max-model-len", MAX_LEN, "--kv-memory", memory, "--block-size", settings["block"],
                     "--max-num-batched-tokens", settings["budget"], "--max-num-seqs", min(64, settings["budget"]),
                     "--log-level", "error",
                     "--enable-prefix-caching" if settings["cache"] else "--no-enable-prefix-caching"]
        if log:
            arguments += ["--request-log", log]
        with Server(*arguments, model=self.path, threads=settings["threads"]) as server:
            storm = Storm(server, self.path, self.references, self.cases, seed)
            storm.run(seconds, settings["clients"])

            def idle():
                metrics = server.metrics()
                return (metrics["fathom:num_requests_running"], metrics["fathom:num_requests_waiting"],
                        metrics["fathom:kv_cache_pages_used"], metrics["http_server_active_requests"]) == (0, 0, 0, 1)
            eventually(idle, "an idle engine after the storm")
            metrics = server.metrics()
            if server.terminate() != 0:
                storm.failures.append("The server did not end with code 0: " + server.log()[-2000:])
        return storm, {name: metrics[series] for name, series in COUNTERS.items()}


def replay(model, log):
    """Exit code and last words of `fathom replay` on the log of a storm."""
    done = subprocess.run([FATHOM, "replay", model.path, log, "--max-model-len", str(MAX_LEN), "--kv-memory", "64MiB",
                           "--threads", "1"], capture_output=True, text=True, timeout=10 * TIMEOUT)
    return done.returncode, (done.stdout + done.stderr)[-1500:]


def check(names, seconds, seed):
    """Storms over the models in turn; returns the failures."""
    source = random.Random(seed)
    begin = time.monotonic()
    models = [Model(name) for name in names]
    for model in models:
        model.learn()
        print(f"{model.name}: {len(model.references)} references, {sum(map(len, model.references.values()))} bytes",
              flush=True)
    learned = time.monotonic() - begin
    length = max(1.0, min(20.0, (seconds - learned) / (len(FIXED) * len(models) + 2)))
    totals, failures, storms = collections.Counter(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        log = str(pathlib.Path(folder, "requests.jsonl"))
        while storms < len(FIXED) * len(models) or time.monotonic() - begin < seconds - length:
            model, turn = models[storms % len(models)], storms // len(models)
            settings = FIXED[turn] if turn < len(FIXED) else draw(source)
            storm, counters = model.storm(settings, length, f"{seed}/{storms}", None if storms else log)
            storms += 1
            totals.update(counters)
            totals.update({"same": storm.same, "left": storm.left})
            print(f"storm {storms} {model.name} {settings}: {storm.same} the same, {storm.left} left", flush=True)
            failures += [f"storm {storms} {model.name} {settings}: {text}" for text in storm.failures]
            if failures:
                break
        if not failures:
            code, words = replay(models[0], log)
            print("replay:", words.strip().splitlines()[-1] if words.strip() else "", flush=True)
            if code != 0 or " 0 requests" in words:
                failures.append(f"fathom replay ended with {code}: {words}")
    print(dict(totals), flush=True)
    if not failures:
        failures += [f"No {name} in any storm: the test did not test." for name in [*COUNTERS, "same", "left"]
                     if not totals[name]]
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", action="append", choices=["nano", "v2-lite", "v3-fp8"])
    arguments = parser.parse_args()
    failures = check(arguments.model or ["nano", "v2-lite", "v3-fp8"], arguments.seconds, arguments.seed)
    for failure in failures[:5]:
        print("FAILED", failure)
    print("different bytes or broken answers" if failures else "every answer was the same")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
