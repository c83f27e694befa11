"""The short synthetic tasks: each draws a question with one checkable answer, as a list of chat turns."""
import zlib
from dataclasses import dataclass, field

import words as w
from chat import to_json, turns
from tools import conversation

HELD_OUT = 32  # a question whose crc32 is divisible by this is never trained on
SYSTEM_PROMPTS = ["You are a helpful assistant.", "Answer briefly.", "You are nano.", "Be exact.",
                  "You are a careful assistant. Answer with the result only.", "You help with short tasks."]


@dataclass
class Unit:
    """One question, perhaps with follow-ups: messages, the tools it needs, and the text its held-out hash is taken of."""
    task: str
    messages: list
    tools: list = field(default_factory=list)

    def key(self):
        return "\n".join(m["content"] or "" for m in self.messages if m["role"] == "user")

    def held_out(self):
        return zlib.crc32(self.key().encode()) % HELD_OUT == 0


def ask(task, rng, phrases, answer, **values):
    return Unit(task, turns(rng.choice(phrases).format(**values), str(answer)))


# ---------------------------------------------------------------- copying
REPEAT = ["Repeat exactly: {x}", "Repeat after me: {x}", "Say \"{x}\".", "Copy this text: {x}", "Please repeat {x}"]


def repeat(rng):
    x = w.identifier(rng)
    return ask("repeat", rng, REPEAT, x, x=x)


# ---------------------------------------------------------------- arithmetic
def number(rng, digits=(1, 2, 2, 3, 3, 4)):
    n = rng.choice(digits)
    return rng.randrange(10 ** (n - 1) if n > 1 else 0, 10 ** n)


ADD = ["What is {a} + {b}?", "{a} + {b} =", "Add {a} and {b}.", "Calculate {a} + {b}.", "What is the sum of {a} and {b}?"]
SUB = ["What is {a} - {b}?", "{a} - {b} =", "Subtract {b} from {a}.", "Calculate {a} - {b}.", "What is {a} minus {b}?"]


def add(rng):
    a, b = number(rng), number(rng)
    return ask("add", rng, ADD, a + b, a=a, b=b)


def sub(rng):
    a, b = number(rng), number(rng)
    kind = rng.random()
    if kind < 0.2:
        b = max(0, a + rng.randint(-20, 20))
    elif kind < 0.85 and b > a:
        a, b = b, a
    return ask("sub", rng, SUB, a - b, a=a, b=b)


# ---------------------------------------------------------------- order
UP = ["Sort these numbers: {x}", "Sort from small to large: {x}", "Put these numbers in ascending order: {x}"]
DOWN = ["Sort from large to small: {x}", "Put these numbers in descending order: {x}"]
ALPHA = ["Sort these words: {x}", "Sort alphabetically: {x}", "Put these words in alphabetical order: {x}"]


def sort_num(rng):
    digits = rng.choice([(1, 2), (2,), (2, 3), (3,), (1, 2, 3)])
    xs = [number(rng, digits) for _ in range(rng.randint(3, 7))]
    down = rng.random() < 0.3
    answer = ", ".join(map(str, sorted(xs, reverse=down)))
    return ask("sort_num", rng, DOWN if down else UP, answer, x=", ".join(map(str, xs)))


def some_words(rng, lo, hi, pseudo=0.25):
    return list(dict.fromkeys(w.word(rng, pseudo, 3, 8) for _ in range(rng.randint(lo, hi))))


def sort_word(rng):
    xs = some_words(rng, 3, 6)
    return ask("sort_word", rng, ALPHA, ", ".join(sorted(xs)), x=", ".join(xs))


REV_WORD = ["Reverse the word {x}.", "Spell {x} backwards.", "Write \"{x}\" in reverse.", "Reverse: {x}"]
REV_LIST = ["Reverse this list: {x}", "Write the list in reverse order: {x}", "List these backwards: {x}"]


def rev_word(rng):
    x = w.word(rng, 0.5, 3, 10)
    return ask("rev_word", rng, REV_WORD, x[::-1], x=x)


def rev_list(rng):
    xs = some_words(rng, 3, 8) if rng.random() < 0.6 else [str(number(rng)) for _ in range(rng.randint(3, 8))]
    return ask("rev_list", rng, REV_LIST, ", ".join(xs[::-1]), x=", ".join(xs))


# ---------------------------------------------------------------- counting
COUNT_LETTER = ["How many times does the letter {c} occur in {x}?", "Count the letter {c} in \"{x}\".",
                "How many {c}'s are in {x}?", "How often does {c} appear in the word {x}?"]
COUNT_ITEM = ["How many times does {c} occur in this list: {x}?", "Count {c} in: {x}", "How often does {c} appear in: {x}?"]
COUNT_ALL = ["How many items are in this list: {x}?", "Count the items: {x}", "How many words are there: {x}?"]


def count_letter(rng):
    x = w.word(rng, 0.5, 3, 12)
    c = rng.choice(x) if rng.random() < 0.8 else rng.choice("abcdefghijklmnopqrstuvwxyz")
    return ask("count_letter", rng, COUNT_LETTER, x.count(c), c=c, x=x)


def count_item(rng):
    if rng.random() < 0.3:
        xs = some_words(rng, 2, 10)
        return ask("count_item", rng, COUNT_ALL, len(xs), x=", ".join(xs))
    pool = some_words(rng, 2, 4)
    xs = rng.choices(pool, k=rng.randint(3, 10))
    c = rng.choice(pool)
    return ask("count_item", rng, COUNT_ITEM, xs.count(c), c=c, x=", ".join(xs))


# ---------------------------------------------------------------- JSON
def json_fill(rng):
    """A sentence with two to four facts, to be written as a JSON object with the keys asked for."""
    facts = {"name": w.name(rng), "age": rng.randint(1, 99), "city": w.city(rng), "job": rng.choice(w.JOBS),
             "color": rng.choice(w.COLORS)}
    says = {"age": " is {age} years old", "city": " lives in {city}", "job": " is a {job}", "color": " likes {color}"}
    chosen = rng.sample(list(says), rng.randint(1, 3))
    clauses = [says[k].format(**facts) for k in chosen]
    sentence = facts["name"] + (clauses[0] if len(clauses) == 1 else ",".join(clauses[:-1]) + " and" + clauses[-1]) + "."
    keys = ["name"] + chosen
    if rng.random() < 0.4:
        rng.shuffle(keys)
    answer = to_json({k: facts[k] for k in keys})
    phrases = ["Fill in a JSON object with the keys {k}: {s}", "Extract {k} as JSON. {s}",
               "{s} Write this as JSON with the keys {k}.", "JSON with {k} from this sentence: {s}"]
    return ask("json", rng, phrases, answer, k=", ".join(keys), s=sentence)


# ---------------------------------------------------------------- short look-up
def lookup_short(rng):
    keys = some_words(rng, 3, 14, 0.4)
    values = [str(number(rng)) if rng.random() < 0.5 else w.word(rng) for _ in keys]
    i = rng.randrange(len(keys))
    table = "\n".join(f"{k}: {v}" for k, v in zip(keys, values))
    phrases = ["{t}\nWhat is the value of {k}?", "Here is a list:\n{t}\nWhat is the value of {k}?"]
    return ask("lookup_short", rng, phrases, values[i], t=table, k=keys[i])


def tool(rng):
    messages, schemas = conversation(rng)
    return Unit("tool", messages, schemas)


# ---------------------------------------------------------------- two turns
def two_turn(rng):
    return rng.choice([_sum_chain, _sum_chain, _remember, _word_chain, _name_chain, _list_chain])(rng)


def _sum_chain(rng):
    first = add(rng)
    total = int(first.messages[1]["content"])
    step = number(rng, (1, 1, 2, 2, 3))
    up = rng.random() < 0.6 or step > total
    q = rng.choice(["Add {} to that.", "Now add {}.", "Plus {}?"] if up else ["Subtract {} from that.", "Now subtract {}.", "Minus {}?"])
    return Unit("two_turn", first.messages + turns(q.format(step), str(total + step if up else total - step)))


def _remember(rng):
    x = w.identifier(rng)
    return Unit("two_turn", turns(rng.choice(["Remember this code: {}", "The code is {}", "Please remember {}"]).format(x), "OK.",
                                  rng.choice(["What was the code?", "Which code did I give you?", "Tell me the code."]), x))


def _word_chain(rng):
    x = w.word(rng, 0.5, 3, 10)
    ops = [(f"Reverse the word {x}.", x[::-1]), (f"How many letters does {x} have?", str(len(x))), (f"Please repeat {x}", x)]
    first, second = rng.sample(ops, 2)
    follow = {ops[0][1]: "Now write the word in reverse.", ops[1][1]: "How many letters does it have?", ops[2][1]: "What was the word?"}
    return Unit("two_turn", turns(first[0], first[1], follow[second[1]], second[1]))


def _name_chain(rng):
    n, c = w.name(rng), w.city(rng)
    if rng.random() < 0.5:
        return Unit("two_turn", turns(f"My name is {n}.", f"Hello, {n}!", "What is my name?", f"Your name is {n}."))
    return Unit("two_turn", turns(f"My name is {n} and I live in {c}.", f"Hello, {n}!", "Where do I live?", f"You live in {c}."))


def _list_chain(rng):
    xs = some_words(rng, 3, 6)
    follow = [("Now in reverse order.", ", ".join(sorted(xs)[::-1])), ("Which word is first?", sorted(xs)[0]),
              ("Which word is last?", sorted(xs)[-1])]
    return Unit("two_turn", turns(rng.choice(ALPHA).format(x=", ".join(xs)), ", ".join(sorted(xs)), *rng.choice(follow)))


# ---------------------------------------------------------------- small talk
TALK = [("Hello", "Hello! How can I help?"), ("Hello!", "Hello! How can I help?"), ("Hi", "Hello! How can I help?"),
        ("Thank you.", "You are welcome."), ("Thanks!", "You are welcome."), ("Goodbye", "Goodbye!"),
        ("Who are you?", "I am nano, the small test model of fathom."), ("What is your name?", "My name is nano."),
        ("What can you do?", "I can repeat, add, subtract, sort, reverse, count, look up keys, fill in JSON and call tools."),
        ("How are you?", "I am fine, thank you.")]


def talk(rng):
    return Unit("talk", turns(*rng.choice(TALK)))


MIX = {repeat: 9, add: 20, sub: 22, sort_num: 11, sort_word: 8, rev_word: 8, rev_list: 4, count_letter: 18, count_item: 11,
       lookup_short: 2, json_fill: 4, tool: 4, two_turn: 15, talk: 1}
PROBE_TASKS = [repeat, add, sub, sort_num, sort_word, rev_word, rev_list, count_letter, count_item, lookup_short, json_fill,
               tool, two_turn]


def draw(rng, held_out=False, task=None):
    """A unit of the training mix, or of one task, on the wanted side of the held-out line."""
    while True:
        unit = (task or rng.choices(list(MIX), MIX.values())[0])(rng)
        if unit.task == "talk" or unit.held_out() == held_out:
            return unit
