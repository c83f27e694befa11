"""curl: the very bytes of a stream of server-sent events, and what scripts do with the server."""
import json
import shutil
import subprocess
import sys
import unittest

from base import MODEL, ClientTest, user

SKIPPED = 77


class Curl(ClientTest):
    def curl(self, path, body=None, *options):
        data = [] if body is None else ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        done = subprocess.run(["curl", "-sS", "-N", "--max-time", "60", "-H", "Authorization: Bearer sk-test", *data,
                               *options, self.url + path], capture_output=True)
        return done.returncode, done.stdout

    def test_events_of_a_stream(self):
        code, answer = self.curl("/v1/chat/completions", {"model": MODEL, "messages": user("Reverse: spring"),
                                                          "temperature": 0, "stream": True}, "-D", "-")
        self.assertEqual(code, 0)
        head, raw = answer.split(b"\r\n\r\n", 1)
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        self.assertTrue(headers[b"content-type"].startswith(b"text/event-stream"), headers)
        self.assertEqual(headers[b"cache-control"], b"no-cache")
        self.assertNotIn(b"\r", raw)
        self.assertTrue(raw.endswith(b"\n\ndata: [DONE]\n\n"), raw[-100:])
        events = raw[:-2].split(b"\n\n")
        text = ""
        for event in events[:-1]:
            self.assertTrue(event.startswith(b"data: {") and b"\n" not in event, event)
            text += json.loads(event[6:])["choices"][0]["delta"].get("content") or ""
        self.assertEqual(text, "gnirps")

    def test_events_of_anthropic_have_names(self):
        code, raw = self.curl("/v1/messages", {"model": MODEL, "messages": user("Reverse: spring"), "max_tokens": 20,
                                               "temperature": 0, "stream": True})
        self.assertEqual(code, 0)
        for event in raw[:-2].split(b"\n\n"):
            name, data = event.split(b"\n")
            self.assertEqual(name[len(b"event: "):].decode(), json.loads(data[len(b"data: "):])["type"])

    def test_the_same_bytes_twice(self):
        body = {"model": MODEL, "messages": user("Reverse: spring"), "seed": 4, "temperature": 1.5, "logprobs": True,
                "top_logprobs": 3, "max_tokens": 30}
        one, two = (json.loads(self.curl("/v1/chat/completions", body)[1], parse_float=str) for _ in range(2))
        self.assertEqual(one["choices"], two["choices"])

    def test_failures_have_an_exit_code(self):
        self.assertEqual(self.curl("/v1/completions", {"model": "no-such", "prompt": "a"}, "--fail")[0], 22)
        self.assertEqual(self.curl("/health", None, "--fail"), (0, self.curl("/health")[1]))
        code, answer = self.curl("/v1/completions", {"model": MODEL, "prompt": "a", "max_tokens": 1900, "stream": True,
                                                     "ignore_eos": True}, "--max-time", "0.5")
        self.assertEqual(code, 28)  # curl gave up
        self.assertTrue(answer.startswith(b"data: "))
        self.wait_idle()


if __name__ == "__main__":
    if not shutil.which("curl"):
        print("skipped: curl is not installed.")
        sys.exit(SKIPPED)
    unittest.main()
