// Tokenizer: joins added tokens, normalizer, pre-tokenizer, BPE model and decoder.
#include "text/tokenizer.h"

#include <algorithm>
#include <new>

#include "core/file.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr uint64_t kMaxFileBytes = 256u << 20;
constexpr size_t kMaxTextBytes = 1u << 30;  // offsets are 32 bits wide, and normalizers may add

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "tokenizer.json";
  const std::filesystem::path config_path = model_dir / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return error(Code::kNotFound,
                 model_dir.string() +
                     " has no tokenizer.json; a model folder needs one to turn text "
                     "into tokens (tokenizer.model alone is not enough)");
  }
  FATHOM_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  std::string config;
  if (std::filesystem::exists(config_path, ignored)) {
    FATHOM_ASSIGN(config, read_text_file(config_path, kMaxFileBytes));
  }
  auto tokenizer = from_json(text, config);
  if (!tokenizer) return error(tokenizer.error().with_context(path.string()));
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config_json) {
  try {
    FATHOM_ASSIGN(std::unique_ptr<Impl> impl, Impl::build(tokenizer_json, tokenizer_config_json));
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kCorrupt, std::string("tokenizer.json is not as expected: ") + e.what());
  } catch (const std::bad_alloc&) {
    return error(Code::kOutOfMemory, "memory does not suffice to load tokenizer.json");
  }
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return error(Code::kInvalidArgument, "a text of " + std::to_string(text.size()) +
                                             " bytes is longer than the 1 GiB that can be encoded");
  }
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = impl_->before;
  FATHOM_TRY(impl_->encode(text, options.parse_special, ids));
  if (options.add_special_tokens) ids.insert(ids.end(), impl_->after.begin(), impl_->after.end());
  return ids;
}

Result<std::vector<int32_t>> Tokenizer::encode_prompt(std::string_view text,
                                                      bool parse_special) const {
  FATHOM_ASSIGN(std::vector<int32_t> ids, encode(text, {false, parse_special}));
  if (wants_bos() && (ids.empty() || ids.front() != *impl_->bos))
    ids.insert(ids.begin(), *impl_->bos);
  // What the post-processor puts in front, BOS apart, and behind.
  const auto& before = impl_->before;
  const auto front = adds_bos() ? before.begin() + 1 : before.begin();
  ids.insert(ids.begin() + (wants_bos() ? 1 : 0), front, before.end());
  ids.insert(ids.end(), impl_->after.begin(), impl_->after.end());
  return ids;
}

// The text between added tokens goes through normalizer, tokens again, pre-tokenizer and model.
Status Tokenizer::Impl::encode(std::string_view text, bool parse_special,
                               std::vector<int32_t>& ids) const {
  const Matchers& matchers = parse_special ? all : plain;
  EncodeScratch scratch;
  std::vector<TokenMatcher::Piece> pieces;
  std::vector<TokenMatcher::Piece> inner;
  matchers.raw.split(text, pieces);
  for (const TokenMatcher::Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    std::string normal(text.substr(piece.begin, piece.end - piece.begin));
    FATHOM_RETURN_IF_ERROR(normalizer.apply(normal));
    inner.clear();
    matchers.normalized.split(normal, inner);
    for (const TokenMatcher::Piece& part : inner) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const bool at_start = piece.begin == 0 && part.begin == 0;
      FATHOM_RETURN_IF_ERROR(
          encode_words(normal.substr(part.begin, part.end - part.begin), at_start, scratch, ids));
    }
  }
  return {};
}

Status Tokenizer::Impl::encode_words(std::string text, bool at_start, EncodeScratch& scratch,
                                     std::vector<int32_t>& ids) const {
  FATHOM_RETURN_IF_ERROR(
      pre_tokenizer.split(std::move(text), at_start, scratch.pre_tokenizer, scratch.words));
  for (const std::string_view word : scratch.words.words) {
    FATHOM_RETURN_IF_ERROR(model.encode(word, scratch.model, ids));
  }
  return {};
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && is_special(id)) continue;
    bytes += token_bytes(id);
  }
  size_t strip = 0;
  while (strip < leading_strip() && strip < bytes.size() && bytes[strip] == ' ') ++strip;
  bytes.erase(0, strip);
  return repair_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const auto& ends = impl_->byte_ends;
  const size_t begin = id == 0 ? 0 : ends[static_cast<size_t>(id) - 1];
  return std::string_view(impl_->bytes).substr(begin, ends[static_cast<size_t>(id)] - begin);
}

std::string_view Tokenizer::token_text(int32_t id) const {
  const auto added = impl_->added_by_id.find(id);
  if (added != impl_->added_by_id.end()) return impl_->added[added->second].content;
  return impl_->model.vocabulary().text(id);
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  return impl_->token_id(token);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto added = impl_->added_by_id.find(id);
  return added != impl_->added_by_id.end() && impl_->added[added->second].special;
}

bool Tokenizer::is_control(int32_t id) const {
  const auto added = impl_->added_by_id.find(id);
  return added != impl_->added_by_id.end() && impl_->added[added->second].is_control();
}

bool Tokenizer::is_added(int32_t id) const {
  return impl_->added_by_id.count(id) > 0;
}
size_t Tokenizer::leading_strip() const {
  return impl_->decoder.leading_strip();
}
int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(impl_->byte_ends.size());
}
std::optional<int32_t> Tokenizer::bos_id() const {
  return impl_->bos;
}
std::optional<int32_t> Tokenizer::eos_id() const {
  return impl_->eos;
}
std::optional<int32_t> Tokenizer::pad_id() const {
  return impl_->pad;
}

bool Tokenizer::adds_bos() const {
  return impl_->bos && !impl_->before.empty() && impl_->before.front() == *impl_->bos;
}

bool Tokenizer::wants_bos() const {
  return adds_bos() || impl_->add_bos_token;
}

bool Tokenizer::adds_eos() const {
  return impl_->eos && !impl_->after.empty() && impl_->after.back() == *impl_->eos;
}

}  // namespace fathom
