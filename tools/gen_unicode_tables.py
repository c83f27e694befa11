#!/usr/bin/env python3
"""Write src/text/unicode_tables.inc by asking the Hugging Face `tokenizers` library.

The library's regexes (Oniguruma) and its Rust character classes each have their own Unicode version.
Encoding must agree with it on every code point, so the sets are read out of the library itself:
every property is matched against a text of all code points. Needs `pip install tokenizers`
(0.23.3 was used: Oniguruma with Unicode 16).

  python3 tools/gen_unicode_tables.py > src/text/unicode_tables.inc
"""
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Co Cn").split()
# Named sets of Oniguruma beyond the general categories.
PROPERTIES = """Alphabetic Lowercase Uppercase White_Space Alnum Blank Cntrl Graph Print Punct Word XDigit
Emoji Emoji_Presentation Emoji_Modifier Extended_Pictographic Ideographic Unified_Ideograph
Cased Math Hex_Digit Dash Diacritic Join_Control Variation_Selector Regional_Indicator""".split()
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak
Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian
Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari
Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic
Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran
Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi
Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin
Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen
Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi
Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu
Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic
Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene
Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham
SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa
Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri
Toto Tulu_Tigalari Ugaritic Unknown Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square""".split()

SURROGATES = range(0xD800, 0xE000)
TEXT = "".join(chr(c) for c in range(0x110000) if c not in SURROGATES)


def members(splitter):
    found = set()
    for piece, _ in splitter.pre_tokenize_str(TEXT):
        found.update(map(ord, piece))
    return found


def regex_set(pattern):
    return members(pre_tokenizers.Split(Regex(pattern), "removed", invert=True))


def isolated(splitter):
    """Code points that a splitter makes pieces of their own (each stands twice before an 'a')."""
    doubled = "".join(c + c + "a" for c in TEXT)
    found = set()
    for piece, (start, _) in splitter.pre_tokenize_str(doubled):
        if len(piece) == 1 and start % 3 != 2:
            found.add(ord(piece))
    return found - {ord("a")}


def rust_word():
    pieces = {p for p, _ in pre_tokenizers.Whitespace().pre_tokenize_str("\n".join("a" + c for c in TEXT))}
    return {ord(c) for c in TEXT if "a" + c in pieces}


def normalizing():
    """Code points that the library's normal forms know: the rest stays as it is and combines with nothing."""
    forms = [normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str]
    found = set()
    for c in TEXT:
        for form in forms:
            if form(c) != c:
                found.update(map(ord, c + form(c)))
        # Reordered behind a mark of class 1 or before one of class 240: a combining mark itself.
        if forms[0]("a" + c + "\u0334")[1] != c or forms[0]("a\u0345" + c)[1] == c:
            found.add(ord(c))
    return found


def lowercase_runs():
    """[first, count, step, distance] of the characters whose lower case is another single character."""
    lower = normalizers.Lowercase().normalize_str
    out = []
    for c in TEXT:
        to = lower(c)
        if to == c or len(to) != 1:
            continue
        code, distance = ord(c), ord(to) - ord(c)
        if out and out[-1][3] == distance:
            first, count, step, _ = out[-1]
            if count == 1 and code - first <= 2:
                out[-1][1:3] = [2, code - first]
                continue
            if count > 1 and code == first + count * step:
                out[-1][1] += 1
                continue
        out.append([code, 1, 1, distance])
    return out


def runs(found):
    out = []
    for c in sorted(found):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def number(n):
    """Base 32, low digit first, + 32 while more follow; '~' stands for the backslash."""
    out = ""
    while True:
        out += chr(48 + (n & 31) + (32 if n > 31 else 0))
        n >>= 5
        if n == 0:
            return out.replace("\\", "~")


def encoded_ranges(found):
    """(gap since the last end, length - 1) of every range."""
    out, at = "", 0
    for first, last in runs(found):
        out += number(first - at) + number(last - first)
        at = last + 1
    return out


def literal(text, indent):
    width = 96 - indent
    lines = [text[i:i + width] for i in range(0, len(text), width)] or [""]
    return "\n".join(" " * indent + f'"{line}"' for line in lines)


def main():
    print("// Unicode sets as the `tokenizers` library sees them. Generated by tools/gen_unicode_tables.py.")
    category = {c: "Cs" for c in SURROGATES}
    for name in CATEGORIES:
        category.update((c, name) for c in regex_set(r"\p{%s}+" % name))
    names = CATEGORIES + ["Cs"]
    text, start = "", 0
    for c in range(1, 0x110001):
        if c == 0x110000 or category[c] != category[start]:
            text += chr(97 + names.index(category[start])) + number(c - start - 1)
            start = c
    print("// Runs over all code points: a category ('a' + its index in kCategoryNames), then length - 1.")
    print("constexpr const char* kCategoryNames[] = {%s};" % ", ".join(f'"{n}"' for n in names))
    print("constexpr const char kCategoryRuns[] =\n" + literal(text, 4) + ";")
    sets = {name: regex_set(r"\p{%s}+" % name) for name in PROPERTIES + SCRIPTS}
    sets["w"] = regex_set(r"\w+")
    sets["RustNumeric"] = isolated(pre_tokenizers.Digits(individual_digits=True))
    sets["RustPunctuation"] = isolated(pre_tokenizers.Punctuation("isolated"))
    sets["RustWord"] = rust_word()
    sets["Normalizing"] = normalizing()
    print("// Named sets: pairs of numbers, the gap since the end of the last range and length - 1.")
    print("constexpr struct {\n  const char* name;\n  const char* ranges;\n} kNamedSets[] = {")
    for name, found in sets.items():
        key = name.lower().replace("_", "")
        line = f'    {{"{key}", "{encoded_ranges(found)}"}},'
        if len(line) > 100:
            line = f'    {{"{key}",\n{literal(encoded_ranges(found), 5)}}},'
        print(line)
    print("};")
    text, at = "", 0
    for first, count, step, distance in lowercase_runs():
        text += number(first - at) + number(count - 1) + number(step)
        text += number(2 * distance if distance >= 0 else -2 * distance - 1)
        at = first
    print("// Lower case: gap since the last first code point, count - 1, step, distance (zigzag).")
    print("constexpr const char kLowercaseRuns[] =\n" + literal(text, 4) + ";")


if __name__ == "__main__":
    sys.exit(main())
