// libFuzzer: any bytes as text, as ids and as a stream, through a byte-level tokenizer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "stream/detokenizer.h"
#include "stream/stop_matcher.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using nlohmann::json;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

// Every byte of UTF-8, some merges, the deepseek-v3 patterns, added tokens that begin like
// characters. As in the released vocabularies, bytes that never occur in UTF-8 have no letter: "ø"
// is added.
std::unique_ptr<fathom::Tokenizer> make_tokenizer() {
  json vocab;
  for (int byte = 0; byte < 0xF8; ++byte) {
    const char raw = static_cast<char>(byte);
    vocab[fathom::to_byte_letters({&raw, 1})] = byte;
  }
  json merges = json::array();
  const auto merge = [&](std::string_view left, std::string_view right) {
    const std::string a = fathom::to_byte_letters(left), b = fathom::to_byte_letters(right);
    if (!vocab.contains(a + b)) vocab[a + b] = vocab.size();
    merges.push_back({a, b});
  };
  for (const char* pair :
       {"th", "in", "\xE4\xBD", "\xF0\x9F", "\xC3\xA9", "  ", "\x80\x80", "aa"}) {
    merge({pair, 1}, {pair + 1, 1});
  }
  merge("\xE4\xBD", "\xA0");
  merge("aa", "aa");
  json added = json::array();
  for (const char* content : {"<s>", "\xC3\xB8", "<\xEF\xBD\x9C"}) {
    added.push_back({{"id", vocab.size() + added.size()},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", content[1] == 's'}});
  }
  json steps = json::array();
  for (
      const char* pattern :
      {R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+",
       R"([!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  steps.push_back(bytes);
  const json file = {{"added_tokens", added},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
                     {"decoder", bytes},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  auto tokenizer = fathom::Tokenizer::from_json(file.dump(), "");
  require(tokenizer.has_value());
  return std::move(*tokenizer);
}

std::string stream(const fathom::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  fathom::IncrementalDetokenizer detokenizer(tokenizer, skip);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = detokenizer.push(id);
    require(fathom::is_valid_utf8(piece));
    text += piece;
  }
  return text + detokenizer.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<fathom::Tokenizer> tokenizer = make_tokenizer();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string repaired = fathom::repair_utf8(input);
  require(fathom::is_valid_utf8(repaired));
  require(fathom::is_valid_utf8(input) == (repaired == input));
  for (const bool parse_special : {true, false}) {
    const auto ids = tokenizer->encode(input, {false, parse_special});
    require(ids.has_value());
    require(tokenizer->decode(*ids, false) == repaired);
    require(stream(*tokenizer, *ids, false) == repaired);
  }
  std::vector<int32_t> ids(size / 2);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = data[2 * i] | (data[2 * i + 1] & 1) << 8;
  for (const bool skip : {true, false}) {
    require(stream(*tokenizer, ids, skip) == tokenizer->decode(ids, skip));
  }
  fathom::StopMatcher matcher({std::string(input.substr(0, size % 5)), "\n\n"});
  std::string emitted;
  for (size_t at = 0; at < size; at += 1 + data[at] % 4) {
    emitted += matcher.push(input.substr(at, 1 + data[at] % 4)).emit;
  }
  emitted += matcher.finish();
  require(emitted == input.substr(0, emitted.size()));
  return 0;
}
