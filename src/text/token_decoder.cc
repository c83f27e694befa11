// Reads decoders, and applies them to single tokens when a tokenizer is loaded.
#include "text/token_decoder.h"

#include <optional>

#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"

namespace fathom {
namespace {

constexpr int kMaxNesting = 16;
constexpr uint64_t kMaxStrip = 64;
constexpr size_t kMaxReplaces = 2;
constexpr size_t kMaxReplacementBytes = 64;

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size()) {
    out.append(text, at, found - at).append(to);
  }
  text = out.append(text, at);
}

}  // namespace

Result<TokenDecoder> TokenDecoder::read(const nlohmann::json& component) {
  TokenDecoder decoder;
  if (component.is_null()) {
    return error(Code::kUnsupported, "decoder is null: tokens would be joined with spaces");
  }
  FATHOM_TRY(decoder.add(component, "decoder", 0));
  return decoder;
}

Status TokenDecoder::add(const nlohmann::json& component, const std::string& where, int depth) {
  FATHOM_ASSIGN_OR_STATUS(const std::string type, json_type(component, where));
  const auto misplaced = [&] {
    return Status(Code::kUnsupported,
                  where + " (" + type + ") does not follow the decoders before it");
  };
  if (type == "Sequence") {
    if (depth > kMaxNesting) return {Code::kCorrupt, where + " is nested too deeply"};
    FATHOM_ASSIGN_OR_STATUS(const nlohmann::json* list, json_array(component, "decoders", where));
    for (size_t i = 0; i < list->size(); ++i) {
      FATHOM_RETURN_IF_ERROR(
          add((*list)[i], where + ".decoders[" + std::to_string(i) + "]", depth + 1));
    }
    return {};
  }
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "ByteLevel") {
    if (byte_fallback_ || fused_ || !replaced_.empty()) return misplaced();
    byte_level_ = fused_ = true;  // it makes one text of all tokens
    return {};
  }
  if (type == "ByteFallback") {
    if (fused_) return misplaced();
    byte_fallback_ = true;
    return {};
  }
  if (type == "Strip") return fused_ ? add_strip(component, where) : misplaced();
  if (type == "Replace") {
    const auto pattern = component.find("pattern");
    const bool literal = pattern != component.end() && pattern->is_object() &&
                         pattern->contains("String") && (*pattern)["String"].is_string() &&
                         !(*pattern)["String"].get<std::string>().empty();
    if (!literal) return {Code::kUnsupported, where + ".pattern is not {\"String\": ...}"};
    if (byte_fallback_ || fused_) return misplaced();
    FATHOM_ASSIGN_OR_STATUS(std::string content, json_string(component, "content", where));
    if (content.size() > kMaxReplacementBytes || replaced_.size() == kMaxReplaces) {
      return {Code::kUnsupported, where + " is longer than 64 bytes or one Replace too many"};
    }
    replaced_.emplace_back((*pattern)["String"].get<std::string>(), std::move(content));
    return {};
  }
  return {Code::kUnsupported, where + ".type " + in_quotes(type) + " is not supported"};
}

Status TokenDecoder::add_strip(const nlohmann::json& component, const std::string& where) {
  FATHOM_ASSIGN_OR_STATUS(const std::string content, json_string(component, "content", where));
  const auto count = [&](const char* key) -> std::optional<uint64_t> {
    const auto found = component.find(key);
    if (found == component.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
  };
  if (content != " " || !count("start") || *count("start") > kMaxStrip || count("stop") != 0u ||
      strip_count_ > 0) {
    return {Code::kUnsupported, where + " is not a strip of up to 64 spaces at the start"};
  }
  strip_count_ = *count("start");
  return {};
}

std::string TokenDecoder::bytes_of(std::string_view token) const {
  std::string bytes;
  if (byte_level_) return from_byte_letters(token, bytes) ? bytes : std::string(token);
  bytes = token;
  for (const auto& [from, to] : replaced_) replace_all(bytes, from, to);
  if (byte_fallback_) {
    if (const std::optional<char> byte = fallback_byte(bytes)) bytes.assign(1, *byte);
  }
  return bytes;
}

}  // namespace fathom
