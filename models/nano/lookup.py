"""Look-up documents: a list of `key: value` lines of a wanted token length and questions about single lines."""
import zlib

import words as w
from tasks import HELD_OUT

LINE = ["Look up {k}.", "Look up {k}", "Find the line of {k}.", "Which line has {k}?"]
VALUE = ["What is the value of {k}?", "Give me the value of {k}.", "Value of {k}?"]
HEAD = ["", "Here is a list:\n", "List:\n", "Here are some entries:\n"]
ASK_FIRST_LIMIT = 600   # tokens; a question put before the list is only asked of shorter lists
ASK_FIRST_SHARE = 0.15  # of the documents that could have it there


def _key(rng, kind):
    if kind == 0:
        return f"{rng.choice(w.WORDS)}-{rng.randrange(10, 100)}"
    if kind == 1:
        return f"{rng.choice(w.WORDS)}_{rng.choice(w.WORDS)}"
    if kind == 2:
        return f"key{rng.randrange(1000, 10000)}"
    if kind == 3:
        return w.letters(rng, 6, "0123456789abcdef")
    if kind == 4:
        return f"{rng.choice(w.NAMES)}{rng.randrange(10, 100)}"
    return w.letters(rng, rng.randint(4, 7))


def _value(rng, kind):
    if kind == 0:
        return str(rng.randrange(100, 10000))
    if kind == 1:
        return w.word(rng, 0.3, 3, 8)
    if kind == 2:
        return w.letters(rng, 5, "0123456789abcdef")
    return f"{w.word(rng, 0.3, 3, 8)} {rng.randrange(10, 100)}"


def held_out(table):
    """Whether a list may only be asked about in tests."""
    return zlib.crc32(table.encode()) % HELD_OUT == 0


def document(rng, encoder, length, questions, ask_first=ASK_FIRST_SHARE):
    """(list text, [(question, answer, form)], question first?) whose rendering takes about `length` tokens, never more."""
    key_kind, value_kind = rng.randrange(6), rng.randrange(4)
    room = length - 12 - 30 * questions
    lines, used = {}, 0
    while True:
        k, v = _key(rng, key_kind), _value(rng, value_kind)
        n = len(encoder.plain(f"{k}: {v}\n"))
        if used + n > room and len(lines) >= 3:
            break
        if k not in lines:
            lines[k] = v
            used += n
    keys = list(lines)
    asked = [_question(rng, rng.choice(keys), lines) for _ in range(questions)]
    table = "\n".join(f"{k}: {v}" for k, v in lines.items())
    first = questions == 1 and used < ASK_FIRST_LIMIT and asked[0][2] == "line" and rng.random() < ask_first
    return rng.choice(HEAD) + table, asked, first


def _question(rng, key, lines):
    if rng.random() < 0.5:
        return rng.choice(LINE).format(k=key), f"{key}: {lines[key]}", "line"
    return rng.choice(VALUE).format(k=key), lines[key], "value"


def messages(table, asked, first):
    """The chat of a look-up document: the list comes with the first question."""
    out = []
    for i, (question, answer, _) in enumerate(asked):
        text = question
        if i == 0:
            text = f"{question}\n{table}" if first else f"{table}\n{question}"
        out += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
    return out
