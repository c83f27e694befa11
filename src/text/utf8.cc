// UTF-8 after table 3-7 of the Unicode standard: what may follow each lead byte.
#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace fathom {
namespace {

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// Whole words of ASCII are skipped: most texts are mostly ASCII.
size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, false, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range is narrower after E0 (overlong), ED (surrogates), F0 and F4.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {0, i, false, true};
    const bool fits = i == 1 ? byte(1) >= low && byte(1) <= high : is_continuation(byte(i));
    if (!fits) return {0, i, false, false};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  return {code, length, true, false};
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLeads[tail] | (code >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) {
    out += static_cast<char>(0x80u | ((code >> (6 * i)) & 0x3Fu));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const Utf8Step step = decode_utf8(text);
    if (!step.valid) return false;
    text.remove_prefix(step.size);
  }
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t ascii = ascii_prefix(text);
    out.append(text.substr(0, ascii));
    text.remove_prefix(ascii);
    if (text.empty()) break;
    const Utf8Step step = decode_utf8(text);
    out.append(step.valid ? text.substr(0, step.size) : kReplacementCharacter);
    text.remove_prefix(step.size);
  }
  return out;
}

size_t unfinished_utf8_tail(std::string_view text) {
  const size_t reach = std::min<size_t>(text.size(), 3);
  for (size_t back = 1; back <= reach; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (is_continuation(byte)) continue;
    return decode_utf8(text.substr(text.size() - back)).incomplete ? back : 0;
  }
  return 0;
}

}  // namespace fathom
