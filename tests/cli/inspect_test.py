"""inspect: published counts from config.json alone, headers, memory plans."""
import json
import pathlib
import shutil
import tempfile
import unittest

from support import CONFIG_ONLY, DATA, MODEL, run

V3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False,
    "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
    "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
    "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [128, 128]}}
V2 = {key: value for key, value in V3.items() if key not in ("quantization_config", "num_nextn_predict_layers")}
V2.update(architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", hidden_size=5120,
          intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=60, n_routed_experts=160,
          n_shared_experts=2, num_experts_per_tok=6, topk_group=3, topk_method="group_limited_greedy",
          scoring_func="softmax", norm_topk_prob=False, routed_scaling_factor=16.0, first_k_dense_replace=1,
          vocab_size=102400)


class FromConfigAlone(unittest.TestCase):
    def inspect(self, config, *options):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            done = run("inspect", folder, *options)
            self.assertEqual(done.code, 0, done.err)
            return done

    def assert_billions(self, report, total, active):
        self.assertAlmostEqual(report["parameters"]["total"] / 1e9, total, delta=0.5)
        self.assertAlmostEqual(report["parameters"]["active"] / 1e9, active, delta=0.5)

    def test_published_counts(self):
        report = self.inspect(V3, "--json").json()
        self.assert_billions(report, 671, 37)
        self.assertAlmostEqual(report["parameters"]["mtp"] / 1e9, 11.6, delta=0.1)
        self.assertEqual(report["memory"]["kv_bytes_per_token"], {"f32": 61 * 576 * 4, "bf16": 61 * 576 * 2})
        self.assert_billions(self.inspect(V2, "--json").json(), 236, 21)
        report = run("inspect", CONFIG_ONLY, "--json").json()
        self.assertEqual(round(report["parameters"]["total"] / 1e9, 1), 15.7)
        self.assertEqual(round(report["parameters"]["active"] / 1e9, 1), 2.4)

    def test_it_says_what_is_missing(self):
        done = self.inspect(V2)
        self.assertIn("236 B total", done.out)
        self.assertRegex(done.out, r"missing +tokenizer.json, tokenizer_config.json, generation_config.json, weights")
        report = self.inspect(V2, "--json").json()
        self.assertEqual(report["checkpoint"]["status"], "missing")
        self.assertIn("weights", report["missing"])

    def test_memory_plan(self):
        small = self.inspect(V2, "--json", "--context", "1000").json()["memory"]
        self.assertEqual((small["context"], small["fits"]), (1000, False))
        self.assertEqual(small["kv_bytes"]["f32"], 1000 * 60 * 576 * 4)
        self.assertEqual(small["needed_bytes"],
                         small["weight_bytes"] + small["kv_bytes"]["f32"] + small["workspace_bytes"])

    def test_overrides(self):
        report = run("inspect", CONFIG_ONLY, "--json", "--config-override", "n_routed_experts=8").json()
        self.assertAlmostEqual(report["parameters"]["total"] / 1e9, 3.11, delta=0.01)

    def test_refused_configs(self):
        for change, names in [({"model_type": "gpt5", "architectures": ["GptForCausalLM"]}, "gpt5"),
                              ({"topk_method": "magic"}, "topk_method"), ({"hidden_size": "big"}, "hidden_size"),
                              ({"num_hidden_layers": 10**9}, "num_hidden_layers")]:
            with self.subTest(change), tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "config.json").write_text(json.dumps({**V3, **change}))
                done = run("inspect", folder)
                self.assertEqual((done.code, done.out), (1, ""))
                self.assertIn(names, done.err)


class WithWeights(unittest.TestCase):
    def test_tensor_table_and_check(self):
        done = run("inspect", MODEL, "--tensors")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("every tensor that config.json asks for is there", done.out)
        self.assertIn("model.layers.1.mlp.experts.0.gate_proj.weight", done.out)
        report = run("inspect", MODEL, "--tensors", "--json").json()
        checkpoint = report["checkpoint"]
        self.assertEqual((checkpoint["status"], checkpoint["files"]), ("complete", 3))
        self.assertEqual(len(checkpoint["tensor_table"]), checkpoint["tensors"])
        self.assertEqual(sum(entry["tensors"] for entry in checkpoint["dtypes"].values()), checkpoint["tensors"])
        self.assertEqual(sum(row["bytes"] for row in checkpoint["tensor_table"]), checkpoint["bytes"])

    def test_fp8_dtype_mix(self):
        report = run("inspect", DATA / "golden" / "v3-fp8", "--json").json()
        self.assertLessEqual({"F8_E4M3", "BF16", "F32"}, set(report["checkpoint"]["dtypes"]))

    def test_weights_that_do_not_fit_are_a_failure(self):
        done = run("inspect", MODEL, "--config-override", "hidden_size=64")
        self.assertEqual(done.code, 1)
        self.assertIn("model.embed_tokens.weight", done.out)
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent) / "m"
            shutil.copytree(MODEL, folder)
            (folder / "model-00002-of-00003.safetensors").unlink()
            done = run("inspect", folder, "--json")
            self.assertEqual(done.code, 1)
            self.assertIn("model-00002-of-00003.safetensors", done.json()["checkpoint"]["problem"])

    def test_huggingface_cache(self):
        with tempfile.TemporaryDirectory() as cache:
            repo = pathlib.Path(cache) / "models--some--model"
            snapshot = repo / "snapshots" / ("ab" * 20)
            snapshot.parent.mkdir(parents=True)
            shutil.copytree(MODEL, snapshot)
            (repo / "refs").mkdir()
            (repo / "refs" / "main").write_text("ab" * 20)
            environment = {"HF_HUB_CACHE": cache}
            for name in ("some/model", "some/model@main", "some/model@ababab", str(repo), str(snapshot)):
                with self.subTest(name):
                    done = run("inspect", name, "--json", environment=environment)
                    self.assertEqual(done.code, 0, done.err)
                    self.assertEqual(done.json()["folder"], str(snapshot))
            done = run("inspect", "some/other", environment=environment)
            self.assertEqual(done.code, 1)
            self.assertIn(cache, done.err)


if __name__ == "__main__":
    unittest.main()
