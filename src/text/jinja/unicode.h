// Code points, case mapping and character classes as Python's str has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::jinja {

bool valid_utf8(std::string_view text);
size_t count_characters(std::string_view text);
// Byte offset of character `index` (0-based, at most the number of characters).
size_t byte_offset(std::string_view text, size_t index);
// Code point at `position`, which is moved past it. `text` must be valid UTF-8 there.
char32_t next_character(std::string_view text, size_t& position);
void append_character(std::string& out, char32_t c);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

bool is_space(char32_t c);  // str.isspace, also what strip() removes
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_word(char32_t c);  // \w of Python's re
bool is_identifier(std::string_view text);

// str.isupper and str.islower: some character has case, and none the other case.
bool text_is_upper(std::string_view text);
bool text_is_lower(std::string_view text);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_casefold(std::string_view text);
std::string to_capitalized(std::string_view text);  // str.capitalize
std::string to_title(std::string_view text);        // str.title
std::string to_swapped_case(std::string_view text);

// Offsets [begin, end) of what strip() leaves: white space, or the characters of `chars`.
struct StripRange {
  size_t begin, end;
};
StripRange strip_range(std::string_view text, const std::u32string* chars, bool left, bool right);

// Lines as str.splitlines: views into `text`.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

}  // namespace fathom::jinja
