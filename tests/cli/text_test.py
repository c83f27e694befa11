"""tokenize, detokenize and render: the line protocol, vectors, hostile lines."""
import json
import pathlib
import tempfile
import unittest

from support import DATA, MODEL, Pipes, SOURCE, jsonl, run

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"


class Tokenize(unittest.TestCase):
    def ids(self, text, *options):
        done = run("tokenize", MODEL, text, "--json", *options)
        self.assertEqual(done.code, 0, done.err)
        return done.json()

    def test_all_forms_agree(self):
        text = "Hello, wörld! 你好\n  x"
        ids = self.ids(text)
        self.assertEqual(run("tokenize", MODEL, stdin=text).out, " ".join(map(str, ids)) + "\n")
        done = jsonl("tokenize", MODEL, [text, {"text": text}, {"text": text, "parse_special": True},
                                         {"text": text, "add_special_tokens": None}])
        self.assertEqual(done.json_lines(), [ids] * 4)
        pieces = run("tokenize", MODEL, text, "--pieces").lines()
        self.assertEqual([int(line.split()[0]) for line in pieces], ids)

    def test_special_tokens(self):
        done = jsonl("tokenize", MODEL, [
            BOS, {"text": BOS, "parse_special": False}, {"text": "a", "add_special_tokens": True}, "a"])
        special, plain, with_special, without = done.json_lines()
        self.assertEqual(len(special), 1)
        self.assertGreater(len(plain), 5)
        # tokenizer.json decides, as in the tokenizers library: V3's post-processor adds nothing.
        self.assertEqual(with_special, without)
        self.assertEqual(self.ids("a", "--add-special-tokens"), with_special)
        self.assertEqual(self.ids(BOS, "--plain"), plain)

    def test_empty_text(self):
        self.assertEqual(jsonl("tokenize", MODEL, ["", {"text": ""}]).json_lines(), [[], []])
        self.assertEqual(self.ids(""), [])

    def test_one_line_out_for_each_line_in(self):
        bad = [b"", b"not json", b"17", b"null", b'{"txt": "a"}', b'{"text": 5}', b'"\xff\xfe"', b'"\\ud800"',
               b"{", b"[1", b'{"text": "a", "parse_special": 1}', b'{"text": "a", "typo": true}',
               b"[" * 100000, b'{"a":' * 50000, b"\x00", b'"unterminated']
        lines = [b'"good"'] + bad + [b'"good"\r', b'"good"']
        done = run("tokenize", MODEL, "--jsonl", stdin=b"\n".join(lines))  # no line end after the last
        answers = done.json_lines()
        self.assertEqual(done.code, 1)
        self.assertEqual(len(answers), len(lines))
        self.assertEqual(answers[0], answers[-1])
        self.assertEqual(answers[0], answers[-2])
        for number, answer in enumerate(answers[1:-2], start=2):
            self.assertEqual(list(answer), ["error"])
            self.assertTrue(answer["error"].startswith(f"Line {number}: "), answer)
            self.assertLess(len(answer["error"]), 1000)

    def test_no_lines(self):
        done = run("tokenize", MODEL, "--jsonl", stdin="")
        self.assertEqual((done.code, done.out), (0, ""))

    def test_lines_are_answered_as_they_come(self):
        pipes = Pipes("tokenize", MODEL, "--jsonl")
        for text in ["a", "b", "a"]:
            self.assertEqual(json.loads(pipes.ask(json.dumps(text))), self.ids(text))
        self.assertEqual(pipes.finish().code, 0)

    def test_huge_lines(self):
        long_text = "word " * 200_000 + "x" * 200_000
        done = jsonl("tokenize", MODEL, [long_text, "a"])
        self.assertEqual(done.code, 0)
        ids, _ = done.json_lines()
        self.assertEqual(jsonl("detokenize", MODEL, [ids]).json_lines(), [long_text])
        done = run("tokenize", MODEL, "--jsonl", stdin=b'"' + b"y" * (65 << 20) + b'"\n"a"\n')
        first, second = done.json_lines()
        self.assertIn("longer than", first["error"])
        self.assertIsInstance(second, list)
        self.assertEqual(done.code, 1)

    def test_any_bytes_on_standard_input(self):
        done = run("tokenize", MODEL, stdin=bytes(range(256)) * 10)
        self.assertEqual(done.code, 0, done.err)

    def test_a_folder_without_tokenizer(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("tokenize", folder, "x")
            self.assertEqual(done.code, 1)
            self.assertIn(folder, done.err)


class Detokenize(unittest.TestCase):
    def test_round_trip(self):
        texts = ["Hello", "", "  two  spaces", "naïve 你好 🙂\n", "a\u0000b"]
        ids = jsonl("tokenize", MODEL, texts).json_lines()
        done = jsonl("detokenize", MODEL, ids)
        self.assertEqual((done.code, done.json_lines()), (0, texts))
        done = jsonl("detokenize", MODEL, [{"ids": one} for one in ids])
        self.assertEqual(done.json_lines(), texts)
        self.assertEqual(run("detokenize", MODEL, *ids[0]).out, "Hello\n")
        self.assertEqual(run("detokenize", MODEL, *ids[0], "--json").json(), "Hello")

    def test_output_is_utf8_json(self):
        ids = jsonl("tokenize", MODEL, ["你好"]).json_lines()[0]
        self.assertEqual(jsonl("detokenize", MODEL, [ids]).out, '"你好"\n')

    def test_special_tokens(self):
        ids = jsonl("tokenize", MODEL, [BOS + "hi" + EOS]).json_lines()[0]
        done = jsonl("detokenize", MODEL, [ids, {"ids": ids, "skip_special_tokens": True}])
        self.assertEqual(done.json_lines(), [BOS + "hi" + EOS, "hi"])
        done = jsonl("detokenize", MODEL, [ids], "--skip-special-tokens")
        self.assertEqual(done.json_lines(), ["hi"])

    def test_pieces_never_cut_a_character(self):
        ids = jsonl("tokenize", MODEL, ["a🙂b"]).json_lines()[0]
        whole, cut = jsonl("detokenize", MODEL, [ids, ids[:2]], "--pieces").json_lines()
        self.assertEqual("".join(whole), "a🙂b")
        self.assertEqual(len(whole), len(ids))
        self.assertIn("🙂", whole)
        self.assertEqual("".join(cut), "a\ufffd")
        done = run("detokenize", MODEL, *ids, "--pieces", "--json")
        self.assertEqual(done.json(), whole)

    def test_bad_lines(self):
        bad = ["5", '"text"', "[1.5]", '["1"]', "[-1]", "[99999999999]", "[18446744073709551615]", "[null]",
               '{"ids": null}', '{"ids": 5}', '{"tokens": []}', "[[1]]", '{"ids": [], "skip_special_tokens": 0}']
        done = run("detokenize", MODEL, "--jsonl", stdin="\n".join(bad) + "\n[]\n")
        answers = done.json_lines()
        self.assertEqual((done.code, len(answers), answers[-1]), (1, len(bad) + 1, ""))
        self.assertTrue(all(list(answer) == ["error"] for answer in answers[:-1]))

    def test_unknown_ids_give_nothing(self):
        self.assertEqual(jsonl("detokenize", MODEL, [[2147483647, 100000]]).json_lines(), [""])


class Render(unittest.TestCase):
    USER = [{"role": "user", "content": "Hi"}]

    def test_forms(self):
        done = jsonl("render", MODEL, [
            {"messages": self.USER}, {"messages": self.USER, "tools": None, "kwargs": None},
            {"messages": self.USER, "kwargs": {"add_generation_prompt": True}}])
        self.assertEqual(done.code, 0, done.err)
        plain, same, prompt = [line["text"] for line in done.json_lines()]
        self.assertEqual(plain, BOS + "<｜User｜>Hi")
        self.assertEqual(same, plain)
        self.assertEqual(prompt, BOS + "<｜User｜>Hi<｜Assistant｜>")
        done = run("render", MODEL, "Hi", "--system", "S")
        self.assertEqual(done.out, BOS + "S<｜User｜>Hi<｜Assistant｜>\n")

    def test_own_template_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "t.jinja"
            file.write_text("{% if kind is defined %}{{ kind }}{% endif %}[{{ messages[0]['content'] }}]"
                            "{% if messages|length > 1 %}{{ raise_exception('one only') }}{% endif %}")
            done = jsonl("render", MODEL, [{"messages": self.USER}, {"messages": self.USER * 2},
                                           {"messages": self.USER, "kwargs": {"kind": "né"}}],
                         "--chat-template", file)
            self.assertEqual(done.code, 0)  # a template that raises is an answer
            first, raised, kind = done.json_lines()
            self.assertEqual((first, kind), ({"text": "[Hi]"}, {"text": "né[Hi]"}))
            self.assertEqual(list(raised), ["error"])
            self.assertIn("one only", raised["error"])
            file.write_text("{% nonsense %}")
            done = jsonl("render", MODEL, [{"messages": self.USER}], "--chat-template", file)
            self.assertEqual(done.code, 1)
            self.assertIn("nonsense", done.err)
            self.assertEqual(run("render", MODEL, "x", "--chat-template", folder + "/none").code, 1)

    def test_bad_lines(self):
        bad = ["", "[]", "{}", '{"messages": "x"}', '{"messages": [], "kwargs": []}', '{"message": []}', "nope",
               '{"messages": [], "tools": 5}']
        done = run("render", MODEL, "--jsonl", stdin="\n".join(bad) + "\n")
        answers = done.json_lines()
        self.assertEqual((done.code, len(answers)), (1, len(bad)))
        self.assertTrue(all(list(answer) == ["error"] for answer in answers))


if __name__ == "__main__":
    unittest.main()
