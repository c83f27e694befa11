"""Operating the server: draining, signals, keys read again, cancelled and timed-out requests."""
import json
import pathlib
import signal
import tempfile
import threading
import unittest

from support import NANO, Server, Stream, eventually

LONG = 3000  # tokens: seconds of work for the small model


class Draining(unittest.TestCase):
    def test_running_answers_finish(self):
        with Server("--max-num-seqs", 4) as server:
            streams = [Stream(server, max_tokens=300, seed=i) for i in range(6)]  # two of them must wait
            for stream in streams[:4]:
                self.assertIsNotNone(stream.next())
            plain = {}
            thread = threading.Thread(target=lambda: plain.update(reply=server.complete(max_tokens=300)))
            thread.start()
            eventually(lambda: server.metrics()["http_server_active_requests"] >= 8)  # 7 and the question itself
            server.signal(signal.SIGTERM)
            eventually(lambda: server.get("/ready").status == 503)
            self.assertEqual(server.get("/ready").json()["status"], "draining")
            self.assertEqual(server.get("/health").status, 200)
            refused = server.complete(max_tokens=1)
            self.assertEqual((refused.status, refused.headers["connection"]), (503, "close"))
            self.assertIn("retry-after", refused.headers)
            for stream in streams:
                events = stream.all()
                self.assertEqual(events[-1], "[DONE]")
                finished = [json.loads(event) for event in events[:-1] if event != "[DONE]"]
                self.assertEqual(finished[-1]["choices"][0]["finish_reason"], "length")
            thread.join()
            self.assertEqual(plain["reply"].status, 200)
            self.assertEqual(server.finish(), 0)

    def test_answers_that_take_too_long_are_cut_with_a_word(self):
        with Server("--drain-timeout", "0.3") as server:
            stream = Stream(server, max_tokens=LONG)
            self.assertIsNotNone(stream.next())
            server.signal(signal.SIGTERM)
            events = stream.all()
            self.assertEqual(json.loads(events[-1])["error"]["code"], "shutting_down")
            self.assertEqual(server.finish(), 0)

    def test_a_second_signal_stops_at_once(self):
        with Server("--drain-timeout", "300") as server:
            stream = Stream(server, max_tokens=LONG)
            self.assertIsNotNone(stream.next())
            server.signal(signal.SIGINT)
            eventually(lambda: server.get("/ready").status == 503)
            server.signal(signal.SIGINT)
            self.assertEqual(server.finish(), 130)
            stream.close()

    def test_an_idle_server_ends_at_once(self):
        with Server() as server:
            with server.socket(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") as idle:
                self.assertTrue(idle.recv(65536))
                self.assertEqual(server.terminate(), 0)
                self.assertEqual(idle.recv(1), b"")


class Cancelling(unittest.TestCase):
    def check_pages_come_back(self, server):
        def idle():
            metrics = server.metrics()
            return (metrics["fathom:num_requests_running"], metrics["fathom:num_requests_waiting"],
                    metrics["fathom:kv_cache_pages_used"], metrics["http_server_active_requests"]) == (0, 0, 0, 1)
        eventually(idle, "an idle engine")

    def test_a_client_that_goes_frees_its_pages(self):
        with Server("--max-num-seqs", 2) as server:
            streams = [Stream(server, max_tokens=LONG) for _ in range(2)]
            for stream in streams:
                self.assertIsNotNone(stream.next())
            body = json.dumps({"model": NANO, "prompt": "a", "ignore_eos": True, "max_tokens": LONG}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" \
                   f"Content-Length: {len(body)}\r\n\r\n".encode()
            waiting = server.socket(head + body)  # not streamed, in the queue
            eventually(lambda: server.metrics()["fathom:num_requests_waiting"] == 1)
            for stream in streams:
                stream.close()
            waiting.close()
            self.check_pages_come_back(server)
            metrics = server.metrics()
            self.assertEqual(metrics['fathom:requests_aborted_total{reason="client_disconnected"}'], 3)
            self.assertEqual(metrics["fathom:requests_cancelled_total"], 3)
            self.assertEqual(server.terminate(), 0)

    def test_a_full_queue_is_429(self):
        with Server("--max-num-seqs", 1, "--max-queued-requests", 1) as server:
            running = Stream(server, max_tokens=LONG)
            self.assertIsNotNone(running.next())
            waiting = server.socket()
            body = json.dumps({"model": NANO, "prompt": "a", "max_tokens": LONG, "ignore_eos": True}).encode()
            waiting.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)
            eventually(lambda: server.metrics()["fathom:num_requests_waiting"] == 1)
            refused = server.complete(max_tokens=1)
            self.assertEqual(refused.status, 429)
            self.assertIn("retry-after", refused.headers)
            running.close()
            waiting.close()
            self.check_pages_come_back(server)


class Keys(unittest.TestCase):
    def test_keys_are_read_again_on_sighup(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "keys")
            file.write_text("sk-old\n")
            with Server("--api-key-file", file, "--api-key", "sk-flag") as server:
                def models(key):
                    return server.get("/v1/models", {"Authorization": f"Bearer {key}"}).status
                self.assertEqual((models("sk-old"), models("sk-flag"), models("sk-new")), (200, 200, 401))
                self.assertEqual(server.get("/v1/models").status, 401)
                file.write_text(json.dumps([{"name": "team", "key": "sk-new", "requests_per_second": 0.001}]))
                server.signal(signal.SIGHUP)
                eventually(lambda: models("sk-new") == 200)
                self.assertEqual((models("sk-old"), models("sk-flag")), (401, 200))
                auth = {"Authorization": "Bearer sk-new"}
                self.assertEqual(server.complete(auth, max_tokens=1).status, 200)
                limited = server.complete(auth, max_tokens=1)
                self.assertEqual(limited.status, 429)
                self.assertGreater(int(limited.headers["retry-after"]), 100)
                file.write_text("[broken")
                server.signal(signal.SIGHUP)
                eventually(lambda: "stay in force" in server.log())
                self.assertEqual((models("sk-new"), models("sk-flag")), (200, 200))
                self.assertEqual(server.terminate(), 0)
                self.assertNotIn("sk-new", server.log())


if __name__ == "__main__":
    unittest.main()
