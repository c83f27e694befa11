// Builds a Tokenizer from the texts of its two files and checks that they agree.
#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_json.h"

namespace fathom {
namespace {

constexpr int kMaxNesting = 16;

nlohmann::json component(const TokenizerJson& file, const char* key) {
  const auto found = file.rest.find(key);
  return found == file.rest.end() ? nlohmann::json() : *found;
}

}  // namespace

Result<std::unique_ptr<Tokenizer::Impl>> Tokenizer::Impl::build(std::string_view json,
                                                                std::string_view config) {
  FATHOM_ASSIGN(const TokenizerJson file, read_tokenizer_json(json));
  const nlohmann::json model = component(file, "model");
  if (!model.is_object()) return error(Code::kCorrupt, "model is missing or is not an object");
  // Files older than this key hold BPE, the only model with merges.
  const std::string type = model.value("type", file.has_merges ? "BPE" : "without a type");
  if (type != "BPE") {
    return error(Code::kUnsupported,
                 "model.type " + in_quotes(type) + " is not supported, only BPE is");
  }
  auto impl = std::make_unique<Impl>();
  FATHOM_ASSIGN(impl->normalizer, Normalizer::read(component(file, "normalizer")));
  FATHOM_ASSIGN(impl->pre_tokenizer, PreTokenizer::read(component(file, "pre_tokenizer")));
  FATHOM_ASSIGN(impl->model, BpeModel::build(file, impl->pre_tokenizer.ends_in_bytes()));
  FATHOM_ASSIGN(impl->decoder, TokenDecoder::read(component(file, "decoder")));
  FATHOM_TRY(impl->add_tokens(file));
  FATHOM_TRY(impl->build_matchers());
  FATHOM_TRY(impl->build_bytes());
  const nlohmann::json post_processor = component(file, "post_processor");
  impl->has_post_processor = !post_processor.is_null();
  if (impl->has_post_processor) {
    FATHOM_TRY(impl->read_post_processor(post_processor, "post_processor", 0));
  }
  if (!config.empty()) FATHOM_TRY(impl->read_config(config));
  return impl;
}

std::optional<int32_t> Tokenizer::Impl::token_id(std::string_view token) const {
  const auto found = added_ids.find(token);
  if (found != added_ids.end()) return found->second;
  return model.vocabulary().find(token);
}

Status Tokenizer::Impl::add_tokens(const TokenizerJson& file) {
  FATHOM_ASSIGN_OR_STATUS(added, read_added_tokens(file.rest));
  const uint64_t limit = (model.vocabulary().count() + added.size()) * 4 + (1 << 16);
  for (size_t i = 0; i < added.size(); ++i) {
    AddedToken& token = added[i];
    const std::string what =
        "the added token " + in_quotes(token.content) + " has id " + std::to_string(token.id);
    const std::optional<int32_t> base = model.vocabulary().find(token.content);
    if (base && *base != token.id) {
      return {Code::kCorrupt, what + ", but model.vocab gives it " + std::to_string(*base)};
    }
    if (!base && model.vocabulary().has(token.id)) {
      return {Code::kCorrupt, what + ", which model.vocab gives to " +
                                  in_quotes(std::string(model.vocabulary().text(token.id)))};
    }
    if (static_cast<uint64_t>(token.id) >= limit) {
      return {Code::kCorrupt, what + ", far beyond the number of tokens"};
    }
    if (token.normalized) FATHOM_RETURN_IF_ERROR(normalizer.apply(token.pattern));
    added_by_id.emplace(token.id, i);
    added_ids.emplace(token.content, token.id);
  }
  return {};
}

Status Tokenizer::Impl::build_matchers() {
  for (const bool only_plain : {false, true}) {
    std::vector<const AddedToken*> raw;
    std::vector<const AddedToken*> normalized;
    for (const AddedToken& token : added) {
      if (token.pattern.empty() || (only_plain && token.is_control())) continue;
      (token.normalized ? normalized : raw).push_back(&token);
    }
    Matchers& matchers = only_plain ? plain : all;
    FATHOM_ASSIGN_OR_STATUS(matchers.raw, TokenMatcher::build(raw));
    FATHOM_ASSIGN_OR_STATUS(matchers.normalized, TokenMatcher::build(normalized));
  }
  return {};
}

// An added token stands for its own text (as normalized): taking it for letters of the byte
// alphabet would make one-letter tokens like "ø" a stray byte, as the library does.
Status Tokenizer::Impl::build_bytes() {
  int32_t size = model.vocabulary().size();
  for (const AddedToken& token : added) size = std::max(size, token.id + 1);
  byte_ends.reserve(static_cast<size_t>(size));
  for (int32_t id = 0; id < size; ++id) {
    const auto found = added_by_id.find(id);
    if (found != added_by_id.end()) {
      const AddedToken& token = added[found->second];
      std::string letters;
      const bool as_letters =
          normalizer.has_byte_level() && from_byte_letters(token.pattern, letters);
      bytes += as_letters ? letters : token.pattern;
    } else if (model.vocabulary().has(id)) {
      bytes += decoder.bytes_of(model.vocabulary().text(id));
    }
    if (bytes.size() > UINT32_MAX) return {Code::kCorrupt, "the tokens stand for more than 4 GiB"};
    byte_ends.push_back(static_cast<uint32_t>(bytes.size()));
  }
  return {};
}

Status Tokenizer::Impl::read_post_processor(const nlohmann::json& post_processor,
                                            const std::string& where, int depth) {
  FATHOM_ASSIGN_OR_STATUS(const std::string type, json_type(post_processor, where));
  if (type == "ByteLevel") return {};  // it only trims offsets
  if (type == "TemplateProcessing") return read_template(post_processor, where);
  if (type != "Sequence") {
    return {Code::kUnsupported, where + ".type " + in_quotes(type) + " is not supported"};
  }
  if (depth > kMaxNesting) return {Code::kCorrupt, where + " is nested too deeply"};
  FATHOM_ASSIGN_OR_STATUS(const nlohmann::json* list,
                          json_array(post_processor, "processors", where));
  for (size_t i = 0; i < list->size(); ++i) {
    FATHOM_RETURN_IF_ERROR(read_post_processor(
        (*list)[i], where + ".processors[" + std::to_string(i) + "]", depth + 1));
  }
  return {};
}

// A template wraps what the processors before it have made.
Status Tokenizer::Impl::read_template(const nlohmann::json& component, const std::string& where) {
  FATHOM_ASSIGN_OR_STATUS(const nlohmann::json* pieces, json_array(component, "single", where));
  std::vector<int32_t> front;
  size_t sequences = 0;
  for (size_t i = 0; i < pieces->size(); ++i) {
    const nlohmann::json& piece = (*pieces)[i];
    const std::string place = where + ".single[" + std::to_string(i) + "]";
    if (piece.is_object() && piece.contains("Sequence")) {
      const nlohmann::json& sequence = piece["Sequence"];
      if (!sequence.is_object() || sequence.value("id", "") != "A" || ++sequences > 1) {
        return {Code::kUnsupported, place + " is not the only sequence, A"};
      }
      continue;
    }
    FATHOM_ASSIGN_OR_STATUS(const std::vector<int32_t> ids, template_ids(component, piece, place));
    std::vector<int32_t>& side = sequences == 0 ? front : after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (sequences == 0)
    return {Code::kUnsupported, where + ".single does not contain the sequence A"};
  before.insert(before.begin(), front.begin(), front.end());
  return {};
}

Result<std::vector<int32_t>> Tokenizer::Impl::template_ids(const nlohmann::json& component,
                                                           const nlohmann::json& piece,
                                                           const std::string& where) const {
  if (!piece.is_object() || !piece.contains("SpecialToken") || !piece["SpecialToken"].is_object()) {
    return error(Code::kCorrupt, where + " is neither a Sequence nor a SpecialToken");
  }
  FATHOM_ASSIGN(const std::string name, json_string(piece["SpecialToken"], "id", where));
  const auto tokens = component.find("special_tokens");
  if (tokens == component.end() || !tokens->is_object() || !tokens->contains(name)) {
    return error(Code::kCorrupt,
                 where + " names " + in_quotes(name) + ", which special_tokens lacks");
  }
  FATHOM_ASSIGN(const nlohmann::json* list, json_array((*tokens)[name], "ids", where));
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= byte_ends.size()) {
      return error(Code::kCorrupt,
                   where + " names " + in_quotes(name) + " with an id that is no token");
    }
    ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return ids;
}

Status Tokenizer::Impl::read_config(std::string_view text) {
  const nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) return {Code::kCorrupt, "tokenizer_config.json is not a JSON object"};
  const auto read_id = [&](const char* key) -> std::optional<int32_t> {
    const auto found = config.find(key);
    if (found == config.end()) return std::nullopt;
    if (found->is_string()) return token_id(found->get_ref<const std::string&>());
    if (!found->is_object() || !found->contains("content") || !(*found)["content"].is_string()) {
      return std::nullopt;
    }
    return token_id((*found)["content"].get_ref<const std::string&>());
  };
  bos = read_id("bos_token");
  eos = read_id("eos_token");
  pad = read_id("pad_token");
  const auto flag = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() && found->get<bool>();
  };
  add_bos_token = bos && flag("add_bos_token");
  if (has_post_processor) return {};
  if (add_bos_token) before.push_back(*bos);
  if (eos && flag("add_eos_token")) after.push_back(*eos);
  return {};
}

}  // namespace fathom
