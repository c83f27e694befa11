"""The API over real sockets: equal requests get equal bytes, alone and in a crowd; logs replay."""
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import unittest

from support import FATHOM, NANO, TIMEOUT, Server

PROMPTS = ["Reverse: spring", "Repeat after me: cherry-2607", "Add 12 and 30.",
           "Sort these words: tensor, fork, sand"]


def chat(number, **fields):
    return {"model": "nano", "messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}],
            "seed": number, "temperature": 0.9, "max_tokens": 8 + number, "logprobs": True, "top_logprobs": 3,
            **fields}


def nano_server(*arguments):
    return Server("--served-model-name", "nano", *arguments)


def choices(server, body):
    """The bytes that belong to the choices: ids and times differ from one request to the next."""
    reply = server.post("/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    if not body.get("stream"):
        return json.dumps(reply.json()["choices"])
    lines = [line for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]", lines[-1]
    return "\n".join(json.dumps(json.loads(line[6:])["choices"]) for line in lines[:-1])


class SameBytes(unittest.TestCase):
    def test_alone_and_in_a_crowd(self):
        bodies = [chat(number, stream=number % 2 == 0) for number in range(16)]
        with nano_server("--max-num-seqs", "1") as server:
            alone = [choices(server, body) for body in bodies]
        crowded = [["--max-num-seqs", "16"],
                   ["--max-num-batched-tokens", "16", "--max-num-seqs", "16"],
                   ["--no-enable-prefix-caching", "--block-size", "8"],
                   ["--kv-memory", "2MiB", "--max-model-len", "128"]]
        for arguments in crowded:
            with self.subTest(arguments), nano_server(*arguments) as server:
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    together = list(pool.map(lambda body: choices(server, body), bodies))
                self.assertEqual(together, alone)


class RequestLog(unittest.TestCase):
    def test_replays_the_same_and_notices_a_change(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "requests.jsonl"
            with nano_server("--request-log", log) as server:
                for number in range(4):
                    choices(server, chat(number, stream=number % 2 == 0, n=1 + number % 2))
                server.post("/v1/messages", {"messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 9})
                server.post("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 1})
                self.assertEqual(server.terminate(), 0)
            self.assertEqual(len(log.read_text().splitlines()), 6)
            done = self.replay(log)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("6 the same, 0 different", done.stdout)
            lines = log.read_text().splitlines()
            entry = json.loads(lines[0])
            entry["choices"][0]["token_ids"][0] += 1
            log.write_text("\n".join([json.dumps(entry), *lines[1:], "nonsense"]) + "\n")
            done = self.replay(log)
            self.assertEqual(done.returncode, 1)
            self.assertIn("token_ids differ first at token 0", done.stdout)
            self.assertIn("5 the same, 1 different, 1 could not be asked again", done.stdout)

    @staticmethod
    def replay(log):
        return subprocess.run([FATHOM, "replay", NANO, str(log), "--threads", "1"], capture_output=True,
                              text=True, timeout=TIMEOUT)


if __name__ == "__main__":
    unittest.main()
