// libFuzzer: any bytes as tokenizer.json, and if they load, as text for that tokenizer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "stream/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

// The last bytes of the input are texts to encode.
constexpr size_t kTextBytes = 64;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = fathom::Tokenizer::from_json(input, "");
  if (!tokenizer) {
    require(!tokenizer.error().message().empty());
    return 0;
  }
  const std::string_view text = input.substr(size > kTextBytes ? size - kTextBytes : 0);
  for (const bool parse_special : {true, false}) {
    const auto ids = (*tokenizer)->encode(text, {true, parse_special});
    if (!ids) continue;
    fathom::IncrementalDetokenizer detokenizer(**tokenizer, false);
    std::string pieces;
    for (const int32_t id : *ids) {
      require(id >= 0 && id < (*tokenizer)->vocab_size());
      pieces += detokenizer.push(id);
    }
    pieces += detokenizer.finish();
    require(fathom::is_valid_utf8(pieces));
    require(pieces == (*tokenizer)->decode(*ids, false));
  }
  return 0;
}
