#!/usr/bin/env python3
"""Renders the cases of the template interpreter's tests with Jinja itself.

Needs jinja2 3.1.6. Reads expressions.txt and statements.txt beside it, prints cases.json: a list of
{"t": template, "v": index into "variables", "o": text} or, where Python raises, {"t", "v", "e": message}.
The environment is the one transformers 5.24.0 renders chat templates in.
"""
import datetime
import json
import pathlib
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 3, 7, 9, 5, 3)
VARIABLES = [
    {"s": "Hello, wörld! 你好", "n": 5, "f": 2.5, "l": [3, 1, 2], "ls": ["b", "A", "c"],
     "d": {"k": "v", "items": 1, "b": [1, 2]}, "e": "", "el": [], "z": None, "t": True,
     "objs": [{"n": "x", "v": 1}, {"n": "y", "v": 2, "o": {"p": 3}}, {"n": "X", "v": 1}],
     "big": 123456789012345678, "html": "<a href='x'>&\"</a>",
     "nested": {"a": [1, {"b": None, "c": True, "d": 1.0, "e": "é\"\\\n\u2028"}], "x": {}}},
    {"a": "c", "tree": [{"v": 1, "c": [{"v": 2}]}, {"v": 3}],
     "msgs": [{"role": "system", "content": " be brief "}, {"role": "user", "content": "hi"},
              {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}]},
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _body(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore-prefixed attribute " + name)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime,
                       dict=TemplateDict(), namespace=TemplateNamespace)
    return env


def parts(line):
    """Splits at commas outside brackets and quotes: each expression alone, so that none hides another."""
    out, current, depth, quote, i = [], "", 0, None, 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                current += line[i:i + 2]
                i += 2
                continue
            if c == quote:
                quote = None
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(current)
            current = ""
            i += 1
            continue
        current += c
        i += 1
    return [p for p in out + [current] if p.strip()]


def templates():
    for line in (HERE / "expressions.txt").read_text(encoding="utf-8").split("\n"):
        for x in parts(line):
            yield "{{ " + x + " }}", 0
            yield "{{ [" + x + "] }}|{{ (" + x + ") is iterable }}", 0
            yield "{% for i in " + x + " %}{{ i }}{{ loop.last }}{% else %}E{% endfor %}", 0
            yield "{% set q = " + x + " %}{{ q|tojson }}{{ q|length }}", 0
    operators = "+ - * / // % ** < <= == != in and or ~".split() + ["not in"]
    left = ["1", "-7", "1.5", '"a"', '"%s"', "[1]", "(1,)", "{}", '{"a":1}', "none", "true", "u",
            "range(2)", '"a"|e']
    right = ["2", "2.5", '"a"', '[1,"a"]', "(1,)", "{}", "none", "u", "range(2)", '"<"|e']
    for op in operators:
        for x in left:
            for y in right:
                yield "{{ %s %s %s }}" % (x, op, y), 0
    for block in (HERE / "statements.txt").read_text(encoding="utf-8").split("\n====\n"):
        yield block, 1


def main():
    warnings.simplefilter("ignore")
    env, cases = environment(), []
    for template, v in templates():
        try:
            text = env.from_string(template).render(**VARIABLES[v])
        except Exception as error:
            if isinstance(error, NameError):
                continue  # jinja2 folds inf and nan into code that Python cannot run
            cases.append({"t": template, "v": v, "e": type(error).__name__ + ": " + str(error)})
            continue
        if " at 0x" not in text and "<class " not in text and "joiner" not in template:
            cases.append({"t": template, "v": v, "o": text})
    print(json.dumps({"variables": VARIABLES, "cases": cases}, ensure_ascii=True, separators=(",", ":")))


if __name__ == "__main__":
    main()
