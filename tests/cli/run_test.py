"""run: prompts from everywhere, streams, stops, signals, JSON, demo files."""
import os
import pathlib
import signal
import tempfile
import threading
import unittest

from support import DATA, MODEL, Pipes, run

GREEDY = ["--temperature", "0", "--ignore-eos"]
IDS_ONLY = str(DATA / "golden" / "r1-distill-qwen")  # no tokenizer


class Prompts(unittest.TestCase):
    def test_argument_file_and_pipe_give_the_same(self):
        options = [MODEL, *GREEDY, "--max-tokens", "12"]
        done = run("run", *options, "abc 你")
        self.assertEqual(done.code, 0, done.err)
        self.assertGreater(len(done.out), 1)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "p.txt"
            file.write_text("abc 你\n")
            self.assertEqual(run("run", *options, "--file", file).out, done.out)
            self.assertEqual(run("run", *options, "--file", folder + "/none").code, 1)
            self.assertEqual(run("run", *options, "--file", folder).code, 1)
            fifo = folder + "/pipe"  # what the shell's <(command) gives
            os.mkfifo(fifo)
            writer = threading.Thread(target=lambda: pathlib.Path(fifo).write_text("abc 你\n"))
            writer.start()
            self.assertEqual(run("run", *options, "--file", fifo).out, done.out)
            writer.join()
        for name in ("-", "/dev/stdin"):
            self.assertEqual(run("run", *options, "--file", name, stdin="abc 你\n").out, done.out)
        endless = run("run", *options, "--file", "/dev/zero")
        self.assertEqual(endless.code, 1)
        self.assertIn("longer than", endless.err)
        self.assertEqual(run("run", *options, stdin="abc 你\n").out, done.out)

    def test_chat_template_is_the_default(self):
        def prompt_tokens(*arguments):
            done = run("run", MODEL, *arguments, "--json", "--max-tokens", "1")
            self.assertEqual(done.code, 0, done.err)
            return done.json()["usage"]["prompt_tokens"]
        chat, raw = prompt_tokens("abc"), prompt_tokens("abc", "--raw")
        self.assertEqual(chat, raw + 2)  # <｜User｜>, <｜Assistant｜>
        self.assertGreater(prompt_tokens("abc", "--system", "Be brief."), chat)

    def test_token_ids_without_a_tokenizer(self):
        done = run("run", IDS_ONLY, "--token-ids", "5,6,7", *GREEDY, "--max-tokens", "6")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(len([int(i) for i in done.out.split()]), 6)
        done = run("run", IDS_ONLY, "some text")
        self.assertEqual(done.code, 1)
        self.assertIn("token ids", done.err)

    def test_json_schema(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "schema.json"
            file.write_text('{"enum": ["ab"]}')
            done = run("run", MODEL, "abc", "--json-schema", file, "--max-tokens", "40")
            if done.code == 1 and "xgrammar" in done.err:
                self.skipTest("built without xgrammar")
            self.assertEqual((done.code, done.out), (0, '"ab"\n'), done.err)
            file.write_text('{"not": {}}')
            done = run("run", MODEL, "abc", "--json-schema", file)
            self.assertEqual((done.code, done.out), (1, ""))
            self.assertIn("#/not", done.err)

    def test_refused_prompts(self):
        done = run("run", MODEL, "--token-ids", "5,100000")
        self.assertEqual((done.code, done.out), (1, ""))
        self.assertIn("100000", done.err)
        done = run("run", MODEL, "abc " * 100, "--max-model-len", "32")
        self.assertEqual(done.code, 1)
        self.assertIn("32", done.err)

    def test_any_bytes_as_a_prompt(self):
        done = run("run", MODEL, "--max-tokens", "2", stdin=bytes(range(256)))
        self.assertEqual(done.code, 0, done.err)


class Sampling(unittest.TestCase):
    def answer(self, *options):
        done = run("run", MODEL, "abc", "--json", *options)
        self.assertEqual(done.code, 0, done.err)
        return done.json()

    def test_json_object(self):
        answer = self.answer(*GREEDY, "--max-tokens", "5")
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(len(answer["token_ids"]), 5)
        self.assertEqual(answer["usage"]["completion_tokens"], 5)
        self.assertRegex(answer["fingerprint"], "^fp_[0-9a-f]{16}$")
        self.assertGreater(answer["time_to_first_token_s"], 0)

    def test_seed(self):
        first = self.answer("--temperature", "2", "--max-tokens", "16", "--ignore-eos")
        seed = str(first["seed"])
        again = self.answer("--temperature", "2", "--max-tokens", "16", "--ignore-eos", "--seed", seed)
        self.assertEqual(again["token_ids"], first["token_ids"])
        other = self.answer("--temperature", "2", "--max-tokens", "16", "--ignore-eos", "--seed", "12345")
        self.assertNotEqual(other["token_ids"], first["token_ids"])

    def test_stops(self):
        free = self.answer(*GREEDY, "--max-tokens", "20")
        ids = free["token_ids"]
        stopped = self.answer(*GREEDY, "--max-tokens", "20", "--stop-token-id", str(ids[6]))
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertEqual(stopped["token_ids"], ids[:ids.index(ids[6]) + 1])
        text = free["text"]
        stop = text[len(text) // 2:len(text) // 2 + 3]
        stopped = self.answer(*GREEDY, "--max-tokens", "20", "--stop", "never there", "--stop", stop)
        self.assertEqual((stopped["text"], stopped["stop_string"]), (text[:text.index(stop)], stop))

    def test_logit_bias_and_penalties_change_the_answer(self):
        free = self.answer(*GREEDY, "--max-tokens", "12")
        first = free["token_ids"][0]
        banned = self.answer(*GREEDY, "--max-tokens", "12", "--logit-bias", f"{first}=-100")
        self.assertNotIn(first, banned["token_ids"])
        forced = self.answer(*GREEDY, "--max-tokens", "12", "--logit-bias", "77=100")
        self.assertEqual(forced["token_ids"], [77] * 12)

    def test_bits_do_not_depend_on_how_it_runs(self):
        options = [*GREEDY, "--max-tokens", "24"]
        expected = self.answer(*options)
        for more in (["--threads", "1"], ["--threads", "3"], ["--isa", "scalar"], ["--block-size", "64"], ["--mmap"]):
            with self.subTest(more):
                other = self.answer(*options, *more)
                self.assertEqual(other["token_ids"], expected["token_ids"])
                self.assertEqual(other["fingerprint"], expected["fingerprint"])
        bf16 = self.answer(*options, "--kv-dtype", "bf16")
        self.assertNotEqual(bf16["fingerprint"], expected["fingerprint"])


class Output(unittest.TestCase):
    def test_stats_line(self):
        done = run("run", MODEL, "abc", *GREEDY, "--max-tokens", "8")
        self.assertRegex(done.err, r"prompt tokens in [\d.]+ s .*tok/s.*, 8 tokens in .*first token after .*, length\n$")
        self.assertEqual(run("run", MODEL, "abc", *GREEDY, "--max-tokens", "8", "--quiet").err, "")

    def test_it_streams_and_an_interrupt_ends_it_cleanly(self):
        pipes = Pipes("run", MODEL, "abc", *GREEDY)
        self.assertTrue(pipes.read_some())  # while it is still writing
        self.assertIsNone(pipes.process.poll())
        pipes.interrupt()
        done = pipes.finish()
        self.assertEqual(done.code, 130)
        self.assertIn("cancelled", done.err)

    def test_a_closed_reader_ends_it(self):
        pipes = Pipes("run", MODEL, "abc", *GREEDY)
        pipes.read_some()
        pipes.process.stdout.close()
        self.assertIn(pipes.process.wait(timeout=60), (1, -signal.SIGPIPE))
        pipes.process.stdin.close()
        pipes.process.stderr.close()

    def test_nothing_but_the_answer_on_a_pipe(self):
        done = run("run", MODEL, "abc", *GREEDY, "--max-tokens", "8")
        text = run("run", MODEL, "abc", *GREEDY, "--max-tokens", "8", "--json").json()["text"]
        self.assertEqual(done.out, text if text.endswith("\n") else text + "\n")
        self.assertNotIn("\x1b", done.err)


class DummyWeights(unittest.TestCase):
    def test_only_config_json_is_needed(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(MODEL, "config.json").read_text()
            pathlib.Path(folder, "config.json").write_text(config)
            options = [folder, "--token-ids", "3,4", "--max-tokens", "3", "--ignore-eos", "--json"]
            self.assertEqual(run("run", *options).code, 1)
            done = run("run", *options, "--load-format", "dummy", "--config-override", "num_hidden_layers=2",
                       "--config-override", "first_k_dense_replace=1")
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(len(done.json()["token_ids"]), 3)
            done = run("run", *options, "--load-format", "dummy", "--config-override", "hidden_size=-1")
            self.assertEqual(done.code, 1)
            self.assertIn("hidden_size", done.err)


class Demo(unittest.TestCase):
    def test_demo_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "demo.jsonl"
            file.write_text('{"note": "what this is"}\n{"prompt": "abc", "answer": "no"}\n\n'
                            '{"messages": [{"role": "user", "content": "' + "x" * 1000 + '"}], "tools": null}\n')
            done = run("run", MODEL, "--demo", file, "--max-tokens", "4")
            self.assertEqual(done.code, 0, done.err)
            self.assertTrue(done.out.startswith("what this is\n\n> abc\n"), done.out)
            self.assertIn("(expected: no)", done.out)
            self.assertIn("more bytes)", done.out)
            self.assertIn("2 prompts", done.err)
            self.assertIn("0 of 1 answers as expected", done.err)
            file.write_text('{"prompt": "a"}\n{"promt": "b"}\n')
            done = run("run", MODEL, "--demo", file)
            self.assertEqual((done.code, done.out), (1, ""))
            self.assertIn("line 2", done.err)


if __name__ == "__main__":
    unittest.main()
