"""Help, version and exit codes: 0 for help, 1 for what fails while running, 2 for wrong usage."""
import unittest

from support import CONFIG_ONLY, MODEL, Terminal, run

COMMANDS = ["run", "chat", "inspect", "tokenize", "detokenize", "render", "verify", "bench", "serve", "replay"]


class Help(unittest.TestCase):
    def test_every_command_has_help_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                done = run(command, "--help")
                self.assertEqual(done.code, 0)
                self.assertIn("Examples:", done.out)
                self.assertIn(f"fathom {command}", done.out)
                self.assertEqual(done.err, "")

    def test_general_help_lists_the_commands(self):
        done = run("--help")
        self.assertEqual(done.code, 0)
        for command in COMMANDS:
            self.assertIn(command, done.out)

    def test_version(self):
        done = run("--version")
        self.assertEqual(done.code, 0)
        self.assertRegex(done.out, r"^fathom \d+\.\d+\.\d+\n$")

    def test_no_command_prints_help_to_stderr(self):
        done = run()
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("tokenize", done.err)


class WrongUsage(unittest.TestCase):
    def assert_usage_error(self, *arguments, says=""):
        with self.subTest(arguments):
            done = run(*arguments)
            self.assertEqual(done.code, 2, done.err)
            self.assertEqual(done.out, "")
            self.assertTrue(done.err.startswith("fathom: error: "), done.err)
            self.assertIn(says, done.err)

    def test_unknown_command_and_option(self):
        self.assert_usage_error("fly", says="fly")
        self.assert_usage_error("--log-level", "error", "fly", says="fly")
        self.assert_usage_error("--fly", says="--fly")
        for command in COMMANDS:
            log = ["requests.jsonl"] if command == "replay" else []
            self.assert_usage_error(command, MODEL, *log, "--no-such-option", says="--no-such-option")

    def test_missing_model(self):
        for command in COMMANDS:
            self.assert_usage_error(command, says="MODEL")

    def test_values_out_of_range(self):
        for option, value in [("--temperature", "-1"), ("--temperature", "warm"), ("--top-p", "0"),
                              ("--top-p", "1.5"), ("--top-k", "-2"), ("--min-p", "2"), ("--max-tokens", "0"),
                              ("--repetition-penalty", "0"), ("--presence-penalty", "3"),
                              ("--frequency-penalty", "-3"), ("--seed", "-1"), ("--seed", "x"),
                              ("--seed", "18446744073709551616"), ("--seed", "+1"), ("--seed", "1.5"),
                              ("--kv-memory", "-5"), ("--kv-memory", "99999999999999999999"),
                              ("--kv-memory", "MiB"),
                              ("--stop-token-id", "-5"), ("--logit-bias", "5"), ("--logit-bias", "x=1"),
                              ("--threads", "-1"), ("--kv-dtype", "int3"), ("--block-size", "7"),
                              ("--load-format", "gguf"), ("--config-override", "novalue"), ("--isa", "sse"),
                              ("--kv-memory", "lots"), ("--max-model-len", "-1"), ("--temperature", "nan"),
                              ("--template-kwarg", "a=b"), ("--template-kwarg", "a")]:
            self.assert_usage_error("run", MODEL, "hello", option + "=" + value, says=option)

    def test_options_that_contradict(self):
        self.assert_usage_error("run", MODEL, "x", "--min-tokens", "5", "--max-tokens", "4", says="--min-tokens")
        self.assert_usage_error("chat", MODEL, "--min-tokens", "5", "--max-tokens", "4", says="--min-tokens")
        self.assert_usage_error("run", MODEL, "x", "--file", "y", says="only one")
        self.assert_usage_error("run", MODEL, "x", "--raw", "--system", "s", says="--system")
        self.assert_usage_error("run", MODEL, "x", "--stop=", says="--stop")
        self.assert_usage_error("tokenize", MODEL, "text", "--jsonl")
        self.assert_usage_error("detokenize", MODEL, "1", "--jsonl")
        self.assert_usage_error("detokenize", MODEL, says="IDS")
        self.assert_usage_error("detokenize", MODEL, "5000000000")
        self.assert_usage_error("verify", MODEL, "--time-limit", "-1")
        self.assert_usage_error("bench", MODEL, "--batch", "0")

    def test_run_without_a_prompt_on_a_terminal(self):
        terminal = Terminal("run", MODEL)
        self.assertIn("give a prompt", terminal.wait_for("--help"))
        self.assertEqual(terminal.finish(), 2)


class Failures(unittest.TestCase):
    def test_no_such_model(self):
        for command, *more in [("run", "hello"), ("chat",), ("inspect",), ("tokenize", "x"), ("detokenize", "1"),
                               ("render", "x"), ("verify",), ("bench",)]:
            with self.subTest(command):
                done = run(command, "/no/such/model", *more)
                self.assertEqual((done.code, done.out), (1, ""))
                self.assertIn("/no/such/model", done.err)

    def test_a_model_without_weights(self):
        done = run("run", CONFIG_ONLY, "hello")
        self.assertEqual((done.code, done.out), (1, ""))
        self.assertIn("safetensors", done.err)

    def test_full_disk(self):
        import subprocess

        from support import FATHOM
        with open("/dev/full", "wb") as full:
            done = subprocess.run([FATHOM, "tokenize", MODEL, "hello"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    unittest.main()
