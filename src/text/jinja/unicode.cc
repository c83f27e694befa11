// Code points, case mapping and character classes as Python's str has them, over utf8proc's tables.
#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "text/jinja/special_casing.h"

namespace fathom::jinja {

bool valid_utf8(std::string_view text) {
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    if (data[i] < 0x80) {
      ++i;
      continue;
    }
    utf8proc_int32_t c = 0;
    const auto size = static_cast<utf8proc_ssize_t>(text.size() - i);
    const utf8proc_ssize_t used = utf8proc_iterate(data + i, size, &c);
    if (used <= 0) return false;
    i += static_cast<size_t>(used);
  }
  return true;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t position = 0;
  while (index > 0 && position < text.size()) {
    do {
      ++position;
    } while (position < text.size() && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
    --index;
  }
  return position;
}

char32_t next_character(std::string_view text, size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) {
    ++position;
    return lead;
  }
  const int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t c = lead & (0x3F >> extra);
  ++position;
  for (int i = 0; i < extra && position < text.size(); ++i, ++position) {
    c = c << 6 | (static_cast<unsigned char>(text[position]) & 0x3F);
  }
  return c;
}

void append_character(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) out.push_back(next_character(text, i));
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) append_character(out, c);
  return out;
}

namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool between(char32_t c, char32_t first, char32_t last) {
  return c >= first && c <= last;
}

}  // namespace

bool is_space(char32_t c) {
  return between(c, 0x09, 0x0D) || between(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || between(c, 0x1369, 0x1371) ||
         c == 0x19DA || c == 0x2070 || between(c, 0x2074, 0x2079) || between(c, 0x2080, 0x2089) ||
         between(c, 0x2460, 0x2468) || between(c, 0x2474, 0x247C) || between(c, 0x2488, 0x2490) ||
         c == 0x24EA || between(c, 0x24F5, 0x24FD) || c == 0x24FF || between(c, 0x2776, 0x277E) ||
         between(c, 0x2780, 0x2788) || between(c, 0x278A, 0x2792);
}

bool is_numeric(char32_t c) {
  static constexpr char32_t kIdeographs[] = {
      // CJK numerals, category Lo
      0x3405, 0x3483, 0x382A, 0x3B4D, 0x4E00, 0x4E03, 0x4E07, 0x4E09, 0x4E5D, 0x4E8C,
      0x4E94, 0x4E96, 0x4EBF, 0x4EC0, 0x4EDF, 0x4EE8, 0x4F0D, 0x4F70, 0x5104, 0x5146,
      0x5169, 0x516B, 0x516D, 0x5341, 0x5343, 0x5344, 0x5345, 0x534C, 0x53C1, 0x53C2,
      0x53C3, 0x53C4, 0x56DB, 0x58F1, 0x58F9, 0x5E7A, 0x5EFE, 0x5EFF, 0x5F0C, 0x5F0D,
      0x5F0E, 0x5F10, 0x62FE, 0x634C, 0x67D2, 0x6F06, 0x7396, 0x767E, 0x8086, 0x842C,
      0x8CAE, 0x8CB3, 0x8D30, 0x9621, 0x9646, 0x964C, 0x9678, 0x96F6};
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO ||
         std::binary_search(std::begin(kIdeographs), std::end(kIdeographs), c);
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || between(c, 0x2160, 0x216F) ||
         between(c, 0x24B6, 0x24CF) || between(c, 0x1F130, 0x1F149) ||
         between(c, 0x1F150, 0x1F169) || between(c, 0x1F170, 0x1F189);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
         between(c, 0x2B0, 0x2B8) || c == 0x2C0 || c == 0x2C1 || between(c, 0x2E0, 0x2E4) ||
         c == 0x345 || c == 0x37A || between(c, 0x1D2C, 0x1D6A) || c == 0x1D78 ||
         between(c, 0x1D9B, 0x1DBF) || c == 0x2071 || c == 0x207F || between(c, 0x2090, 0x209C) ||
         between(c, 0x2170, 0x217F) || between(c, 0x24D0, 0x24E9) || c == 0x2C7C || c == 0x2C7D ||
         c == 0xA69C || c == 0xA69D || c == 0xA770 || c == 0xA7F8 || c == 0xA7F9 ||
         between(c, 0xAB5C, 0xAB5F);
}

bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_word(char32_t c) {
  return c == '_' || is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

bool is_identifier(std::string_view text) {
  bool first = true;
  for (size_t i = 0; i < text.size(); first = false) {
    const char32_t c = next_character(text, i);
    const auto kind = category(c);
    const bool start = c == '_' || is_alpha(c) || kind == UTF8PROC_CATEGORY_NL;
    const bool inside = start || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
                        kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC || c == 0xB7;
    if (first ? !start : !inside) return false;
  }
  return !text.empty();
}

bool text_is_upper(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    if (is_lower(c) || is_title(c)) return false;
    any = any || is_upper(c);
  }
  return any;
}

bool text_is_lower(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, i);
    if (is_upper(c) || is_title(c)) return false;
    any = any || is_lower(c);
  }
  return any;
}

namespace {

bool append_special(std::string& out, char32_t c, std::span<const SpecialCase> table) {
  const auto at = std::lower_bound(table.begin(), table.end(), c,
                                   [](const SpecialCase& s, char32_t x) { return s.from < x; });
  if (at == table.end() || at->from != c) return false;
  for (char32_t to : at->to) {
    if (to != 0) append_character(out, to);
  }
  return true;
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (!append_special(out, c, kSpecialUpper)) {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (c < 0x80) {
    append_upper(out, c);
  } else if (!append_special(out, c, kSpecialTitle)) {
    append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(c))));
  }
}

bool case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static constexpr char32_t kMid[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                      0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                      0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::find(std::begin(kMid), std::end(kMid), c) != std::end(kMid);
}

bool cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

// A capital sigma at the end of a word becomes ς.
bool final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && case_ignorable(text[before - 1])) --before;
  if (before == 0 || !cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && case_ignorable(text[after])) ++after;
  return after == text.size() || !cased(text[after]);
}

void append_lower(std::string& out, std::u32string_view text, size_t at) {
  const char32_t c = text[at];
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (c == 0x3A3) {
    append_character(out, final_sigma(text, at) ? 0x3C2 : 0x3C3);
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(c))));
  }
}

}  // namespace

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) append_upper(out, next_character(text, i));
  return out;
}

std::string to_lower(std::string_view text) {
  const std::u32string characters = decode(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < characters.size(); ++i) append_lower(out, characters, i);
  return out;
}

std::string to_casefold(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    utf8proc_int32_t folded[8];
    int last_class = 0;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, i));
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(c, folded, 8, UTF8PROC_CASEFOLD, &last_class);
    for (utf8proc_ssize_t k = 0; k < n && k < 8; ++k) {
      append_character(out, static_cast<char32_t>(folded[k]));
    }
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  const std::u32string characters = decode(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < characters.size(); ++i) {
    if (i == 0) {
      append_title(out, characters[i]);
    } else {
      append_lower(out, characters, i);
    }
  }
  return out;
}

std::string to_title(std::string_view text) {
  const std::u32string characters = decode(text);
  std::string out;
  out.reserve(text.size());
  bool inside = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (inside) {
      append_lower(out, characters, i);
    } else {
      append_title(out, characters[i]);
    }
    inside = cased(characters[i]);
  }
  return out;
}

std::string to_swapped_case(std::string_view text) {
  const std::u32string characters = decode(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < characters.size(); ++i) {
    if (is_upper(characters[i])) {
      append_lower(out, characters, i);
    } else if (is_lower(characters[i])) {
      append_upper(out, characters[i]);
    } else {
      append_character(out, characters[i]);
    }
  }
  return out;
}

StripRange strip_range(std::string_view text, const std::u32string* chars, bool left, bool right) {
  const auto strips = [chars](char32_t c) {
    return chars == nullptr ? is_space(c) : chars->find(c) != std::u32string::npos;
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!strips(next_character(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t start = end - 1;
    while (start > begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    size_t next = start;
    if (!strips(next_character(text, next))) break;
    end = start;
  }
  return {begin, end};
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = next_character(text, i);
    const bool ends =
        between(c, 0x0A, 0x0D) || between(c, 0x1C, 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(start, (keep_ends ? i : at) - start));
    start = i;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace fathom::jinja
