"""docs/serving.md and the Grafana dashboard name exactly the metrics that the server exports."""
import json
import re
import unittest

from support import SOURCE, Server, Stream

SUFFIX = re.compile(r"_(bucket|sum|count)$")


class Deploy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server() as server:
            Stream(server, max_tokens=3).all()
            text = server.get("/metrics").body.decode()
        cls.exported = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        cls.series = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
        cls.text = text

    def test_the_table_is_what_is_exported(self):
        documented = dict(re.findall(r"^\| `([a-z_:]+)` \| (counter|gauge|histogram) \|",
                                     (SOURCE / "docs" / "serving.md").read_text(), re.M))
        self.assertEqual(documented, self.exported)

    def test_the_dashboard_asks_for_what_is_exported(self):
        dashboard = json.loads((SOURCE / "docs" / "deploy" / "grafana-dashboard.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        asked = {name for text in expressions for name in re.findall(r"([a-z_:]+)\{instance", text)}
        self.assertGreater(len(asked), 20)
        self.assertEqual(asked - self.series, set())
        for expression in expressions:
            self.assertEqual(expression.count("("), expression.count(")"))

    def test_every_metric_has_help_and_valid_lines(self):
        for name in self.exported:
            self.assertRegex(self.text, rf"# HELP {name} \S")
        for line in self.text.splitlines():
            if not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_:]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.eE+-]+$')

    def test_counters_end_in_total(self):
        for name, kind in self.exported.items():
            self.assertEqual(kind == "counter", name.endswith("_total"), name)


if __name__ == "__main__":
    unittest.main()
