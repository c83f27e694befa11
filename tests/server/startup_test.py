"""How the server starts: addresses, messages, logs, flags that are known from elsewhere."""
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from support import FATHOM, NANO, SLOW_LOAD, TIMEOUT, Server


def fails(*arguments, model=NANO):
    done = subprocess.run([FATHOM, "serve", model, *map(str, arguments)], capture_output=True, timeout=TIMEOUT)
    return done.returncode, done.stderr.decode()


class Starting(unittest.TestCase):
    def test_answers_while_the_model_loads(self):
        with Server(*SLOW_LOAD, wait=False) as server:
            self.assertEqual(server.get("/health").status, 200)
            ready = server.get("/ready")
            self.assertEqual((ready.status, ready.json()["status"]), (503, "loading"))
            refused = server.complete()
            self.assertEqual(refused.status, 503)
            self.assertIn("retry-after", refused.headers)
            self.assertIn("error", refused.json())
            server.wait_ready()
            self.assertEqual(server.complete(max_tokens=1).status, 200)

    def test_may_be_stopped_while_the_model_loads(self):
        with Server(*SLOW_LOAD, wait=False) as server:
            self.assertEqual(server.terminate(), 0)

    def test_summary_and_version(self):
        with Server("--served-model-name", "tiny", "--served-model-name", "alias") as server:
            self.assertRegex(server.get("/version").json()["version"], r"^\d+\.\d+\.\d+$")
            self.assertEqual(server.terminate(), 0)
            self.assertRegex(server.first_line, r"^Listening on http://127\.0\.0\.1:\d+; loading ")
            for word in ("is ready", "this machine only", "tiny, alias", "pages of 16 tokens", "4096 tokens",
                         "64 sequences"):
                self.assertIn(word, server.summary)

    def test_known_flags_have_their_meaning(self):
        with Server("--max-model-len", 128, "--max-num-seqs", 3, "--max-num-batched-tokens", 64, "--block-size", 32,
                    "--no-enable-prefix-caching", "--dtype", "auto", "--kv-memory", "64MiB", "--host", "localhost",
                    "--seed", 5) as server:
            server.terminate()
            for word in ("128 tokens", "3 sequences, 64 rows", "pages of 32 tokens", "prefix cache off"):
                self.assertIn(word, server.summary)

    def test_seed_is_that_of_requests_without_one(self):
        with Server("--seed", 5, "--no-enable-prefix-caching") as server:
            fields = {"temperature": 1.0, "max_tokens": 20}
            texts = [server.complete(**fields, **seed).json()["choices"][0]["text"]
                     for seed in ({}, {}, {"seed": 5}, {"seed": 6})]
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0], texts[2])
            self.assertNotEqual(texts[0], texts[3])

    def test_warns_when_everybody_may_come_in(self):
        with Server("--host", "0.0.0.0") as server:
            self.assertIn("ANYBODY", server.log())
        with Server("--host", "0.0.0.0", "--api-key", "k") as server:
            self.assertNotIn("ANYBODY", server.log())
        with Server() as server:
            self.assertNotIn("ANYBODY", server.log())


class Refusing(unittest.TestCase):
    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, message = fails("--port", port)
        self.assertEqual(code, 1)
        self.assertIn(f"Port {port} of 127.0.0.1 is in use", message)

    def test_bad_host_certificate_model_and_keys(self):
        for arguments, words in [(["--host", "no such host"], "no such host"),
                                 (["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"], "/no/cert.pem"),
                                 (["--api-key-file", "/no/keys"], "/no/keys"),
                                 (["--chat-template", "/no/template"], "/no/template")]:
            code, message = fails("--port", 0, *arguments)
            self.assertEqual(code, 1, message)
            self.assertIn(words, message)
        code, message = fails("--port", 0, model="/no/model")
        self.assertEqual(code, 1)
        self.assertIn("/no/model", message)

    def test_wrong_usage(self):
        for arguments in (["--port", "70000"], ["--port", "x"], ["--tls-cert", "a"], ["--dtype", "float16"],
                          ["--dtype", "int3"], ["--api-key", ""], ["--drain-timeout", "-1"], ["--max-num-seqs", "0"],
                          ["--max-num-seqs", "9", "--max-num-batched-tokens", "8"], ["--log-format", "xml"],
                          ["--max-body-size", "lots"], ["--served-model-name", ""]):
            code, message = fails(*arguments)
            self.assertEqual(code, 2, (arguments, message))
            self.assertIn(arguments[0], message)

    def test_dtype_that_would_convert(self):
        code, message = fails("--port", 0, "--dtype", "float32")
        self.assertEqual(code, 1)
        self.assertIn("--dtype auto", message)


class Logs(unittest.TestCase):
    PROMPT = "xylophone"

    def drive(self, *arguments):
        with Server("--api-key", "sk-secret", *arguments) as server:
            auth = {"Authorization": "Bearer sk-secret", "X-Request-Id": "my-request"}
            self.assertEqual(server.complete(auth, prompt=self.PROMPT, max_tokens=2).status, 200)
            self.assertEqual(server.complete({"X-Request-Id": "no-key"}, prompt=self.PROMPT).status, 401)
            self.assertEqual(server.terminate(), 0)
            return server.log()

    def check_nothing_private(self, log):
        self.assertNotIn(self.PROMPT, log)
        self.assertNotIn("sk-secret", log)

    def test_text(self):
        log = self.drive()
        self.check_nothing_private(log)
        self.assertRegex(log, r'info my-request 127\.0\.0\.1:\d+ POST "/v1/completions" 200 \d+B [\d.]+ms tokens=\d+ '
                              r'key=flag-1\n')
        self.assertNotIn("/ready", log)  # probes are not logged

    def test_json(self):
        log = self.drive("--log-format", "json")
        self.check_nothing_private(log)
        lines = [json.loads(line) for line in log.splitlines()]
        requests = {line["id"]: line for line in lines if line["event"] == "request"}
        done = requests["my-request"]
        self.assertEqual((done["method"], done["path"], done["status"], done["outcome"], done["key"]),
                         ("POST", "/v1/completions", 200, "ok", "flag-1"))
        self.assertGreater(done["tokens"], 2)
        self.assertEqual(requests["no-key"]["status"], 401)
        self.assertTrue(any("shuts down" in line.get("message", "") for line in lines))

    def test_levels(self):
        self.assertEqual(self.drive("--log-level", "error"), "")


class Tls(unittest.TestCase):
    def test_https(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = pathlib.Path(folder, "c.pem"), pathlib.Path(folder, "k.pem")
            made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                                   "-nodes", "-subj", "/CN=localhost", "-days", "1", "-out", cert, "-keyout", key],
                                  capture_output=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            with Server("--tls-cert", cert, "--tls-key", key, wait=False) as server:
                self.assertIn("https://", server.first_line)
                trust = ssl.create_default_context(cafile=cert)
                trust.check_hostname = False
                with trust.wrap_socket(server.socket(), server_hostname="localhost") as tls:
                    tls.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    answer = b""
                    while piece := tls.recv(65536):
                        answer += piece
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"))
                server.signal(signal.SIGTERM)
                self.assertEqual(server.finish(), 0)


if __name__ == "__main__":
    unittest.main()
