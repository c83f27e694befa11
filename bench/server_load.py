"""Load and faults against `fathom serve`: many clients, of which some leave, read slowly, or send nonsense.

  server_load.py load [--seconds 60] [--clients 200]   every request one end, no growth, nothing left behind
  server_load.py cost [--streams 32]                   tokens/s over HTTP against the same batch in process

Standard library only. Needs FATHOM (the binary) and, for `cost`, PYTHONPATH with the built package
(build/release/python). Exit code 1 if something is wrong.
"""
import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

NANO = str(pathlib.Path(__file__).resolve().parent.parent / "models" / "nano")
MALFORMED = [
    b"\0\1\2\3\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n"
    b'{"prompt": "a", "max_tokens":1',
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
    b'{"messages": [1]',
]


class Server:
    def __init__(self, *arguments):
        command = [os.environ["FATHOM"], "serve", NANO, "--port", "0", "--served-model-name", "nano", "--log-level",
                   "error", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(re.search(rb":(\d+);", self.process.stdout.readline())[1])
        while self.status("/ready") != 200:
            time.sleep(0.05)

    def status(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def request_bytes(body):
    data = json.dumps({"model": "nano", **body}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n" \
           b"Content-Length: %d\r\n\r\n" % len(data) + data


class Load:
    def __init__(self, server, seconds, seed):
        self.server, self.seed, self.end = server, seed, time.monotonic() + seconds
        self.counts, self.wrong, self.samples = collections.Counter(), [], []

    async def client(self, number):
        source = random.Random(f"{self.seed}/{number}")
        while time.monotonic() < self.end and not self.wrong:
            kind = source.choices(["whole", "leaves", "slow", "malformed", "plain"], [50, 20, 10, 10, 10])[0]
            try:
                await asyncio.wait_for(self.one(kind, source), 300)
                self.counts[kind] += 1
            except (AssertionError, OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError) as problem:
                self.wrong.append(f"{kind}: {problem!r}")

    async def one(self, kind, source):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            if kind == "malformed":
                writer.write(source.choice(MALFORMED))
                writer.write_eof()
                answer = await reader.read()
                assert not answer or 400 <= int(answer.split(b" ", 2)[1]) < 500, answer[:300]
                return
            count = source.randrange(1, 4)
            body = {"prompt": "seventh reed " * source.randrange(1, 40), "max_tokens": source.randrange(1, 60),
                    "ignore_eos": True, "temperature": 1.0, "n": count, "logprobs": 2, "stream": kind != "plain"}
            writer.write(request_bytes(body))
            if kind == "leaves":
                await asyncio.sleep(source.random() * 0.5)
                await reader.read(source.randrange(1, 3000)) if source.random() < 0.5 else None
                writer.transport.abort() if source.random() < 0.5 else None
                return
            answer = await self.slowly(reader) if kind == "slow" else await reader.read()
            assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
            ends = len(re.findall(rb'"finish_reason":"length"', answer))
            assert ends == count, f"{ends} ends of {count} choices"
            assert answer.count(b"data: [DONE]") == (kind != "plain"), answer[-300:]
        finally:
            writer.close()

    async def slowly(self, reader):
        answer = b""
        while piece := await reader.read(700):
            answer += piece
            await asyncio.sleep(0.01)
        return answer

    async def watch(self):
        while time.monotonic() < self.end:
            metrics = await asyncio.to_thread(self.server.metrics)
            self.samples.append((metrics["process_resident_memory_bytes"], metrics["fathom:num_requests_running"],
                                 metrics["http_server_active_requests"]))
            await asyncio.sleep(0.5)

    async def run(self, clients):
        await asyncio.gather(self.watch(), *(self.client(i) for i in range(clients)))


def load(arguments):
    server = Server("--max-num-seqs", 64, "--threads", arguments.threads)
    before = server.metrics()
    run = Load(server, arguments.seconds, arguments.seed)
    asyncio.run(run.run(arguments.clients))
    wrong, deadline = run.wrong, time.monotonic() + 30
    names = ["fathom:num_requests_running", "fathom:num_requests_waiting", "fathom:kv_cache_pages_used"]
    while any((after := server.metrics())[name] for name in names) or after["http_server_active_requests"] > 1:
        if time.monotonic() > deadline:
            wrong.append(f"not idle: { {name: after[name] for name in names} }")
            break
        time.sleep(0.1)
    after = server.metrics()
    finished = sum(value for name, value in after.items() if name.startswith("fathom:requests_finished_total"))
    if finished != after["fathom:requests_accepted_total"]:
        wrong.append(f"{after['fathom:requests_accepted_total']:.0f} requests were accepted, {finished:.0f} ended")
    if after["process_open_fds"] > before["process_open_fds"]:
        wrong.append(f"{before['process_open_fds']:.0f} descriptors before, {after['process_open_fds']:.0f} after")
    # After warm-up (half of the time) memory stays where it was; 5% is the noise of the allocator.
    rss = [sample[0] / 2**20 for sample in run.samples]
    warm, last = max(rss[:len(rss) // 2 + 1]), max(rss[len(rss) // 2:])
    if last > warm * 1.05:
        wrong.append(f"resident memory grew from {warm:.1f} to {last:.1f} MiB after warm-up")
    if server.stop() != 0:
        wrong.append("the server did not end with code 0")
    print(f"{arguments.seconds:.0f} s, {arguments.clients} clients: {dict(run.counts)}; at most "
          f"{max(s[1] for s in run.samples):.0f} running, {max(s[2] for s in run.samples):.0f} open requests; "
          f"{finished:.0f} choices ended, {after['fathom:generation_tokens_total']:.0f} tokens, "
          f"{after['fathom:requests_cancelled_total']:.0f} cancelled, "
          f"{after['fathom:num_preemptions_total']:.0f} preempted; "
          f"RSS first half {warm:.1f} MiB, second half {last:.1f} MiB; descriptors "
          f"{before['process_open_fds']:.0f} and {after['process_open_fds']:.0f}")
    return wrong


COST_TOKENS = 200


def cost_prompts(streams):
    return [f"Repeat after me: stream number {i}" for i in range(streams)]


async def http_streams(port, streams):
    """Arrival times of the events of each stream."""
    async def one(prompt, seed):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes({"prompt": prompt, "max_tokens": COST_TOKENS, "ignore_eos": True, "temperature": 1.0,
                                    "seed": seed, "stream": True}))
        arrivals = 0
        while line := await reader.readline():
            arrivals += line.startswith(b"data: {")
        writer.close()
        return arrivals
    return await asyncio.gather(*(one(prompt, i) for i, prompt in enumerate(cost_prompts(streams))))


def in_process(streams, threads, repeats):
    import fathom
    seconds = []
    with fathom.LLM(NANO, threads=threads, max_num_seqs=64, prefix_caching=False) as model:
        sampling = [fathom.SamplingParams(max_tokens=COST_TOKENS, ignore_eos=True, temperature=1.0, seed=i)
                    for i in range(streams)]
        for _ in range(repeats + 1):
            begin = time.perf_counter()
            outputs = model.generate(cost_prompts(streams), sampling)
            seconds.append(time.perf_counter() - begin)
            assert all(len(output.token_ids) == COST_TOKENS for output in outputs)
    return seconds[1:]


def cost(arguments):
    total = arguments.streams * COST_TOKENS
    server = Server("--max-num-seqs", 64, "--threads", arguments.threads, "--no-enable-prefix-caching")
    over_http, engine = [], []
    asyncio.run(http_streams(server.port, arguments.streams))
    for _ in range(arguments.repeats):
        before = server.metrics()
        begin = time.perf_counter()
        arrived = asyncio.run(http_streams(server.port, arguments.streams))
        over_http.append(time.perf_counter() - begin)
        after = server.metrics()
        engine.append(after["fathom:engine_step_seconds_total"] - before["fathom:engine_step_seconds_total"])
        assert min(arrived) > COST_TOKENS // 2 and after["fathom:generation_tokens_total"] - \
            before["fathom:generation_tokens_total"] == total, arrived
    server.stop()
    alone = in_process(arguments.streams, arguments.threads, arguments.repeats)
    speed = [total / statistics.median(times) for times in (over_http, alone)]
    print(f"{arguments.streams} streams of {COST_TOKENS} tokens, {arguments.threads} thread(s), median of "
          f"{arguments.repeats}: HTTP {speed[0]:.0f} tokens/s, in process {speed[1]:.0f} tokens/s, ratio "
          f"{speed[0] / speed[1]:.3f}; {statistics.median(engine) / statistics.median(over_http):.1%} of the time over "
          "HTTP is in steps of the model")
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["load", "cost"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = {"load": load, "cost": cost}[arguments.what](arguments)
    for line in wrong[:20]:
        print("WRONG", line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
