"""Requests for the determinism suite, how they are asked, and what of an answer must never differ."""
import collections
import contextlib
import http.client
import json
import random
import re
import threading
import time

MAX_LEN = 640  # tokens of context in these tests
WORDS = "seventh reed grows beside the old mill and nobody counts its leaves".split()


class Case:
    """One request of the pool."""

    def __init__(self, name, path, **body):
        self.name = name
        self.path = path
        self.body = body


def golden_cases(vocabulary):
    """Completions of token ids, for checkpoints without a chat template."""
    source = random.Random(11)
    shared = [source.randrange(3, vocabulary) for _ in range(400)]

    def ids(prefix, more):
        return shared[:prefix] + [source.randrange(3, vocabulary) for _ in range(more)]

    def case(name, prompt, **fields):
        body = {"prompt": prompt, "logprobs": 3, "ignore_eos": True, "return_token_ids": True, "seed": 1, **fields}
        return Case(name, "/v1/completions", **body)

    return [
        case("one-token", ids(0, 1), max_tokens=24, temperature=0),
        case("greedy", ids(0, 9), max_tokens=48, temperature=0),
        case("sampled", ids(0, 17), max_tokens=32, temperature=1.0, seed=1),
        case("sampled-other-seed", ids(0, 0) + shared[:33], max_tokens=32, temperature=1.0, seed=2),
        case("long", ids(300, 45), max_tokens=12, temperature=0),
        case("longer", ids(400, 130), max_tokens=20, temperature=0.7, seed=3),
        case("same-beginning", ids(300, 1), max_tokens=30, temperature=0),
        case("page-border", ids(128, 0), max_tokens=17, temperature=0),
        case("page-border-again", ids(128, 0), max_tokens=17, temperature=1.3, top_p=0.9, seed=4),
        case("filtered", ids(20, 3), max_tokens=25, temperature=1.0, top_k=20, top_p=0.8, min_p=0.01, seed=5),
        case("penalties", ids(31, 0), max_tokens=40, temperature=0, presence_penalty=0.5, frequency_penalty=0.3,
             repetition_penalty=1.2),
        case("bias", ids(15, 0), max_tokens=15, temperature=0.5, seed=6, logit_bias={"7": 3, "9": -100}),
        case("choices", ids(50, 7), max_tokens=16, temperature=1.0, n=4, seed=7),
        case("choices-long", ids(200, 3), max_tokens=8, temperature=1.0, n=3, seed=8),
        case("echo", ids(90, 5), max_tokens=6, temperature=0, echo=True),
        case("score", ids(256, 5), max_tokens=0, echo=True),
        case("batch", [ids(10, 3), ids(70, 0), ids(0, 2)], max_tokens=10, temperature=0.9, seed=9),
        case("answers-long", ids(5, 5), max_tokens=150, temperature=0.8, seed=10),
    ]


def nano_cases():
    """Chat and completions of the small trained model, with tools and forms of the answer."""
    def case(name, content, **fields):
        body = {"messages": [{"role": "user", "content": content}], "logprobs": True, "top_logprobs": 4,
                "max_tokens": 40, "temperature": 0, "seed": 1, **fields}
        return Case(name, "/v1/chat/completions", **body)

    table = "\n".join(f"key{i}: {(i * 7919) % 100003:x}" for i in range(30))
    weather = {"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}}
    person = "Fill in a JSON object with the keys name, age: Hugo is 10 years old."
    return golden_cases(500) + [
        case("repeat", "Repeat after me: 91c8b338-9f4a-f1d8"),
        case("sort", "Sort these words: tensor, fork, hoowom, sand"),
        case("look-up", table + "\nWhat is the value of key17?"),
        case("look-up-other", table + "\nWhat is the value of key3?", temperature=1.0, seed=20),
        case("hot", "leaves and rivers, 7 of 9", temperature=2.0, seed=21),
        case("hot-choices", "leaves and rivers, 7 of 9", temperature=2.0, seed=22, n=5),
        case("stop", "Sort these words: tensor, fork, hoowom, sand", stop=["hoo", "zz"]),
        case("tool", "How is the weather in Rome?", tools=[weather]),
        case("tool-required", "How is the weather in Rome?", tools=[weather], tool_choice="required"),
        case("tool-forced-hot", "Reverse: spring", tools=[weather], temperature=1.5, seed=23,
             tool_choice={"type": "function", "function": {"name": "get_weather"}}),
        case("form", person, response_format=form),
        case("form-hot", person, response_format=form, temperature=1.7, seed=24, n=2),
        case("json", person, response_format={"type": "json_object"}),
        case("regex", "Reverse: spring", structured_outputs={"regex": "[a-f]{3}-[0-9]+x"}, temperature=1.4, seed=25),
        Case("text", "/v1/completions", prompt=" ".join(WORDS), max_tokens=20, temperature=1.0, seed=26, logprobs=2),
    ]


def send(connection, case, stream, model):
    body = {"model": model, **case.body}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    connection.request("POST", case.path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


# What may differ between two answers to the same request: their names, the clock, and cache statistics.
VARIABLE = re.compile(rb'"id":"(?:chatcmpl-|cmpl-|call_)[^"]*"|"created":\d+|"cached_tokens":\d+')


def essence(raw, stream):
    """The bytes of an answer that must not differ. A stream's chunks are ordered by choice only."""
    raw = VARIABLE.sub(b"", raw)
    if not stream:
        return raw
    choices = collections.defaultdict(list)
    for line in raw.split(b"\n\n"):
        index = re.search(rb'"choices":\[\{"index":(\d+)', line) or re.search(rb'"index":(\d+)', line)
        choices[int(index[1]) if index else -1].append(line)
    return b"\n".join(b"\n\n".join(choices[key]) for key in sorted(choices))


def ask(server, case, stream, model):
    with contextlib.closing(server.connect()) as connection:
        response = send(connection, case, stream, model)
        raw = response.read()
        if response.status != 200:
            raise AssertionError(f"{case.name}: {response.status} {raw[:500]!r}")
    if stream and not raw.endswith(b"data: [DONE]\n\n"):
        raise AssertionError(f"{case.name}: the stream ends with {raw[-300:]!r}")
    return essence(raw, stream)


def begin_and_leave(server, case, model, source):
    """Disconnects after a random part of the answer, or before its first byte."""
    connection = server.connect()
    try:
        body = {"model": model, **case.body, "stream": True}
        connection.request("POST", case.path, json.dumps(body), {"Content-Type": "application/json"})
        if source.random() < 0.3:
            time.sleep(source.random() * 0.05)
            return
        response = connection.getresponse()
        with contextlib.suppress(http.client.IncompleteRead):
            response.read(source.randrange(1, 6000))
        response.close()
    finally:
        connection.close()


class Storm:
    """Clients that ask random cases of the pool at random moments until the time is over."""

    def __init__(self, server, model, references, cases, seed):
        self.server, self.model, self.references, self.cases, self.seed = server, model, references, cases, seed
        self.lock = threading.Lock()
        self.same = self.left = 0
        self.failures = []

    def run(self, seconds, clients):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(end, f"{self.seed}/{i}")) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, end, seed):
        source = random.Random(seed)
        while time.monotonic() < end and not self.failures:
            time.sleep(source.expovariate(20))
            case, stream = source.choice(self.cases), source.random() < 0.5
            try:
                if source.random() < 0.2:
                    begin_and_leave(self.server, case, self.model, source)
                    with self.lock:
                        self.left += 1
                    continue
                got = ask(self.server, case, stream, self.model)
                want = self.references[case.name, stream]
                with self.lock:
                    if got == want:
                        self.same += 1
                    else:
                        self.failures.append(difference(case, stream, want, got))
            except (AssertionError, OSError, http.client.HTTPException) as problem:
                with self.lock:
                    self.failures.append(f"{case.name}: {problem!r}")


def difference(case, stream, want, got):
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    begin = max(0, at - 200)
    return (f"{case.name} ({'stream' if stream else 'whole'}) differs at byte {at} of {len(want)}/{len(got)}:\n"
            f"  alone: {want[begin:at + 200]!r}\n  storm: {got[begin:at + 200]!r}\n  request: {json.dumps(case.body)}")
