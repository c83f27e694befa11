"""schemathesis: requests drawn from /openapi.json; answers have documented statuses and forms, and none is a 500."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
from base import ClientTest

# Small answers, so that the time goes into requests.
ARGUMENTS = ["--max-model-len", 128, "--served-model-name", "nano", "--log-level", "error"]
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


class OpenApi(ClientTest):
    ARGUMENTS = ARGUMENTS

    def test_the_description_is_valid(self):
        described = self.server.get("/openapi.json").json()
        self.assertTrue(described["openapi"].startswith("3.1"))
        for path in described["paths"].values():
            for operation in path.values():
                for kind in operation.get("requestBody", {}).get("content", {}).values():
                    if "$ref" not in kind["schema"]:
                        jsonschema.Draft202012Validator.check_schema(kind["schema"])
        for schema in described.get("components", {}).get("schemas", {}).values():
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_drawn_requests(self):
        seconds = os.environ.get("FATHOM_SCHEMATHESIS_SECONDS", "30")
        command = [sys.executable, "-m", "schemathesis.cli", "run", self.url + "/openapi.json", "--checks", CHECKS,
                   "--max-examples", "25", "--max-time", seconds, "--phases", "examples,coverage,fuzzing",
                   "--suppress-health-check", "all", "--seed", "1", "--no-shrink", "--no-color", "--warnings", "off",
                   "--request-timeout", "30", "--generation-database", "none", "--continue-on-failure"]
        with tempfile.TemporaryDirectory() as folder:  # it leaves a cache where it runs
            done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
        generated = re.search(r"([\d,]+) generated", done.stdout)
        self.assertGreater(int(generated[1].replace(",", "")), 50, done.stdout[-1000:])
        self.wait_idle()
        self.assertEqual(self.server.get("/health").status, 200)
        self.assertEqual(json.loads(self.server.complete(model="nano", max_tokens=1).body)["object"], "text_completion")


if __name__ == "__main__":
    unittest.main()
