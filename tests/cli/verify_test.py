"""verify: the checklist and comparisons with reference files."""
import json
import pathlib
import shutil
import struct
import tempfile
import unittest

from support import CONFIG_ONLY, DATA, MODEL, run

GOLDEN = DATA / "golden"
REFERENCE = GOLDEN / "v3" / "golden.safetensors"
QUICK = ["--context", "600"]


class Checklist(unittest.TestCase):
    def test_table(self):
        done = run("verify", MODEL, *QUICK)
        self.assertEqual(done.code, 0, done.out + done.err)
        for check in ("every weight loaded", "finite logits", "batched = alone (bits)", "chunked = whole (bits)",
                      "other page sizes (bits)", "other thread count (bits)", "generation reaches max_tokens",
                      "temperature-0 runs equal", "memory after 100 requests", "100-token speed",
                      "a prompt at the full context"):
            self.assertRegex(done.out, r"(?m)^" + check.replace("(", r"\(").replace(")", r"\)") + " +ok ")
        self.assertIn("0 failed", done.out)
        self.assertNotIn("\x1b", done.out + done.err)

    def test_json_of_a_model_without_tokenizer(self):
        done = run("verify", GOLDEN / "r1-distill-qwen", "--json", "--kv-dtype", "bf16", "--block-size", "32", *QUICK)
        self.assertEqual(done.code, 0, done.out + done.err)
        report = done.json()
        self.assertTrue(report["passed"])
        self.assertEqual({check["result"] for check in report["checks"]}, {"ok"})

    def test_missing_weights_fail(self):
        done = run("verify", CONFIG_ONLY)
        self.assertEqual(done.code, 1)
        self.assertRegex(done.out, r"every weight loaded +FAILED")
        self.assertEqual(run("verify", CONFIG_ONLY, "--json").json()["passed"], False)

    def test_nan_weights_fail(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent) / "m"
            shutil.copytree(GOLDEN / "r1-distill-qwen", folder)
            file = folder / "model.safetensors"
            data = bytearray(file.read_bytes())
            length = struct.unpack("<Q", data[:8])[0]
            begin = json.loads(data[8:8 + length])["model.norm.weight"]["data_offsets"][0]
            data[8 + length + begin:8 + length + begin + 2] = b"\xc0\x7f"  # a bf16 NaN
            file.write_bytes(data)
            done = run("verify", folder, *QUICK)
            self.assertEqual(done.code, 1)
            self.assertRegex(done.out, r"finite logits +FAILED")


class Reference(unittest.TestCase):
    def test_passes_and_names_what_it_did_not_check(self):
        done = run("verify", MODEL, "--reference", REFERENCE)
        self.assertEqual(done.code, 0, done.out + done.err)
        for name in ("logits", "hidden.embed", "hidden.3", "hidden.norm", "router.1.ids", "long.logits", "gen.3"):
            self.assertRegex(done.out, r"(?m)^" + name.replace(".", r"\.") + " +ok ")
        report = run("verify", MODEL, "--reference", REFERENCE, "--json").json()
        self.assertTrue(report["passed"])
        self.assertTrue(any(entry["name"].startswith("mtp.") for entry in report["not_checked"]))
        logits = next(check for check in report["checks"] if check["name"] == "logits")
        self.assertLess(logits["mae"], 1e-5)

    def test_another_models_reference_fails(self):
        done = run("verify", GOLDEN / "v1-dense", "--reference", GOLDEN / "r1-distill-llama" / "golden.safetensors")
        self.assertEqual(done.code, 1)

    def test_a_changed_model_fails_and_the_first_layer_is_named(self):
        done = run("verify", MODEL, "--reference", REFERENCE, "--json", "--config-override",
                   "routed_scaling_factor=2.4")
        self.assertEqual(done.code, 1)
        report = done.json()
        self.assertFalse(report["passed"])
        self.assertEqual(report["first_bad_layer"], 1)  # the first with experts

    def test_damaged_reference(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "r.safetensors"
            for data in (b"", b"x" * 100, REFERENCE.read_bytes()[:5000], struct.pack("<Q", 2) + b"{}"):
                file.write_bytes(data)
                done = run("verify", MODEL, "--reference", file)
                self.assertEqual((done.code, done.out), (1, ""))
                self.assertTrue(done.err.startswith("fathom: error: "), done.err)
            missing = run("verify", MODEL, "--reference", folder + "/none")
            self.assertEqual(missing.code, 1)
            self.assertIn("cannot open", missing.err)


if __name__ == "__main__":
    unittest.main()
