"""Word lists and random strings the synthetic questions are made of."""

WORDS = (
    "apple banana cherry lemon grape peach plum mango melon olive onion carrot potato tomato pepper garlic bread butter "
    "cheese honey sugar coffee water river ocean mountain forest desert island valley garden flower tree leaf root stone "
    "sand cloud rain snow storm wind sun moon star planet rocket engine wheel bridge tower castle house window door table "
    "chair lamp mirror carpet pillow blanket bottle glass plate spoon fork knife kettle oven basket box bag paper pencil "
    "book letter story poem music guitar piano violin drum song dance painter doctor teacher farmer baker pilot sailor "
    "soldier king queen prince horse tiger lion rabbit mouse monkey dolphin whale shark eagle falcon pigeon spider beetle "
    "butter copper silver gold iron steel marble crystal diamond emerald purple orange yellow green blue red black white "
    "brown winter summer spring autumn morning evening night hour minute second north south east west market school "
    "hospital library station airport harbor street corner village city country circle square triangle number answer "
    "question signal pattern model vector matrix tensor kernel thread buffer socket server client packet router branch "
    "commit merge cache queue stack array record field table index token prompt layer head expert router memory anchor "
    "arrow candle compass ladder needle rope sail ticket umbrella wagon yarn zebra"
).split()
WORDS = sorted(set(WORDS))

NAMES = (
    "Anna Ben Carla David Emma Felix Greta Henry Ines Jonas Karin Leon Maria Nils Olga Paul Rosa Simon Tina Victor Wanda "
    "Yusuf Zoe Alice Bruno Clara Dario Elena Frank Gina Hugo Ida Julia Kevin Laura Marco Nora Oscar Petra Rita Sven Tom "
    "Ursula Vera Walter Ada Boris Cleo Diego"
).split()

CITIES = (
    "Oslo Paris Berlin Madrid Rome Vienna Lisbon Athens Dublin Prague Warsaw Tokyo Kyoto Seoul Beijing Delhi Mumbai Cairo "
    "Lagos Nairobi Lima Bogota Quito Havana Boston Denver Dallas Seattle Chicago Toronto Sydney Perth Hanoi Manila Jakarta "
    "Zurich Geneva Hamburg Munich Milan Naples Porto"
).split()

JOBS = "teacher doctor baker pilot farmer painter sailor lawyer nurse writer singer cook driver judge smith".split()
COLORS = "red blue green yellow black white purple orange brown pink grey silver".split()
FRUITS = "apples bananas cherries lemons grapes peaches plums mangos melons olives".split()

_CONSONANTS, _VOWELS, _LETTERS = "bcdfghjklmnprstvwz", "aeiou", "abcdefghijklmnopqrstuvwxyz"


def pseudo_word(rng, lo=3, hi=12):
    """A pronounceable word that is in no list."""
    n = rng.randint(lo, hi)
    vowel = rng.random() < 0.3
    out = []
    while len(out) < n:
        out.append(rng.choice(_VOWELS if vowel else _CONSONANTS))
        if rng.random() < 0.08:
            out.append(out[-1])
        vowel = not vowel
    return "".join(out[:n])


def letters(rng, n, alphabet=_LETTERS):
    return "".join(rng.choices(alphabet, k=n))


def word(rng, pseudo=0.4, lo=3, hi=12):
    return pseudo_word(rng, lo, hi) if rng.random() < pseudo else rng.choice(WORDS)


def name(rng, pseudo=0.15):
    return pseudo_word(rng, 3, 8).capitalize() if rng.random() < pseudo else rng.choice(NAMES)


def city(rng, pseudo=0.15):
    return pseudo_word(rng, 4, 9).capitalize() if rng.random() < pseudo else rng.choice(CITIES)


def identifier(rng):
    """A string worth repeating exactly: one of ten kinds of identifiers."""
    kind = rng.randrange(10)
    if kind == 0:
        return letters(rng, rng.randint(4, 24), "0123456789abcdef")
    if kind == 1:
        return "_".join(word(rng) for _ in range(rng.randint(2, 4)))
    if kind == 2:
        parts = [word(rng) for _ in range(rng.randint(2, 3))]
        return parts[0] + "".join(p.capitalize() for p in parts[1:])
    if kind == 3:
        return "-".join(letters(rng, n, "0123456789abcdef") for n in (8, 4, 4))
    if kind == 4:
        return "%s-%d" % (word(rng), rng.randrange(10000))
    if kind == 5:
        return letters(rng, rng.randint(3, 14))
    if kind == 6:
        return letters(rng, rng.randint(4, 16), "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789")
    if kind == 7:
        return "/".join([""] + [word(rng) for _ in range(rng.randint(2, 3))]) + rng.choice([".txt", ".cc", ".json", ""])
    if kind == 8:
        return " ".join(word(rng) for _ in range(rng.randint(2, 7)))
    return letters(rng, rng.randint(4, 18), _LETTERS + _LETTERS.upper() + "0123456789")
