// Computes the byte alphabet once.
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace fathom {
namespace {

constexpr uint32_t kFirstExtraLetter = 256;
constexpr uint32_t kLetters = 256 + 68;  // the 68 bytes without a printable character of their own

struct Alphabet {
  std::array<uint32_t, 256> letter{};
  std::array<int, kLetters> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte) byte = -1;
  uint32_t extra = kFirstExtraLetter;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    alphabet.letter[b] = printable ? b : extra++;
    alphabet.byte[alphabet.letter[b]] = static_cast<int>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

uint32_t byte_to_letter(unsigned char byte) {
  return kAlphabet.letter[byte];
}

int letter_to_byte(uint32_t code) {
  return code < kLetters ? kAlphabet.byte[code] : -1;
}

std::string to_byte_letters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (const char byte : bytes)
    append_utf8(letters, byte_to_letter(static_cast<unsigned char>(byte)));
  return letters;
}

bool from_byte_letters(std::string_view letters, std::string& bytes) {
  bytes.clear();
  while (!letters.empty()) {
    const Utf8Step step = decode_utf8(letters);
    const int byte = letter_to_byte(step.code);
    if (byte < 0) return false;
    bytes += static_cast<char>(byte);
    letters.remove_prefix(step.size);
  }
  return true;
}

}  // namespace fathom
