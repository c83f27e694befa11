// The byte alphabet of byte-level BPE: one printable character for each byte (GPT-2's table).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

// The code point that stands for a byte: itself if printable in Latin-1, else 256 and up.
uint32_t byte_to_letter(unsigned char byte);
// The byte a code point stands for, or -1.
int letter_to_byte(uint32_t code);

std::string to_byte_letters(std::string_view bytes);
// False (and `bytes` unspecified) if a character of the valid UTF-8 `letters` is none of the
// alphabet.
bool from_byte_letters(std::string_view letters, std::string& bytes);

}  // namespace fathom
