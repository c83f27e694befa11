"""The tool task: a schema is offered and the answer is one call of it, sometimes followed by the tool's result."""
import words as w
from chat import to_json, turns


def _functions(rng):
    """Eight functions: names to choose from, description, question, arguments as (names, value) pairs."""
    city, name, n, m = w.city(rng), w.name(rng), rng.randint(1, 500), rng.randint(1, 500)
    title = " ".join(w.word(rng, 0.3, 3, 8) for _ in range(rng.randint(1, 3)))
    a, b = rng.sample(["EUR", "USD", "GBP", "JPY", "CHF", "NOK"], 2)
    return [
        (("get_weather", "weather", "forecast"), "Get the weather", ["What is the weather in {0}?", "How is the weather in {0}?"],
         [(("city", "location", "place"), city)]),
        (("get_time", "local_time", "clock"), "Get the local time", ["What time is it in {0}?", "Tell me the time in {0}."],
         [(("city", "location", "zone"), city)]),
        (("multiply", "multiply_numbers", "product"), "Multiply two numbers", ["Multiply {0} by {1}.", "What is {0} times {1}?"],
         [(("a", "x", "first"), n), (("b", "y", "second"), m)]),
        (("send_message", "message", "send_text"), "Send a message", ["Tell {0}: {1}", "Send {0} the message {1}"],
         [(("to", "recipient", "name"), name), (("text", "message", "body"), title)]),
        (("search", "web_search", "find"), "Search the web", ["Search for {0}", "Find pages about {0}"],
         [(("query", "q", "text"), title)]),
        (("set_timer", "start_timer", "timer"), "Start a timer", ["Set a timer for {0} minutes.", "Wake me in {0} minutes."],
         [(("minutes", "duration", "time"), n)]),
        (("convert", "convert_currency", "exchange"), "Convert money", ["Convert {0} {1} to {2}.", "How much is {0} {1} in {2}?"],
         [(("amount", "value", "sum"), n), (("from", "source", "base"), a), (("to", "target", "quote"), b)]),
        (("play_song", "play", "play_music"), "Play a song", ["Play {0}", "I want to hear {0}"],
         [(("title", "song", "track"), title)]),
    ]


def _schema(fn_name, description, args):
    properties = {k: {"type": "integer" if isinstance(v, int) else "string"} for k, v in args}
    parameters = {"type": "object", "properties": properties, "required": [k for k, _ in args]}
    function = {"name": fn_name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def sort_keys(value):
    if isinstance(value, dict):
        return {k: sort_keys(value[k]) for k in sorted(value)}
    return value


def _offer(rng, spec):
    """A concrete schema of one function: (schema, name, arguments)."""
    names, description, _, slots = spec
    fn_name = rng.choice(names)
    if rng.random() < 0.15:
        fn_name += "_" + w.letters(rng, rng.randint(2, 4))
    args = [(rng.choice(keys), value) for keys, value in slots]
    return _schema(fn_name, description, args), fn_name, dict(args)


def conversation(rng):
    """(messages, schemas on offer) of one tool question."""
    specs = rng.sample(_functions(rng), rng.choice([1, 1, 1, 2, 2, 3]))
    made = [_offer(rng, s) for s in specs]
    _, fn_name, args = made[0]
    question = rng.choice(specs[0][2]).format(*args.values())
    call = {"type": "function", "function": {"name": fn_name, "arguments": to_json(args)}}
    messages = turns(question) + [{"role": "assistant", "content": None, "tool_calls": [call]}]
    if rng.random() < 0.2:
        result = rng.choice([str(rng.randrange(10000)), w.word(rng), f"{rng.randint(0, 40)} degrees", "done"])
        messages += [{"role": "tool", "content": result}, {"role": "assistant", "content": f"The result is {result}."}]
    return messages, _shuffled(rng, [schema for schema, _, _ in made])


def unneeded(rng):
    """Schemas that are on offer beside a question of another task."""
    return _shuffled(rng, [_offer(rng, s)[0] for s in rng.sample(_functions(rng), rng.choice([1, 1, 2]))])


def _shuffled(rng, schemas):
    """Schemas in any order, at times with sorted keys as some servers print them."""
    if rng.random() < 0.2:
        schemas = [sort_keys(s) for s in schemas]
    rng.shuffle(schemas)
    return schemas
