"""chat: through a pipe and on a terminal."""
import json
import pathlib
import tempfile
import unittest

from support import MODEL, Terminal, run

OPTIONS = [MODEL, "--temperature", "0", "--ignore-eos", "--max-tokens", "6"]


class Piped(unittest.TestCase):
    def chat(self, text, *options):
        return run("chat", *OPTIONS, *options, stdin=text)

    def test_turns_build_on_one_another(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "talk.json"
            done = self.chat(f"first\nsecond\n/save {file}\n", "--system", "S", "--quiet")
            self.assertEqual(done.code, 0, done.err)
            self.assertIn(f"fathom: saved to {file}\n", done.err)
            messages = json.loads(file.read_text())
            self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
            self.assertEqual([messages[i]["content"] for i in (0, 1, 3)], ["S", "first", "second"])
            answers = messages[2]["content"] + "\n" + messages[4]["content"] + "\n"
            self.assertEqual(done.out, answers)

    def test_reset_and_system_start_afresh(self):
        once = self.chat("first\n", "--quiet").out
        self.assertEqual(self.chat("first\n/reset\nfirst\n", "--quiet").out, once * 2)
        with_system = self.chat("first\n", "--quiet", "--system", "S").out
        self.assertEqual(self.chat("first\n/system S\nfirst\n/system\nfirst\n", "--quiet").out,
                         once + with_system + once)

    def test_commands(self):
        done = self.chat("/help\n/nonsense\n/save\n/quit\nnot reached\n")
        self.assertEqual(done.code, 0)
        self.assertIn("/reset", done.out)
        self.assertIn("unknown command /nonsense", done.err)
        self.assertIn("/save needs", done.err)
        self.assertNotIn("prompt tokens", done.err)

    def test_save_that_fails(self):
        done = self.chat("/save /no/such/folder/file\n")
        self.assertEqual(done.code, 1)
        self.assertIn("/no/such/folder/file", done.err)

    def test_a_long_line_continues_after_a_backslash(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "talk.json"
            self.chat(f"one\\\ntwo\n/save {file}\n")
            self.assertEqual(json.loads(file.read_text())[0]["content"], "one\ntwo")

    def test_a_full_context_is_a_message(self):
        done = self.chat("abc\n" + "abc " * 200 + "\nabc\n", "--max-model-len", "64", "--quiet")
        self.assertEqual(done.code, 1)
        self.assertIn("taken back", done.err)
        self.assertEqual(self.chat("abc\nabc\n", "--max-model-len", "64", "--quiet").out, done.out)

    def test_no_input_and_odd_input(self):
        self.assertEqual(self.chat("").code, 0)
        done = run("chat", *OPTIONS, stdin=b"\xff\xfe\x00\n\n  \nabc")
        self.assertEqual(done.code, 0, done.err)


class OnATerminal(unittest.TestCase):
    def start(self, *options):
        terminal = Terminal("chat", MODEL, "--temperature", "0", "--ignore-eos", *options)
        terminal.wait_for("> ")
        return terminal

    def test_ctrl_d_leaves(self):
        terminal = self.start("--max-tokens", "4")
        terminal.type("hello\r")
        terminal.wait_for("prompt tokens")
        terminal.wait_for("> ")
        terminal.type("\x04")
        self.assertEqual(terminal.finish(), 0)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.start()
        terminal.type("hello\r")
        terminal.wait_for("hello\r\n")
        terminal.wait_for("a")  # it answers
        terminal.type("\x03")
        terminal.wait_for("(answer stopped)")
        terminal.wait_for("> ")
        terminal.type("/quit\r")
        self.assertEqual(terminal.finish(), 0)

    def test_ctrl_c_at_the_prompt_drops_the_line(self):
        terminal = self.start("--max-tokens", "4")
        terminal.type("half a line")
        terminal.wait_for("half a line")
        terminal.type("\x03")
        terminal.wait_for("> ")
        terminal.type("/help\r")
        terminal.wait_for("/reset")
        terminal.type("/quit\r")
        self.assertEqual(terminal.finish(), 0)

    def test_editing_and_history(self):
        terminal = self.start("--max-tokens", "4")
        terminal.type("/nonsens\x7f\x7fX\r")  # two backspaces
        terminal.wait_for("unknown command /nonseX;")
        terminal.wait_for("> ")
        terminal.type("\x1b[A\r")  # cursor up
        terminal.wait_for("unknown command /nonseX;")
        terminal.wait_for("> ")
        terminal.type("/quit\r")
        self.assertEqual(terminal.finish(), 0)

    def test_utf8_input(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "talk.json"
            terminal = self.start("--max-tokens", "4")
            terminal.type("né 你好\r")
            terminal.wait_for("prompt tokens")
            terminal.wait_for("> ")
            terminal.type(f"/save {file}\r")
            terminal.wait_for("saved")
            terminal.type("\x04")
            self.assertEqual(terminal.finish(), 0)
            self.assertEqual(json.loads(file.read_text())[0]["content"], "né 你好")


if __name__ == "__main__":
    unittest.main()
