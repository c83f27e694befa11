"""What the outside world sends: malformed bytes, many connections, cut streams. Nothing leaks, nothing ends."""
import json
import random
import unittest

from support import NANO, Server, Stream, eventually, read_all

JSON = b"Content-Type: application/json\r\n"


def post(body, headers=JSON, path=b"/v1/completions"):
    return b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + headers + \
        b"Content-Length: %d\r\n\r\n" % len(body) + body


# Requests that must be answered with an error (or by the end of the connection), and no more.
HOSTILE = [
    b"", b"\r\n", b"\r\n\r\n\r\n", b"\0" * 4096, b"\xff" * 4096, b"A" * 200000, b"GET " + b"/" * 200000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 300,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
    b"GET /%ff%fe HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /%0d%0aX:y HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + JSON + b"Content-Length: 18446744073709551615\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + JSON + b"Content-Length: 99999999999\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + JSON + b"Content-Length: +5\r\n\r\n{}   ",
    post(b""), post(b"{"), post(b"null"), post(b"[]"), post(b"1e999"), post(b"\xff\xfe"), post(b'"' + b"a" * 10000),
    post(b"[" * 100000), post(b'{"a":' * 50000), post(b'{"prompt": "' + b"\\ud800" + b'"}'),
    post(b'{"prompt": "a", "max_tokens": 1e400}'), post(b'{"prompt": "a", "n": -1}'),
    post(b'{"prompt": "a", "max_tokens": 99999999999999999999}'), post(b"{}", b""), post(b"{}", b"Content-Type: x\r\n"),
    post(b'{"messages": []}', path=b"/v1/chat/completions"), post(b'{"messages": [{}]}', path=b"/v1/chat/completions"),
]


class Hostile(unittest.TestCase):
    def test_malformed_requests(self):
        with Server("--log-level", "error") as server:
            before = server.metrics()["process_open_fds"]
            for bytes_ in HOSTILE:
                with self.subTest(bytes_[:80]), server.socket() as connection:
                    try:
                        connection.sendall(bytes_)
                        connection.shutdown(1)
                    except OSError:
                        pass  # refused before all of it was sent
                    answer = read_all(connection)
                    if answer:
                        status = int(answer.split(b" ", 2)[1])
                        self.assertTrue(400 <= status < 600 and status != 500, answer[:200])
                        json.loads(answer.split(b"\r\n\r\n", 1)[1])
            self.assertEqual(server.get("/health").status, 200)
            eventually(lambda: server.metrics()["process_open_fds"] <= before, "closed descriptors")
            self.assertEqual(server.terminate(), 0)

    def test_random_bytes_and_cut_requests(self):
        good = post(json.dumps({"model": NANO, "prompt": "a", "max_tokens": 2}).encode())
        source = random.Random(7)
        with Server("--log-level", "off") as server:
            for _ in range(300):
                data = bytearray(good[:source.randrange(len(good) + 1)])
                for _ in range(source.randrange(4)):
                    if data:
                        data[source.randrange(len(data))] = source.randrange(256)
                with server.socket() as connection:
                    try:
                        connection.sendall(data)
                        if source.random() < 0.5:
                            connection.shutdown(1)
                            read_all(connection)
                    except OSError:
                        pass
            self.assertEqual(server.complete(max_tokens=2).status, 200)
            self.assertEqual(server.terminate(), 0)


class Many(unittest.TestCase):
    def test_many_connections_leave_nothing_behind(self):
        with Server("--log-level", "error") as server:
            self.assertEqual(server.complete(max_tokens=1).status, 200)  # whatever is opened once is open now
            before = server.metrics()["process_open_fds"]
            connections = [server.socket(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(400)]
            for connection in connections:
                self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 200"))
            self.assertEqual(server.metrics()["fathom:http_open_connections"], 401)
            for connection in connections:
                connection.close()
            eventually(lambda: server.metrics()["fathom:http_open_connections"] == 1, "closed connections")
            self.assertLessEqual(server.metrics()["process_open_fds"], before)
            self.assertEqual(server.terminate(), 0)

    def test_beyond_the_limit_is_503(self):
        with Server("--max-connections", 3) as server:
            kept = [server.socket(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(3)]
            for connection in kept:
                self.assertTrue(connection.recv(65536))
            with server.socket() as refused:
                self.assertTrue(read_all(refused).startswith(b"HTTP/1.1 503"))
            for connection in kept:
                connection.close()
            eventually(lambda: server.get("/health").status == 200)

    def test_streams_cut_by_clients(self):
        with Server("--log-level", "error") as server:
            self.assertEqual(server.complete(max_tokens=1).status, 200)
            before = server.metrics()["process_open_fds"]
            for i in range(40):
                stream = Stream(server, max_tokens=1000, seed=i)
                for _ in range(i % 4):
                    self.assertIsNotNone(stream.next())
                stream.close()

            def idle():
                metrics = server.metrics()
                return (metrics["fathom:kv_cache_pages_used"], metrics["fathom:num_requests_running"],
                        metrics["fathom:num_requests_waiting"], metrics["fathom:http_open_connections"]) == (0, 0, 0, 1)
            eventually(idle, "an idle server")
            self.assertLessEqual(server.metrics()["process_open_fds"], before)
            self.assertEqual(server.terminate(), 0)


if __name__ == "__main__":
    unittest.main()
