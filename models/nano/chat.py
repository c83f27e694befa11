"""The chat format: messages to text pieces and token ids, and the Jinja template that renders the same text."""
import json
import re

BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
CALLS_BEGIN, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
OUTS_BEGIN, OUTS_END = "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"
OUT_BEGIN, OUT_END = "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"
SEP = "<｜tool▁sep｜>"
ADDED_TOKENS = [USER, ASSISTANT, "<|EOT|>", CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, OUTS_BEGIN, OUTS_END, OUT_BEGIN,
                OUT_END, SEP, "<think>", "</think>"]

TEMPLATE = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(is_first=true, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}"
    "{%- for message in messages %}{%- if message['role'] == 'system' %}"
    "{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}"
    "{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}"
    "{%- endif %}{%- endfor %}"
    "{{bos_token}}{{ns.system_prompt}}"
    "{%- if tools %}{{'\n\n## Tools\n'}}{%- for tool in tools %}{{(tool | tojson) + '\n'}}{%- endfor %}{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}"
    "{%- if message['role'] == 'assistant' %}"
    "{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{%- else %}{{'<｜Assistant｜>'}}{%- endif %}{%- set ns.is_tool = false -%}"
    "{%- if message['content'] %}{{message['content']}}{%- endif %}"
    "{%- if message['tool_calls'] %}{%- set ns.is_first = true -%}"
    "{%- for tool in message['tool_calls'] %}"
    "{%- if ns.is_first %}{{'<｜tool▁calls▁begin｜>'}}{%- set ns.is_first = false -%}{%- else %}{{'\n'}}{%- endif %}"
    "{{'<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n'}}"
    "{%- if tool['function']['arguments'] is string %}{{tool['function']['arguments']}}"
    "{%- else %}{{tool['function']['arguments'] | tojson}}{%- endif %}"
    "{{'\n' + '```' + '<｜tool▁call▁end｜>'}}{%- endfor %}{{'<｜tool▁calls▁end｜>'}}{%- endif %}"
    "{{'<｜end▁of▁sentence｜>'}}{%- endif %}"
    "{%- if message['role'] == 'tool' %}{%- if not ns.is_tool %}{{'<｜tool▁outputs▁begin｜>'}}{%- else %}{{'\n'}}{%- endif %}"
    "{%- set ns.is_tool = true -%}{{'<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- endif %}"
    "{%- endfor -%}"
    "{% if ns.is_tool and add_generation_prompt %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}"
    "{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜>'}}{% endif %}"
)


def turns(*texts):
    """Alternating user and assistant messages."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": t} for i, t in enumerate(texts)]


def to_json(value):
    return json.dumps(value, ensure_ascii=False)


def call_text(function_name, arguments):
    """The assistant turn that calls one function, in DeepSeek-V3's form."""
    return f"{CALLS_BEGIN}{CALL_BEGIN}function{SEP}{function_name}\n```json\n{to_json(arguments)}\n```{CALL_END}{CALLS_END}"


def assistant_text(message):
    """An assistant message as the model has to write it, without the end token."""
    text = message.get("content") or ""
    for call in message.get("tool_calls", []):
        text += call_text(call["function"]["name"], json.loads(call["function"]["arguments"]))
    return text


def render(messages, tools=None):
    """Messages as (text, is_answer) pieces that join to what TEMPLATE renders; an answer piece includes EOS."""
    head = BOS + "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    if tools:
        head += "\n\n## Tools\n" + "".join(to_json(t) + "\n" for t in tools)
    pieces = [(head, False)]
    for m in messages:
        if m["role"] == "user":
            pieces.append((USER + m["content"] + ASSISTANT, False))
        elif m["role"] == "tool":
            pieces.append((OUTS_BEGIN + OUT_BEGIN + m["content"] + OUT_END + OUTS_END, False))
        elif m["role"] == "assistant":
            pieces.append((assistant_text(m) + EOS, True))
    return pieces


class FastEncoder:
    """Same ids as the tokenizer, from a cache of runs: no merge crosses from letters to punctuation, digits or space."""

    _SPECIAL = re.compile("(" + "|".join(re.escape(t) for t in [BOS, EOS, PAD] + ADDED_TOKENS) + ")")
    _RUN = re.compile(r"[A-Za-z]+|[^\sA-Za-z0-9]+|.", re.S)

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.special = {t: tokenizer.token_to_id(t) for t in [BOS, EOS, PAD] + ADDED_TOKENS}
        self.cache = {}

    def _run(self, run):
        ids = self.tokenizer.encode(run, add_special_tokens=False).ids
        if len(self.cache) > 400_000:
            self.cache.clear()
        self.cache[run] = ids
        return ids

    def plain(self, text):
        """Ids of text without special tokens."""
        out, cache = [], self.cache
        for run in self._RUN.findall(text):
            out += cache.get(run) or self._run(run)
        return out

    def encode(self, text):
        out = []
        for part in self._SPECIAL.split(text):
            if part in self.special:
                out.append(self.special[part])
            elif part:
                out += self.plain(part)
        return out
