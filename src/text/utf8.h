// UTF-8: decoding, encoding and repair, byte for byte as the Unicode standard says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The character, or the maximal invalid part, at the start of a non-empty text.
struct Utf8Step {
  uint32_t code = 0;  // the code point if valid
  size_t size = 0;    // bytes of the character or of the invalid part
  bool valid = false;
  bool incomplete = false;  // not valid, but a longer text could make it so
};
Utf8Step decode_utf8(std::string_view text);

void append_utf8(std::string& out, uint32_t code);
bool is_valid_utf8(std::string_view text);
// The text with U+FFFD for each maximal invalid part (Unicode 3.9, table 3-8).
std::string repair_utf8(std::string_view text);
// Bytes at the end of `text` that begin a character but do not finish it (0 to 3).
size_t unfinished_utf8_tail(std::string_view text);

}  // namespace fathom
