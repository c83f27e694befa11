"""bench: the form of its figures (never their size)."""
import unittest

from support import CONFIG_ONLY, MODEL, run

QUICK = ["--repeat", "1", "--batch", "1,4", "--prompt", "16,40"]


class Bench(unittest.TestCase):
    def test_json(self):
        done = run("bench", MODEL, "--json", *QUICK)
        self.assertEqual(done.code, 0, done.err)
        report = done.json()
        self.assertGreater(report["machine"]["read_bandwidth_bytes_per_s"], 1e8)
        self.assertGreater(report["machine"]["fma_peak_flop_per_s"], 1e8)
        self.assertEqual([entry["batch"] for entry in report["decode"]], [1, 4])
        self.assertEqual([entry["tokens"] for entry in report["prefill"]], [16, 40])
        for entry in report["decode"] + report["prefill"]:
            self.assertGreater(entry["tok_per_s"], 0)
        one, four = [entry["weight_bytes_per_step"] for entry in report["decode"]]
        self.assertLess(one, four)  # more rows touch more experts
        self.assertLess(four, report["load"]["weight_bytes"])
        self.assertGreater(report["peak_rss_bytes"], report["load"]["weight_bytes"])

    def test_table_from_dummy_weights(self):
        done = run("bench", CONFIG_ONLY, "--load-format", "dummy", *QUICK, "--config-override", "num_hidden_layers=2",
                   "--config-override", "n_routed_experts=8", "--config-override", "hidden_size=256",
                   "--config-override", "vocab_size=1000")
        self.assertEqual(done.code, 0, done.err)
        for text in ("decode, batch 1", "prefill, 40 tokens", "GB/s", "GFLOP/s", "FMA peak"):
            self.assertIn(text, done.out)

    def test_prompts_beyond_the_context_are_left_out(self):
        done = run("bench", MODEL, "--json", *QUICK, "--config-override", "max_position_embeddings=32",
                   "--config-override", "rope_scaling=null", "--batch", "1")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual([entry["tokens"] for entry in done.json()["prefill"]], [16])
        self.assertIn("left out", done.err)


if __name__ == "__main__":
    unittest.main()
